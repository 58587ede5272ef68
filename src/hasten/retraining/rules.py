"""What a retraining comes to: whether the head has learned anything, and what more samples would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.accuracy import Change
from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark
from hasten.retraining import words
from hasten.retraining.facts import HEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.remark import Remark
    from hasten.retraining.facts import RetrainFound, Way

NAME: Final = "retraining"


def finding_of(found: RetrainFound) -> Finding:
    """Whether the head is better than chance and than the most common class; and how it stands beside neighbors."""
    accuracy = found.accuracy
    facts = {
        "metric": accuracy.metric,
        "test": accuracy.test,
        "interval": list(accuracy.interval),
        "samples": accuracy.test_samples,
        "way": found.name,
    }
    changes = {rival.name: rival.change for rival in found.baselines}
    majority = changes.get("majority")
    if majority is not None and majority.change is not Change.BETTER:
        return Finding(NAME, Standing.UNDECIDED, remark(words.BY_MAJORITY, **facts))
    if not found.multi_label and accuracy.interval[0] <= 1 / max(1, len(found.classes)):
        return Finding(NAME, Standing.UNDECIDED, remark(words.BY_CHANCE, **facts, classes=len(found.classes)))
    against = {name: change.as_data() for name, change in changes.items() if name != "majority"}
    told = {name: {"difference": one["difference"], "ci95": one["ci95"]} for name, one in against.items()}
    return Finding(NAME, Standing.IMPROVED, remark(words.FITS, **facts, against=told))


def more_samples(found: RetrainFound) -> Remark | None:
    """What the last doubling of the samples brought, as far as there was one."""
    if found.doubling is None:
        return None
    change = found.doubling
    code = words.MORE_HELPS if change.change is Change.BETTER else words.MORE_UNPROVEN
    return remark(code, change={"difference": change.difference, "ci95": [change.low, change.high]})


def lost_by_integers(found: RetrainFound) -> Remark | None:
    """What quantizing the backbone cost, where that was done."""
    if found.float_accuracy is None:
        return None
    return remark(words.LOST_BY_INTEGERS, before=found.float_accuracy.test, after=found.accuracy.test)


def recommended(ways: Sequence[Way]) -> Way:
    """The way to take: the best of those that are proven better than the head alone, else the head alone."""
    head = next(way for way in ways if way.name == HEAD)
    better = [way for way in ways if way.change is not None and way.change.change is Change.BETTER]
    return max(better, key=lambda way: way.test, default=head)


def way_remarks(ways: Sequence[Way]) -> list[Remark]:
    """How each way stands beside the head alone."""
    found = []
    for way in ways:
        if way.change is None:
            continue
        code = words.BETTER_WAY if way.change.change is Change.BETTER else words.NO_BETTER_WAY
        told = {"difference": way.change.difference, "ci95": [way.change.low, way.change.high]}
        found.append(remark(code, way=way.name, change=told))
    return found

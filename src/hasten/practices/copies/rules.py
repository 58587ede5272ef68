"""Which way to feed and read a model: the plainest without a copy, unless another one saves what matters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hasten.core.finding import Finding, Standing
from hasten.core.remark import Remark, remark
from hasten.practices.copies.facts import BOTH, IN, OUT, CopyRow
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.statistics import Interval
    from hasten.practices.copies.facts import CopiesFound
    from hasten.practices.practice import Evidence
    from hasten.runner.copy_ways import Way

NAME: Final = "copies"
MATTERS: Final = 0.01
"""From this share of one inference on, a cost is worth somebody's work."""
# Without a copy of their own, from the plainest on: one further down must prove to save something to be preferred.
IN_PLACE: Final = ("views", "locked", "host")
THROUGH_RUNNER: Final = ("host", "locked")
"""The ways that hasten.Runner goes."""
# What applications do by default.
_USUAL: Final = ("copying", "buffers")


def measured_row(way: Way, direction: str, cost_us: Interval, inference_us: float) -> CopyRow:
    """A row from a cost that was measured. Nothing costs less than nothing: a difference below 0 is noise."""
    name = {IN: way.feeding, OUT: way.reading}.get(direction, way.pair or way.feeding)
    if cost_us.high < 0:
        return CopyRow(way.key, name, direction, reason=remark("copies.unclear"), fault=way.fault)
    us, low = max(cost_us.estimate, 0.0), max(cost_us.low, 0.0) if math.isfinite(cost_us.low) else cost_us.low
    share = us / inference_us if inference_us else None
    return CopyRow(way.key, name, direction, us, (low, cost_us.high), share, fault=way.fault)


def refused_row(way: Way, reason: Remark) -> CopyRow:
    """A row for a way that cannot be gone."""
    direction = BOTH if way.reading or way.key == "signature" else IN
    return CopyRow(way.key, way.pair or way.feeding, direction, reason=reason, fault=way.fault)


def recommended_way(rows: Sequence[CopyRow], inference_us: float) -> str:
    """The key of the plainest way in place, unless another proves to save as much as matters; empty for none."""
    costs = _costs(rows)
    chosen = ""
    for key in IN_PLACE:
        if key in costs and (not chosen or _saves(costs[chosen], costs[key], inference_us)):
            chosen = key
    return chosen


def finding_of(found: CopiesFound) -> Finding:
    """What the costs come to for an application that calls set_tensor, invoke, get_tensor."""
    costs = _costs(found.rows)
    recommended = recommended_way(found.rows, found.inference_us)
    if not recommended:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("copies.none-in-place"))
    best = costs[recommended]
    usual = next((costs[key] for key in _USUAL if key in costs), best)
    facts = {"usual": usual.key, "usual_us": usual.us, "usual_share": usual.share}
    if not _saves(usual, best, found.inference_us):
        cheapest = min((costs[key] for key in IN_PLACE if key in costs), key=lambda row: row.us or 0.0)
        if _saved_us(usual, cheapest) >= MATTERS * found.inference_us > 0:
            saved = _saved(usual, cheapest, found.inference_us)
            return Finding(NAME, Standing.UNDECIDED, remark("copies.undecided", **facts, best=cheapest.key, **saved))
        alone = {} if usual is best else {"matters": MATTERS}
        return Finding(NAME, Standing.GOOD, remark("copies.cheap", **facts, **alone))
    saved = _saved(usual, best, found.inference_us)
    # A plainer way was taken although another one seems to cost less: the sentence says why.
    plainest = {"matters": MATTERS} if any(_saved_us(best, costs[key]) > 0 for key in IN_PLACE if key in costs) else {}
    told = remark("copies.saves", **facts, best=best.key, best_us=best.us, **saved, **plainest)
    return Finding(NAME, Standing.TO_DO, told)


def advised_way(found: CopiesFound) -> str:
    """The key of the way to use; empty where the usual one can stay, or a saving is not proven."""
    finding = finding_of(found)
    recommended = recommended_way(found.rows, found.inference_us)
    is_usual = finding.remark.facts.get("usual") == recommended
    return recommended if finding.standing is Standing.TO_DO or is_usual else ""


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with this practice: a tuning alone says nothing about it."""
    return not_examined(NAME)


def _costs(rows: Sequence[CopyRow]) -> dict[str, CopyRow]:
    return {row.key: row for row in rows if row.direction == BOTH and row.us is not None}


def _saved_us(now: CopyRow, other: CopyRow) -> float:
    return (now.us or 0.0) - (other.us or 0.0)


def _saved(now: CopyRow, other: CopyRow, inference_us: float) -> dict[str, float]:
    """What the other saves, as facts."""
    return {"saved_us": _saved_us(now, other), "saved_share": _saved_us(now, other) / inference_us}


def _saves(now: CopyRow, other: CopyRow, inference_us: float) -> bool:
    """Whether the other costs less by as much as matters, with intervals that do not overlap."""
    if now.us is None or other.us is None or now.ci95_us is None or other.ci95_us is None:
        return False
    return other.ci95_us[1] < now.ci95_us[0] and _saved_us(now, other) >= MATTERS * inference_us

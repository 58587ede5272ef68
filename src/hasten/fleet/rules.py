"""Pure decisions about a fleet: which choices there are, and which one serves all devices.

A choice is judged by ratios of times that were formed on one device: against the original there, and against that
device's own best. Absolute times of two devices never meet. Two rules:

- **worst case**: the choice whose largest slowdown against any device's own best is the smallest. (The smallest speedup
  over the original would be that of a device on which nothing helps, and would say nothing about the others.)
- **weighted**: the choice with the smallest weighted geometric mean of the ratios. Whether they are ratios to the
  original or to each device's best does not matter here: the choice is the same.

Only a choice that ran on every device that has a result, and may be chosen there for its accuracy, can serve all. The
original stays unless another choice is proven faster: the 95 % interval of its mean ratio lies below 1.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Comparison, Verdict
from hasten.core.errors import UsageError
from hasten.core.floor import FloorState
from hasten.core.remark import Remark, remark
from hasten.core.trial import ORIGINAL, trial_id
from hasten.fleet.facts import WEIGHTED, WORST_CASE, Choice, FleetDevice, FleetFound, FleetTrial, SingleChoice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.plan import Plan

_ITSELF: Final = Comparison(Verdict.SAME, 1.0, (1.0, 1.0), 0.0, 0)


def shares(devices: Sequence[str], given: Mapping[str, float]) -> dict[str, float]:
    """The weight of each device as a share; devices without one count 1."""
    if unknown := sorted(set(given) - set(devices)):
        raise UsageError(
            f"The fleet has no device {unknown[0]!r} to weigh.", f"Weigh one of: {', '.join(sorted(devices))}."
        )
    weights = {name: float(given.get(name, 1.0)) for name in devices}
    total = sum(weights.values())
    if total <= 0 or min(weights.values(), default=0.0) < 0:
        raise UsageError("The weights of the devices must be above 0.", "Give weights such as --weight NAME=3.")
    return {name: weight / total for name, weight in weights.items()}


def named_choices(base: tuple[Plan, str, int], devices: Sequence[FleetDevice]) -> tuple[Choice, ...]:
    """The original as it runs now (its plan, content and size), and each device's best; equal ones once.

    Variants of one name can have other content (other nodes stay in float): those get the name of their device.
    """
    plan, sha256, size = base
    found = {(sha256, plan): Choice(trial_id(ORIGINAL, plan), ORIGINAL, plan, sha256, size)}
    for device in devices:
        if device.best is None:
            continue
        best = device.best
        made = Choice(best.id, best.variant, best.plan, best.sha256, best.size_bytes)
        known = found.get((best.sha256, best.plan), made)
        found[best.sha256, best.plan] = replace(known, devices=(*known.devices, device.name))
    names = Counter(choice.id for choice in found.values())
    return tuple(
        replace(choice, id=f"{choice.id} ({choice.devices[0]})") if names[choice.id] > 1 and choice.devices else choice
        for choice in found.values()
    )


def with_base(found: FleetFound) -> FleetFound:
    """The trials, with those of the original as it runs now: by definition it is as fast as itself."""
    base, trials = found.choices[0].id, list(found.trials)
    for device in found.usable:
        if found.trial_of(base, device.name) is not None or device.original is None:
            continue
        best = found.trial_of(device.best_id, device.name)
        # Where the race there failed, the device's own tuning knows.
        against = best.against if best is not None and best.against is not None else device.final
        than_best = _ITSELF if device.best_id == base else None if against is None else _inverse(against)
        latency = device.original.latency
        trials.append(FleetTrial(base, device.name, latency, _ITSELF, than_best, FloorState.KEPT))
    return replace(found, trials=tuple(trials))


def _inverse(comparison: Comparison) -> Comparison:
    """The first against the second, from the second against the first."""
    turned = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    low, high = comparison.ci95
    return replace(
        comparison,
        verdict=turned.get(comparison.verdict, comparison.verdict),
        ratio=1 / comparison.ratio,
        ci95=(1 / high if high > 0 else math.inf, 1 / low if low > 0 else math.inf),
    )


def with_single_choices(found: FleetFound) -> FleetFound:
    """The fleet with the choice for all, by both rules; none where no choice runs everywhere at the accuracy asked."""
    known = with_base(found)
    rows = [row for choice in known.choices if (row := _row(known, choice)) is not None]
    rows = [row for row in rows if row.choice == known.choices[0].id or row.ci95[1] < 1]
    if not rows:
        return known
    # Among equals the one that comes first is the simplest: the original is.
    worst = min(rows, key=lambda row: row.worst_ratio)
    weighted = min(rows, key=lambda row: row.ratio)
    return replace(
        known,
        worst_case=replace(worst, rule=WORST_CASE, score=worst.worst_ratio),
        weighted=replace(weighted, rule=WEIGHTED, score=weighted.ratio),
        notes=(*known.notes, *_unsure(rows, weighted)),
    )


def _row(found: FleetFound, choice: Choice) -> SingleChoice | None:
    """A choice on all devices; None where it does not run on one, or must not be chosen there."""
    trials = [found.trial_of(choice.id, device.name) for device in found.usable]
    if not trials or any(trial is None or not trial.may_be_chosen or trial.than_best is None for trial in trials):
        return None
    ratio, ci95 = _weighted_ratio([trial for trial in trials if trial is not None], found.weights)
    worst = max((trial for trial in trials if trial is not None), key=_slowdown)
    assert worst.than_best is not None, "looked for above"
    return SingleChoice("", choice.id, ratio, ci95, worst.than_best.ratio, worst.than_best.ci95, worst.device)


def _slowdown(trial: FleetTrial) -> float:
    return math.inf if trial.than_best is None else trial.than_best.ratio


def _weighted_ratio(trials: Sequence[FleetTrial], weights: Mapping[str, float]) -> tuple[float, tuple[float, float]]:
    """The weighted geometric mean of the ratios to the original, with its interval.

    Devices err independently of each other, so the half widths of the logarithms add like the sides of a right angle.
    """
    total = sum(weights.get(trial.device, 0.0) for trial in trials) or 1.0
    estimate, square = 0.0, 0.0
    for trial in trials:
        assert trial.against is not None, "it may be chosen"
        weight = weights.get(trial.device, 0.0) / total
        level = math.log(trial.against.ratio)
        estimate += weight * level
        if weight:
            square += (weight * _half_width(level, trial.against.ci95)) ** 2
    half = math.sqrt(square)
    bounds = (math.exp(estimate - half), math.exp(estimate + half)) if math.isfinite(half) else (0.0, math.inf)
    return math.exp(estimate), bounds


def _half_width(level: float, ci95: tuple[float, float]) -> float:
    low, high = ci95
    if not (0 < low <= high < math.inf):
        return math.inf
    return max(math.log(high) - level, level - math.log(low), 0.0)


def _unsure(rows: Sequence[SingleChoice], best: SingleChoice) -> list[Remark]:
    """What must be known of a choice that another could be as good as."""
    rivals = [row.choice for row in rows if row.choice != best.choice and row.ci95[0] < best.ci95[1]]
    return [remark("fleet.close", choice=best.choice, rivals=rivals)] if rivals else []


def same_machines(hosts: Mapping[str, str]) -> list[Remark]:
    """Local devices of one machine: they disturb each other. `hosts` has the machine's name of each."""
    by_host: dict[str, list[str]] = {}
    for device, host in hosts.items():
        by_host.setdefault(host, []).append(device)
    return [remark("fleet.same-machine", devices=sorted(names)) for names in by_host.values() if len(names) > 1]

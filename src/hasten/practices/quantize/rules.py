"""Decisions about variants: which one to use, which are worth a mix with float, how the model stands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import finite, to_data
from hasten.core.comparison import DEFAULT_MARGIN, Verdict, compare_levels
from hasten.core.finding import Finding, Standing
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.remark import Remark, remark
from hasten.core.trial import NOTHING, ORIGINAL, Purpose, Status
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.trial import Trial
    from hasten.practices.practice import Evidence
    from hasten.practices.quantize.facts import QuantizeFound

NAME: Final = "quantize"
_STANDINGS: Final = {
    Verdict.FASTER: Standing.IMPROVED,
    Verdict.SAME: Standing.GOOD,
    Verdict.SLOWER: Standing.GOOD,
    Verdict.UNDECIDED: Standing.UNDECIDED,
}


def is_better(trial: Trial, best: Trial, goal: Goal) -> bool:
    """Whether a variant serves the goal better, whatever its accuracy."""
    if goal is Goal.SIZE:
        return 0 < trial.size_bytes < best.size_bytes
    if trial.against is None or trial.against.verdict is not Verdict.FASTER:
        return False
    # Less than the margin is no news: then the earlier one, which is the simpler recipe, stays.
    return best.against is None or trial.against.ratio < best.against.ratio * (1 - DEFAULT_MARGIN)


def choose(trials: Iterable[Trial], goal: Goal) -> Trial:
    """The best whose accuracy allows it; the original, the first of them, where no other does better."""
    best, *others = trials
    for trial in others:
        if trial.may_be_chosen and trial.path and is_better(trial, best, goal):
            best = trial
    return best


def worth_mixing(trials: Sequence[Trial], goal: Goal) -> list[Trial]:
    """Variants that would be better than the choice if their accuracy allowed it, the best first."""
    best = choose(trials, goal)
    refused = [one for one in trials if one.is_refused and not one.is_step and len(one.nodes) > 1]
    refused = [one for one in refused if one.purpose is not Purpose.HEAD]  # a mix would lose the new head
    promising = [one for one in refused if is_better(one, best, goal) and not runs_like(one, best)]
    return sorted(promising, key=lambda one: _promise(one, best, goal))


def runs_like(trial: Trial, best: Trial) -> bool:
    """Whether the choice runs the same kernels already: then the trial's lead is noise, and a mix of it has fewer."""
    if trial.nodes != best.nodes or best.recipe not in RECIPE_NAMES or trial.recipe not in RECIPE_NAMES:
        return False
    return recipe_from_name(trial.recipe).kernels == recipe_from_name(best.recipe).kernels


def with_slow_nodes(trials: Sequence[Trial]) -> Trial | None:
    """The static int8 variant to improve on by leaving slow nodes in float: one that may be chosen if there is one,
    then the fastest, and among equals the one that loses least."""
    known = [one for one in trials if one.path and one.purpose is Purpose.RECIPE and one.recipe in RECIPE_NAMES]
    timed = [one for one in known if one.against is not None and one.floor is not FloorState.FAILED]
    return min((one for one in timed if recipe_from_name(one.recipe).is_static_int8), key=_preference, default=None)


def choice(trials: Sequence[Trial], goal: Goal) -> Remark:
    """Why this one."""
    best, original = choose(trials, goal), trials[0]
    if best is original:
        return _why_none(trials, goal)
    return chosen_remark(best, original)


def chosen_remark(best: Trial, original: Trial) -> Remark:
    """What the chosen variant brings."""
    known = bool(original.size_bytes and best.size_bytes)
    return remark(
        "quantize.chosen",
        **origin(best),
        size=best.size_bytes / original.size_bytes - 1 if known else None,
        verdict=None if best.against is None else best.against.verdict.value,
        ratio=None if best.against is None else ratio_facts(best.against.ratio, best.against.ci95),
        accuracy=accuracy_facts(best),
    )


def accuracy_facts(trial: Trial) -> dict[str, Any] | None:
    """How a trial stands against the floor, as facts of a remark; None where nothing was judged."""
    verdict, known = trial.floor_verdict, trial.accuracy
    if verdict is None or known is None:
        return None
    figure = {"metric": known.metric, "kind": known.kind.value, "on": trial.accuracy_on}
    return {**to_data(verdict), **figure, "optimistic": trial.optimistic}


def ratio_facts(ratio: float, ci95: tuple[float, float]) -> dict[str, Any]:
    """A ratio of times as facts of a remark; after a single process it has no bounds."""
    return {"ratio": ratio, "ci95": [finite(bound) for bound in ci95]}


def origin(trial: Trial) -> dict[str, Any]:
    """What a variant is made of, as facts of a remark."""
    made = {"variant": trial.variant, "recipe": trial.recipe, "float_nodes": len(trial.float_nodes)}
    return {**made, "rewritten": True} if trial.purpose is Purpose.REWRITE else made


def finding_of(found: QuantizeFound) -> Finding:
    """How the model stands with this practice, after a search for variants."""
    trials = found.trials
    if found.already != NOTHING:
        return Finding(NAME, Standing.GOOD, found.already)
    told = choice(trials, found.goal)
    judged = [trial for trial in trials[1:] if trial.floor not in (FloorState.NOT_JUDGED, FloorState.FAILED)]
    unknown = trials[0].why != NOTHING or any(trial.floor is FloorState.UNKNOWN for trial in trials)
    if unknown or not judged:
        return Finding(NAME, Standing.NOT_EXAMINED, told)
    return Finding(NAME, Standing.IMPROVED if found.chosen != ORIGINAL else Standing.GOOD, told)


def verdict(known: Evidence) -> Finding:
    """Whether a variant pays on this device and keeps the accuracy."""
    if known.already != NOTHING:
        return Finding(NAME, Standing.GOOD, known.already)
    variants = [trial for trial in known.trials if not trial.computes_as_original]
    made = [trial for trial in variants if trial.latency is not None]
    if not made:
        failed = [trial for trial in variants if trial.status is Status.FAILED]
        told = remark("quantize.none-runs", why=to_data(failed[0].why)) if failed else remark("quantize.not-examined")
        return Finding(NAME, Standing.NOT_EXAMINED, told)
    if not known.best.computes_as_original:
        return _chosen(known)
    return _not_chosen(known, made)


def _chosen(known: Evidence) -> Finding:
    """What the chosen variant brings, against the original on the same plan, as the plan is other practices' gain; and
    against the best of the originals where none runs there."""
    best = known.before_rewriting(known.best)
    told = chosen_remark(best, known.base)
    if best.plan == known.base.plan and not best.source and best.against is not None:
        return Finding(NAME, _STANDINGS[best.against.verdict], told)
    rest = [trial for trial in known.originals if trial.latency is not None and trial.may_be_chosen]
    other = known.on_same_plan(best) or min(rest, key=lambda trial: trial.median_ms, default=known.base)
    found = compare_levels(other.levels, best.levels, known.base.levels)
    gain = Verdict.UNDECIDED if found is None else found.verdict
    facts = {
        **told.facts,
        "verdict": gain.value,
        "ratio": None if found is None else ratio_facts(found.ratio, found.ci95),
    }
    return Finding(NAME, _STANDINGS[gain], remark(told.code, **facts))


def _not_chosen(known: Evidence, made: list[Trial]) -> Finding:
    """Why the original stays."""
    gains = {trial.id: known.verdict_on(trial, same) for trial in made if (same := known.on_same_plan(trial))}
    faster = [one for one in made if gains.get(one.id) is Verdict.FASTER and one.median_ms < known.best.median_ms]
    floors = {trial.floor for trial in made}
    if faster and FloorState.UNKNOWN in floors and not any(trial.may_be_chosen for trial in made):
        return Finding(NAME, Standing.TO_DO, _faster("quantize.no-data", known, faster))
    broken = [one for one in faster if one.floor is FloorState.BROKEN]
    if broken:
        return Finding(NAME, Standing.TO_DO, _faster("quantize.breaks-floor", known, broken))
    refused = [one for one in faster if one.is_refused]
    if refused:
        return Finding(NAME, Standing.UNDECIDED, _faster("quantize.floor-undecided", known, refused))
    count = len({trial.variant for trial in made})
    # A confirmation that came to no verdict does not make it slow.
    fastest = min(_not_broken(made), key=lambda trial: trial.median_ms, default=None)
    if fastest is not None and known.verdict_on(fastest, known.best) in (Verdict.UNDECIDED, Verdict.FASTER):
        return Finding(NAME, Standing.UNDECIDED, remark("quantize.undecided", count=count, variant=fastest.variant))
    return Finding(NAME, Standing.GOOD, remark("quantize.none-faster", count=count))


def _not_broken(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.floor not in (FloorState.BROKEN, FloorState.FAILED)]


def _faster(code: str, known: Evidence, trials: Sequence[Trial]) -> Remark:
    """The fastest of these, with its gain over the original on the same plan; over the best where that plan is a bad
    one, as nobody would run the original there."""
    trial = min(trials, key=lambda one: one.median_ms)
    others = [one.median_ms for one in (known.on_same_plan(trial), known.best) if one is not None and one.median_ms]
    ratio = trial.median_ms / min(others) if others else math.nan
    return remark(code, **origin(trial), ratio={"ratio": ratio}, why=to_data(trial.why))


def _why_none(trials: Sequence[Trial], goal: Goal) -> Remark:
    """Why no variant is chosen."""
    original, *variants = trials
    judged = [trial for trial in variants if trial.floor not in (FloorState.NOT_JUDGED, FloorState.FAILED)]
    if not judged:
        failed = next((trial for trial in variants if trial.floor is FloorState.FAILED), None)
        if failed is None:
            return remark("quantize.none-judged")
        return remark("quantize.none-made", variant=failed.variant, why=to_data(failed.why))
    if original.why != NOTHING:
        return remark("quantize.undecidable", why=to_data(original.why))
    if any(trial.floor is FloorState.UNKNOWN for trial in judged):
        return remark("quantize.unknown-accuracy")
    kept = [trial for trial in judged if trial.may_be_chosen and trial.path]
    if not kept and any(trial.floor is FloorState.UNDECIDED for trial in judged):
        return remark("quantize.all-undecided")
    if not kept:
        return remark("quantize.none-keeps-floor")
    if goal is Goal.SIZE:
        return remark("quantize.none-smaller")
    smallest = min(kept, key=lambda trial: trial.size_bytes)
    smaller = smallest.size_bytes < original.size_bytes
    return remark(
        "quantize.none-proven-faster",
        smallest={"variant": smallest.variant, "size": smallest.size_bytes} if smaller else None,
    )


def _promise(trial: Trial, best: Trial, goal: Goal) -> tuple[float, float]:
    """The gain in steps of a tenth, then what was lost: among equals, the one nearest to the floor."""
    by_speed = trial.against.ratio if trial.against else math.inf
    gain = trial.size_bytes / max(1, best.size_bytes) if goal is Goal.SIZE else by_speed
    return round(gain, 1), math.inf if trial.drop is None else trial.drop


def _preference(trial: Trial) -> tuple[bool, float, float]:
    assert trial.against is not None
    return not trial.may_be_chosen, round(trial.against.ratio, 1), trial.drop or 0.0

"""Decisions about accelerators: the remarks on each, when its start-up is repaid, and which one to use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.comparison import Verdict
from hasten.core.contention import BEYOND_LOAD
from hasten.core.doubts import MORE_CORES
from hasten.core.finding import Finding, Standing
from hasten.core.floor import FloorState
from hasten.core.goal import Goal, goal_in
from hasten.core.limits import keeps_limit
from hasten.core.remark import Remark, remark
from hasten.core.trial import NOTHING
from hasten.core.trial import Status as TrialStatus
from hasten.practices.accelerators.facts import BASE, YARDSTICKS, Status, has_more_threads
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.plan import Plan
    from hasten.core.trial import Trial
    from hasten.practices.accelerators.facts import AcceleratorRow, AcceleratorsFound, LadderPoint
    from hasten.practices.practice import Evidence

NAME: Final = "accelerators"
_STAY: Final = "accelerators.stay"
_LARGE_ERROR: Final = 0.05
# Not too large to recommend it, and more than half precision explains.
_NOTABLE_ERROR: Final = 0.01


def break_even_runs(start_ms: float, run_ms: float, other_start_ms: float, other_run_ms: float) -> int | None:
    """After how many runs a longer start-up is repaid by faster runs; None if it never is, 0 if there is no debt."""
    saved = other_run_ms - run_ms
    debt = start_ms - other_start_ms
    if saved <= 0:
        return None
    return max(0, math.ceil(debt / saved))


def why_of(row: AcceleratorRow, *, chooses: bool) -> Remark:
    """All that is to be said of a row that was timed. `chooses`: whether the model's outputs may be choices."""
    if row.failure is not None:
        rounds = row.latency.processes if row.latency is not None else 0
        told = {"message": row.failure.message, "hint": row.failure.hint}
        return remark("accelerators.failed-later", rounds=rounds, **told)
    parts = [_error(row, chooses=chooses), _left(row)]
    if row.outputs_change:
        parts.append(remark("accelerators.outputs-change"))
    if row.against is not None:
        parts.append(remark("accelerators.speed", **_speed(row)))
    parts += [doubt for doubt in row.doubts if doubt.code == MORE_CORES]
    if row.cached_start_ms is not None and row.start_ms is not None:
        parts.append(remark("accelerators.cached", start_ms=row.start_ms, cached_ms=row.cached_start_ms))
    if row.stand_in:
        parts.append(remark("accelerators.stand-in", what=row.stand_in))
    return together([part for part in parts if part is not None])


def together(parts: Sequence[Remark]) -> Remark:
    """Several remarks as one; none as an empty one."""
    told = [{"code": part.code, "facts": dict(part.facts)} for part in parts]
    return remark("accelerators.parts", parts=told) if told else Remark("")


def _error(row: AcceleratorRow, *, chooses: bool) -> Remark | None:
    if row.status is Status.WRONG and row.max_error is None:
        return remark("accelerators.no-numbers")
    if row.status is Status.WRONG:
        return remark("accelerators.wrong", error=row.typical_error)
    if row.status is Status.IMPRECISE:
        return remark("accelerators.imprecise", error=row.max_error, chooses=chooses)
    if (row.max_error or 0.0) <= _LARGE_ERROR:
        return None
    return remark("accelerators.choices" if chooses else "accelerators.imprecise", error=row.max_error, chooses=chooses)


def _left(row: AcceleratorRow) -> Remark | None:
    on_cpu = row.plan.runs_on_cpu
    if row.refused:
        return remark("accelerators.left", operators=list(row.refused), on_cpu=on_cpu)
    if row.placed_ops is None:
        return remark("accelerators.placement-unknown")
    left = (row.total_ops or 0) - row.placed_ops
    return remark("accelerators.left-count", count=left, on_cpu=on_cpu) if left else None


def _speed(row: AcceleratorRow) -> dict[str, Any]:
    against = row.against
    assert against is not None
    ci95 = list(against.ci95) if math.isfinite(against.ci95[1]) else None
    facts = {
        "verdict": against.verdict.value,
        "ratio": {"ratio": against.ratio, "ci95": ci95},
        "break_even_runs": row.break_even_runs,
    }
    return facts if row.cpu_threads is None else {**facts, "cpu_threads": row.cpu_threads}


def pays_from(points: Sequence[LadderPoint]) -> int | None:
    """The smallest size from which on it proves to be faster; None if it does not even at the largest."""
    found = None
    for point in reversed(points):
        if point.against_cpu.verdict is not Verdict.FASTER:
            break
        found = point.macs
    return found


def ladder_remarks(row: AcceleratorRow) -> list[Remark]:
    """What the ladder of sizes says, for networks like the ones that were timed; none where it was not asked for."""
    trouble = [row.ladder_trouble] if row.ladder_trouble else []
    if not row.ladder:
        return [remark("accelerators.pays-unknown"), *trouble] if trouble else []
    smallest, largest = row.ladder[0].macs, row.ladder[-1].macs
    if row.pays_from_macs is None:
        sizes = {verdict.value: _sizes_with(row.ladder, verdict) for verdict in Verdict}
        if sizes["faster"] or sizes["undecided"]:
            return [remark("accelerators.pays-at", **sizes), *trouble]
        return [remark("accelerators.pays-nowhere", smallest=smallest, largest=largest), *trouble]
    if row.pays_from_macs == smallest:
        return [remark("accelerators.pays-everywhere", smallest=smallest), *trouble]
    below = max(point.macs for point in row.ladder if point.macs < row.pays_from_macs)
    return [remark("accelerators.pays-from", macs=row.pays_from_macs, below=below), *trouble]


def _sizes_with(points: Sequence[LadderPoint], verdict: Verdict) -> list[int]:
    return [point.macs for point in points if point.against_cpu.verdict is verdict]


def comparison_of_outputs(found: AcceleratorsFound) -> Remark:
    """What the outputs were really compared with, and on which inputs; or that they were not."""
    compared = [row for row in found.rows if row.compared_with]
    if compared:
        yardstick = compared[0].compared_with
        absent = [
            name for name in YARDSTICKS[: YARDSTICKS.index(yardstick)] if any(it.name == name for it in found.rows)
        ]
        return remark("accelerators.compared", yardstick=yardstick, inputs=found.compared_on, absent=absent)
    if any(row.max_error is not None for row in found.rows):  # an older release did not keep with what
        return remark("accelerators.compared", yardstick="", inputs=found.compared_on, absent=[])
    ran = [row.name for row in found.rows if row.latency is not None]
    return remark("accelerators.not-compared", ran=ran)


def recommend(rows: Sequence[AcceleratorRow]) -> tuple[str | None, Remark]:
    """The row to use, and why. XNNPACK stays, perhaps with more threads, unless another is right and proves faster."""
    base = next((row for row in rows if row.name == BASE), None)
    if base is None or not _ran(base) or base.status is Status.WRONG:
        return _without_base(rows, base)
    ran = [row for row in rows if _ran(row) and row is not base and _is_an_option(row)]
    faster = [row for row in ran if _is_faster(row) and _is_right(row)]
    best = min(faster, key=lambda row: row.median_ms, default=base)
    tried = [row for row in ran if not has_more_threads(row.plan, base.plan)]
    conditional = [_condition(row) for row in tried if _needs_a_test(row) and row.median_ms < best.median_ms]
    facts: dict[str, Any] = {"conditional": conditional}
    if best in tried:
        off = {"off": best.max_error} if (best.max_error or 0.0) > _NOTABLE_ERROR else {}
        facts = {**_speed(best), "more_cores": _more_cores(best), **off, **facts}
        return best.name, remark("accelerators.use", name=best.name, **facts)
    facts["tried"] = [row.name for row in tried]
    if best is not base:
        facts["all_cores"] = {"threads": best.plan.threads, **_speed(best)}
    if undecided := [{"name": row.name, **_speed(row)} for row in ran if _may_be_faster(row)]:
        facts["undecided"] = undecided
    return best.name, remark(_STAY, **facts)


def finding_of(rows: Sequence[AcceleratorRow]) -> Finding:
    """What the practice came to, for a model that runs on XNNPACK now."""
    recommended, why = recommend(rows)
    row = next((row for row in rows if row.name == recommended), None)
    if row is None:
        return Finding(NAME, Standing.NOT_EXAMINED, why)
    if row.name != BASE:
        why = Remark(why.code, {**why.facts, "settings": _settings(row.plan)})
    if why.code != _STAY or why.facts["conditional"]:
        return Finding(NAME, Standing.TO_DO, why)
    beyond = [row for row in rows if not row.plan.runs_on_cpu]
    if not any(_ran(row) for row in beyond):
        absent = [row for row in beyond if row.status in (Status.MISSING, Status.FAILED)]
        told = [{"name": row.name, "code": row.why.code, "facts": dict(row.why.facts)} for row in absent]
        threads = {key: why.facts[key] for key in ("all_cores", "settings") if key in why.facts}
        return Finding(NAME, Standing.NOT_EXAMINED, remark("accelerators.none-here", rows=told, **threads))
    if "undecided" in why.facts:
        return Finding(NAME, Standing.UNDECIDED, why)
    return Finding(NAME, Standing.TO_DO if "settings" in why.facts else Standing.GOOD, why)


def _without_base(rows: Sequence[AcceleratorRow], base: AcceleratorRow | None) -> tuple[str | None, Remark]:
    absent: dict[str, Any] = {}
    if base is not None:
        absent = {"base_ran": _ran(base), "base_why": {"code": base.why.code, "facts": dict(base.why.facts)}}
    running = [row for row in rows if _ran(row)]
    right = [row for row in running if _is_right(row)]
    right = [row for row in right if _is_an_option(row)] or right
    if right:
        best = min(right, key=lambda row: row.median_ms)
        return best.name, remark("accelerators.use-fastest", name=best.name, **absent)
    if running:
        return None, remark("accelerators.unchecked", names=[row.name for row in running], **absent)
    return None, remark("accelerators.nothing-runs", **absent)


def _more_cores(row: AcceleratorRow) -> dict[str, Any] | None:
    """That it kept more cores busy than the plan has threads, which nobody should use it without knowing."""
    return next((dict(doubt.facts) for doubt in row.doubts if doubt.code == MORE_CORES), None)


def _condition(row: AcceleratorRow) -> dict[str, Any]:
    """A faster accelerator that is worth a test of its accuracy, and what its outputs differ by."""
    return {"name": row.name, "error": row.max_error, **_speed(row)}


def _settings(plan: Plan) -> str:
    """The plan as options of the command line."""
    if plan.delegate:
        return f"--delegate {plan.delegate}"
    if plan.accelerator != "cpu":
        return f"--accelerator {plan.accelerator}"
    if plan.options:
        return " ".join(f"--option {key}={value}" for key, value in plan.options)
    return f"--threads {plan.threads}" if plan.kernel == "delegate" else f"--kernel {plan.kernel}"


def _ran(row: AcceleratorRow) -> bool:
    """Whether it ran to the end: what failed while it was timed has a latency, too."""
    return row.latency is not None and row.status is not Status.FAILED


def _is_right(row: AcceleratorRow) -> bool:
    """Whether its outputs are the yardstick's, or nearly so."""
    if row.status not in (Status.RUNS, Status.PARTIAL):
        return False
    return row.name in YARDSTICKS if row.max_error is None else row.max_error <= _LARGE_ERROR


def _needs_a_test(row: AcceleratorRow) -> bool:
    """Whether it is faster, and only an accuracy on real data can tell if its outputs are good enough."""
    off = row.status is not Status.WRONG and row.max_error is not None and not _is_right(row)
    return off and _is_faster(row)


def _is_an_option(row: AcceleratorRow) -> bool:
    """The reference kernels are the yardstick for outputs; on tiny models only their thinner interface is faster."""
    return row.plan.kernel != "reference"


def _is_faster(row: AcceleratorRow) -> bool:
    return row.against is not None and row.against.verdict is Verdict.FASTER


def _may_be_faster(row: AcceleratorRow) -> bool:
    """Whether it could be of use, and its rounds do not tell if it is faster."""
    against = row.against
    if row.status is Status.WRONG or against is None or against.verdict is not Verdict.UNDECIDED:
        return False
    return against.ratio < BEYOND_LOAD


def verdict(known: Evidence) -> Finding:
    """Whether an accelerator beats the choice of a tuning; of a choice that runs on one, whether that pays."""
    if known.best.plan.accelerator != "cpu":
        return _of_the_choice(known)
    tried = _fastest_of_each([trial for trial in known.trials if trial.plan.accelerator != "cpu"])
    if not tried:
        return not_examined(NAME)
    ran = [trial for trial in tried if trial.latency is not None]
    waiting = [trial.plan.accelerator for trial in tried if _is_waiting(trial)]
    yardstick = _yardstick(known)
    facts: dict[str, Any] = {"rows": [_row(trial, yardstick) for trial in tried]}
    if yardstick.id != known.best.id:
        facts["threads"] = yardstick.plan.threads
    if not ran:
        code = "accelerators.none-timed" if waiting else "accelerators.none-runs"
        return Finding(NAME, Standing.NOT_EXAMINED, remark(code, **facts))
    verdicts = {trial.id: _verdict_on(known, trial, yardstick) for trial in ran if trial.id != yardstick.id}
    faster = [trial for trial in ran if verdicts.get(trial.id) is Verdict.FASTER]
    if any(trial.floor is FloorState.UNKNOWN for trial in faster):
        return Finding(NAME, Standing.TO_DO, remark("accelerators.no-data", **facts))
    refused = any(trial.is_refused for trial in faster)
    if refused and not waiting:
        return Finding(NAME, Standing.GOOD, remark("accelerators.none-accurate", **facts))
    if faster and not refused:
        return _left_out(known, faster[0], facts)
    open_ones = [trial.plan.accelerator for trial in ran if verdicts.get(trial.id) is Verdict.UNDECIDED]
    if undecided := [*open_ones, *waiting]:
        facts["undecided"] = undecided
        return Finding(NAME, Standing.UNDECIDED, remark("accelerators.undecided", **facts))
    return Finding(NAME, Standing.GOOD, remark("accelerators.none-faster", **facts))


def _left_out(known: Evidence, faster: Trial, facts: dict[str, Any]) -> Finding:
    """A faster accelerator that the goal, a limit or the confirmation kept from being chosen."""
    facts = {**facts, "faster": faster.plan.accelerator, **_against_choosing(known, faster)}
    if "limit" in facts:  # the trial's own reason, which is then told already
        facts["rows"] = [{**row, "why": "" if row["name"] == facts["faster"] else row["why"]} for row in facts["rows"]]
    told = "limit" in facts or "goal" in facts or faster.why.code
    undecided = not told or faster.why.facts.get("verdict") == Verdict.UNDECIDED.value
    return Finding(NAME, Standing.UNDECIDED if undecided else Standing.GOOD, remark("accelerators.left-out", **facts))


def _against_choosing(known: Evidence, trial: Trial) -> dict[str, Any]:
    for goal, most in known.limits.items():
        amount = trial.amount(goal)
        if amount is not None and keeps_limit(goal, most, amount) is False:
            return {"limit": goal.value, "asked": most, "value": amount.value}
    return {} if known.goal is Goal.LATENCY else {"goal": known.goal.value}


def _yardstick(known: Evidence) -> Trial:
    """What an accelerator has to beat: the choice, or the same model on the CPU with threads that look faster.

    Where other programs keep more threads from being chosen, their gain is still not the accelerator's.
    """
    if not known.best.plan.runs_on_cpu:  # but on a delegate of the user's own
        return known.best
    alike = [one for one in _on_cpu(known) if one.plan.kernel == known.best.plan.kernel]
    return min([known.best, *alike], key=lambda one: one.median_ms)


def _of_the_choice(known: Evidence) -> Finding:
    """The chosen model on its accelerator against the same model on the CPU."""
    best, on_cpu = known.best, _on_cpu(known)
    elsewhere = [one for one in known.trials if one.plan.accelerator not in ("cpu", best.plan.accelerator)]
    facts: dict[str, Any] = {"name": best.plan.accelerator, "median_ms": best.median_ms}
    facts["rows"] = [_row(trial, best) for trial in _fastest_of_each(elsewhere)]
    if not on_cpu:
        return Finding(NAME, Standing.UNDECIDED, remark("accelerators.choice-alone", **facts))
    than = min(on_cpu, key=lambda one: one.median_ms)
    undecided = known.verdict_on(best, than) is Verdict.UNDECIDED and not _has_lost(known, than, best)
    facts |= {"cpu_ms": than.median_ms, "threads": than.plan.threads, "undecided": undecided}
    if undecided:
        return Finding(NAME, Standing.UNDECIDED, remark("accelerators.choice-undecided", **facts))
    return Finding(NAME, Standing.GOOD, remark("accelerators.choice", **facts))


def _verdict_on(known: Evidence, trial: Trial, than: Trial) -> Verdict:
    found = known.verdict_on(trial, than)
    return Verdict.SLOWER if found is Verdict.UNDECIDED and _has_lost(known, trial, than) else found


def _has_lost(known: Evidence, trial: Trial, rival: Trial) -> bool:
    """Whether the race dropped a trial for being slower than the rival, or than one that is slower itself. It asks for
    fewer rounds than a verdict does, but not for less of a difference; what other load may have made counts nowhere."""
    trials, passed = {one.id: one for one in known.trials}, {trial.id}
    while trial.why.code == "trial.slower" and goal_in(trial.why.facts) is Goal.LATENCY and not _is_withheld(trial):
        than = trials.get(trial.why.facts["than"])
        if than is None or than.id in passed:
            return False
        if than.id == rival.id or known.verdict_on(than, rival) is Verdict.SLOWER:
            return True
        passed.add(than.id)
        trial = than
    return False


def _is_withheld(trial: Trial) -> bool:
    return trial.against is not None and trial.against.is_withheld


def _on_cpu(known: Evidence) -> list[Trial]:
    """The chosen model with all plans of the CPU that ran."""
    alike = [one for one in known.trials if one.variant == known.best.variant and one.latency is not None]
    return [one for one in alike if one.plan.runs_on_cpu]


def _fastest_of_each(trials: Sequence[Trial]) -> list[Trial]:
    """For each accelerator its fastest trial; one that breaks the floor only if all do."""
    found: dict[str, Trial] = {}
    for trial in sorted(trials, key=lambda one: (one.floor is FloorState.BROKEN, one.median_ms)):
        found.setdefault(trial.plan.accelerator, trial)
    return list(found.values())


def _is_waiting(trial: Trial) -> bool:
    """Whether its turn has not come, or it got none for lack of time: nothing is known against it."""
    return trial.latency is None and trial.why == NOTHING


def _row(trial: Trial, best: Trial) -> dict[str, Any]:
    ran = trial.latency is not None
    return {
        "name": trial.plan.accelerator,
        "median_ms": trial.median_ms if ran else None,
        "ratio": trial.median_ms / best.median_ms if ran and best.median_ms else None,
        "why": "" if ran and trial.status in (TrialStatus.TIMED, TrialStatus.KEPT) else to_data(trial.why),
    }

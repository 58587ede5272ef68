"""Threads and accelerators that pay: threads on one model in the middle, accelerators on those of the front.

The answers of an accelerator are those of other kernels. So a published accuracy does not hold there: a model on an
accelerator is a row of its own, with an accuracy only if that is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import FEWEST_WHEN_CLEAR, Verdict
from hasten.core.contention import compare_measurements
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.statistics import Interval
from hasten.measure.race import OUT_OF_THE_RACE, run_race
from hasten.measure.rounds import Rounds
from hasten.measure.schedule import now
from hasten.practices.choose.candidates import Contender, on_plan
from hasten.practices.choose.facts import PlanRow, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate, Track

ACCELERATORS: Final = ("npu", "gpu")
_PROBED_SECONDS: Final = 0.05
_PROBED_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class Threads:
    """The number of threads for all models, and what each number came to on one of them."""

    count: int
    rows: tuple[PlanRow, ...] = ()


def thread_counts(cores: int) -> list[int]:
    """1, 2, 4, … and all cores."""
    return sorted({*(2**power for power in range(cores.bit_length())), cores})


def settle_threads(
    contender: Contender, effort: Effort, seconds: float, earlier: Mapping[str, Measurement]
) -> Threads | Failure:
    """The number of threads that pays for a model: more must prove to be faster. What an earlier run of the session
    has measured decides again."""
    counts = thread_counts(effort.target.machine().cores)
    if len(counts) == 1:
        return Threads(counts[0])
    candidates = [_labeled(contender, replace(contender.candidate.plan, threads=count)) for count in counts]
    known = {one.label: earlier[one.label] for one in candidates if one.label in earlier}
    if len(known) < len(candidates) or any(known[one.label].model.sha256 != one.model.sha256 for one in candidates):
        found = _raced(candidates, effort, seconds)
        if isinstance(found, Failure):
            return found
        known = found
    return _decided(contender.name, [known[one.label] for one in candidates if one.label in known])


def _labeled(contender: Contender, plan: Plan) -> Candidate:
    return replace(contender.candidate, label=f"{contender.name}, {plan.describe()}", plan=plan)


def _raced(candidates: Sequence[Candidate], effort: Effort, seconds: float) -> dict[str, Measurement] | Failure:
    rounds = Rounds(effort.target, candidates, effort.clock)

    def first(race: Rounds) -> Track:
        return race.tracks[0]

    def tell(state: str) -> None:
        effort.progress(0.0, f"threads: {state}")

    run_race(rounds, now() + seconds, base=first, fewest=FEWEST_WHEN_CLEAR, tell=tell, keep=effort.keep)
    found = {track.candidate.label: track.result() for track in rounds.tracks}
    measured = {label: one for label, one in found.items() if not isinstance(one, Failure)}
    failure = found[candidates[0].label]
    return failure if isinstance(failure, Failure) else measured


def _decided(model: str, measured: Sequence[Measurement]) -> Threads:
    """From the fewest up: the next one leads if it is faster by the usual verdict."""
    base = leader = measured[0]
    for found in measured[1:]:
        if compare_measurements(leader, found, base).verdict is Verdict.FASTER:
            leader = found
    rows = tuple(_row(model, found, base, leader) for found in measured)
    return Threads(leader.plan.threads, rows)


def _row(model: str, found: Measurement, base: Measurement, leader: Measurement) -> PlanRow:
    against = None if found is base else compare_measurements(base, found)
    return PlanRow(model, found.plan, found.samples.beside(base.samples).latency, against, used=found is leader)


def probe(contender: Contender, accelerator: str, latency_ms: float, effort: Effort) -> Contender | PlanRow:
    """A model on an accelerator, as a contender of its own; or why it is not worth a race."""
    cores = effort.target.machine().cores
    moved = on_plan(contender, accelerator=accelerator, threads=cores, kernel="delegate", delegate="")
    try:
        with effort.target.start(moved.candidate.plan) as runner:
            load = runner.load(moved.candidate.path, moved.candidate.workload)
            run_ms = load.first_run_ms
            if run_ms > OUT_OF_THE_RACE * latency_ms:  # the first run may be slow for good reasons
                run_ms = min(runner.block(_PROBED_SECONDS, _PROBED_RUNS).nanoseconds) / 1e6
    except RunnerFailed as failed:
        return PlanRow(contender.row.model, moved.candidate.plan, trouble=failed.failure.message)
    if run_ms > OUT_OF_THE_RACE * latency_ms:
        only_seen = Interval(run_ms, float("-inf"), float("inf"))
        return PlanRow(contender.row.model, moved.candidate.plan, only_seen)
    name = f"{contender.name}, {accelerator}"
    row = replace(
        moved.row,
        name=name,
        accuracy=None,
        accuracy_source=Source.UNKNOWN,
        weights="",
        cited="",
        license="",
        reference=contender.name,
    )
    return Contender(row, replace(moved.candidate, label=name), contender.data)

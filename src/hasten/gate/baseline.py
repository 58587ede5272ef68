"""A latency against the runs of an older session.

They were not interleaved, so what differs from run to run (heat, neighbors, memory layout) is not shared: the verdict
allows for it, and only runs on a like machine count at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.codec import from_data
from hasten.core.contention import busy_cores, is_contended
from hasten.core.measurement import Measurement
from hasten.core.remark import Remark, remark
from hasten.core.session import UNREADABLE, damage_as_error, merged_rounds, read_session
from hasten.core.statistics import Interval, student_quantile
from hasten.gate.facts import GateVerdict, Row
from hasten.gate.rules import (
    CLEAR,
    CONFIDENCE,
    FEWEST_PROCESSES,
    FEWEST_WHEN_CLEAR,
    Figure,
    contention,
    figure_row,
    limited,
    time_range,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.core.measurement import Model
    from hasten.measure.rounds import Candidate

# What must be alike for two times to be comparable at all.
_ALIKE: Final = ("cpu", "architecture", "cores", "litert")
# Where the session has too few runs to show how much they differ: a standard deviation that covers a shared machine.
# Twelve runs in a row on a quiet one had 0.4 %, but days, reboots and neighbors lie between a session and the next.
_ASSUMED_SPREAD: Final = 0.05
_LEAST_SPREAD: Final = 0.01
FEWEST_RUNS_FOR_A_SPREAD: Final = 4
_NORMAL_99: Final = 2.576
_NORMAL_95: Final = 1.960


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """An older measurement, and the machine that it was made on; empty where the session does not say."""

    measurement: Measurement
    environment: dict[str, Any]


def baseline_runs(path: Path) -> list[BaselineRun]:
    """All measurements of a session, each with the environment that was written before it."""
    with damage_as_error(str(path)):
        lines = merged_rounds(read_session(path).lines)
    environment: dict[str, Any] = {}
    runs = []
    for trial in lines:
        if trial.kind == "environment":
            environment = trial.data
        elif trial.kind == "measurement" and not trial.data.get("interrupted"):
            try:
                run = BaselineRun(from_data(Measurement, trial.data), environment)
                if _has_latency(run):
                    runs.append(run)
            except UNREADABLE:
                continue  # a measurement of a later hasten: one that cannot be read cannot be compared
    return runs


def _has_latency(run: BaselineRun) -> bool:
    """Whether there is a latency. All else that a verdict takes is looked at once: what has another form raises."""
    found = run.measurement
    hash((_file(found.model), found.model.sha256, is_contended(found), _standard_error(found)))
    return found.samples.median_ms > 0


def session_row(name: str, runs: Sequence[BaselineRun], now: BaselineRun, margin: float) -> Row:
    """The latency against an older session's: undecided where the two cannot be compared, with the reason."""
    like = _like_runs(runs, now.measurement, now.environment)
    if isinstance(like, Remark):
        return Row("latency", "ratio", None, None, 1 + margin, GateVerdict.UNDECIDED, like, against=name)
    return _compared(name, like, now.measurement, margin)


def can_be_compared(runs: Sequence[BaselineRun], candidate: Candidate, environment: dict[str, Any]) -> bool:
    """Whether any number of processes of a candidate could be compared with these runs."""
    return not isinstance(_like_runs(runs, candidate, environment), Remark)


def _like_runs(
    runs: Sequence[BaselineRun], now: Measurement | Candidate, environment: dict[str, Any]
) -> Sequence[BaselineRun] | Remark:
    """The runs to compare with; or why there are none."""
    if not runs:
        return remark("gate.session-empty")
    same_plan = [run for run in runs if (run.measurement.plan, run.measurement.workload) == (now.plan, now.workload)]
    if not same_plan:
        return remark("gate.session-other-plan")
    differences = [_difference(run.environment, environment) for run in same_plan]
    alike = [run for run, differs in zip(same_plan, differences, strict=True) if differs is None]
    if not alike and differences[-1] is not None:
        return differences[-1]
    of_file = [run for run in alike if _file(run.measurement.model) == _file(now.model)]
    if not of_file and len({run.measurement.model.sha256 for run in alike}) > 1:
        return remark("gate.session-other-models")
    return of_file or alike


def _compared(name: str, runs: Sequence[BaselineRun], found: Measurement, margin: float) -> Row:
    runs = [run for run in runs if not is_contended(run.measurement)] or runs
    before = np.log([run.measurement.samples.median_ms for run in runs])
    difference = math.log(found.samples.median_ms) - float(before.mean())
    allowance, spread = _allowance(runs, before, found)
    counted = len(runs) if len(runs) >= FEWEST_RUNS_FOR_A_SPREAD else 0
    ends = (math.exp(difference - allowance), math.exp(difference + allowance))
    ratio = math.exp(difference)
    if (processes := found.samples.processes) < FEWEST_PROCESSES:
        # Processes differ by more than the runs of one of them can show.
        row = limited("latency", "ratio", 1 + margin, name)
        usual_ms = math.exp(float(before.mean()))
        least_ms, most_ms = time_range(found.samples)
        figure = Figure(
            Interval(ratio, *ends),
            least_ms / usual_ms,
            most_ms / usual_ms,
            processes,
            contention=contention(found),
            baseline_contention=contention(runs[0].measurement),
        )
        return figure_row(row, figure, min(processes, FEWEST_WHEN_CLEAR))
    if ends[0] > 1 + margin and is_contended(found):  # the earlier runs may have had the cores for themselves
        verdict, why = GateVerdict.UNDECIDED, remark("gate.contended", cores=busy_cores(found))
    elif ends[0] > 1 + margin:
        verdict, why = GateVerdict.FAILED, remark("gate.session-slower", by=ratio - 1, spread=spread, runs=counted)
    elif ends[1] <= (1 + margin) * _least_seen(runs):
        verdict, why = GateVerdict.PASSED, remark("gate.session-kept", spread=spread, runs=counted)
    elif ends[1] <= 1 + margin:
        cores = max(busy_cores(run.measurement) for run in runs)
        verdict, why = GateVerdict.UNDECIDED, remark("gate.session-contended", cores=cores)
    else:
        verdict = GateVerdict.UNDECIDED
        why = remark("gate.session-noise", hidden=math.expm1(allowance), spread=spread, runs=counted)
    return Row("latency", "ratio", ratio, ends, 1 + margin, verdict, why, confidence=CONFIDENCE, against=name)


def _least_seen(runs: Sequence[BaselineRun]) -> float:
    """The part of a slowdown that is surely seen, where other programs had slowed all of these runs."""
    if not is_contended(runs[0].measurement):
        return 1.0
    found = [contention(run.measurement) for run in runs]
    return min(0.0 if load is None else load.share / CLEAR for load in found)


def _allowance(
    runs: Sequence[BaselineRun], before: np.ndarray[Any, np.dtype[np.float64]], found: Measurement
) -> tuple[float, float]:
    """Half the 99 % interval of a difference in logarithms, and the spread between runs that it allows for."""
    count = len(runs)
    if count >= FEWEST_RUNS_FOR_A_SPREAD:
        # The interval for one more run: those before show how runs differ, and this one may be less sure than they are.
        spread = max(float(before.std(ddof=1)), _LEAST_SPREAD)
        noise = math.hypot(spread * math.sqrt(1 + 1 / count), _standard_error(found))
        return student_quantile(count - 1, 0.99) * noise, spread
    within = _standard_error(found) ** 2 + sum(_standard_error(run.measurement) ** 2 for run in runs) / count**2
    return _NORMAL_99 * math.sqrt(_ASSUMED_SPREAD**2 * (1 + 1 / count) + within), _ASSUMED_SPREAD


def _standard_error(found: Measurement) -> float:
    width = found.samples.latency.relative_half_width
    return width / _NORMAL_95 if math.isfinite(width) else _ASSUMED_SPREAD


def _difference(before: dict[str, Any], now: dict[str, Any]) -> Remark | None:
    """What makes two machines unlike; None if nothing does."""
    for part in _ALIKE:
        if before.get(part) is None or before[part] != now.get(part):
            return remark("gate.session-unlike", part=part, before=before.get(part), now=now.get(part))
    return None


def _file(model: Model) -> str:
    return model.path.replace("\\", "/").rpartition("/")[2]

"""A latency against runs that an older session holds. They were not interleaved, so what differs from run to run (heat,
neighbours, where memory lies) is not shared: it has to be allowed for, and only runs on a like machine count at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.codec import from_data
from hasten.core.measurement import Measurement
from hasten.core.statistics import student_quantile
from hasten.core.units import percent
from hasten.gate.rules import CONFIDENCE, GateVerdict, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.session import Session

# What must be alike for two times to be comparable at all.
_ALIKE: Final = {"cpu": "CPU", "architecture": "architecture", "cores": "cores", "litert": "LiteRT"}
# Where the session has too few runs to show how much they differ: a standard deviation that covers a shared machine.
# Twelve runs in a row on a quiet one had 0.4 %, but days, reboots and neighbours lie between a session and the next.
_ASSUMED_SPREAD: Final = 0.05
_LEAST_SPREAD: Final = 0.01
FEWEST_RUNS_FOR_A_SPREAD: Final = 4
_NORMAL_99: Final = 2.576
_NORMAL_95: Final = 1.960
_BETTER: Final = "Give the older model itself (--baseline-model), which is timed beside this one."


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """An older measurement, and the machine that it was made on; empty where the session does not say."""

    measurement: Measurement
    environment: dict[str, Any]


def baseline_runs(session: Session) -> list[BaselineRun]:
    """All measurements of a session, each with the environment that was written before it."""
    environment: dict[str, Any] = {}
    runs = []
    for trial in session.trials:
        if trial.kind == "environment":
            environment = trial.data
        elif trial.kind == "measurement" and not trial.data.get("interrupted"):
            try:
                runs.append(BaselineRun(from_data(Measurement, trial.data), environment))
            except (KeyError, TypeError, ValueError):
                continue  # a measurement of a later hasten: one that cannot be read cannot be compared
    return runs


def session_row(name: str, runs: Sequence[BaselineRun], now: BaselineRun, margin: float) -> Row:
    """The latency against an older session's: undecided where the two cannot be compared, with the reason."""
    what = f"latency against {name}"

    def undecided(why: str) -> Row:
        return Row(what, "ratio", None, None, 1 + margin, GateVerdict.UNDECIDED, f"{why}. {_BETTER}")

    found = now.measurement
    same_plan = [
        run for run in runs if (run.measurement.plan, run.measurement.workload) == (found.plan, found.workload)
    ]
    if not same_plan:
        return undecided("it holds no measurement with this plan" if runs else "it holds no measurement")
    differences = [_difference(run.environment, now.environment) for run in same_plan]
    alike = [run for run, differs in zip(same_plan, differences, strict=True) if not differs]
    if not alike:
        return undecided(f"times cannot be compared: {differences[-1]}")
    of_file = [run for run in alike if _file(run) == _file(now)]
    if not of_file and len({run.measurement.model.sha256 for run in alike}) > 1:
        return undecided("it holds several models, and none of this name")
    return _compared(what, of_file or alike, found, margin)


def _compared(what: str, runs: Sequence[BaselineRun], found: Measurement, margin: float) -> Row:
    before = np.log([run.measurement.samples.median_ms for run in runs])
    difference = math.log(found.samples.median_ms) - float(before.mean())
    allowance, why = _allowance(runs, before, found)
    ends = (math.exp(difference - allowance), math.exp(difference + allowance))
    ratio = math.exp(difference)
    if difference - allowance > 0 and ratio > 1 + margin:
        verdict, why = GateVerdict.FAILED, f"slower by {percent(ratio - 1)}, more than {why} explain"
    elif ends[1] <= 1 + margin:
        verdict, why = GateVerdict.PASSED, f"not slower, {why} allowed for"
    else:
        verdict = GateVerdict.UNDECIDED
        why = f"{why} hide differences below {percent(math.expm1(allowance))}. {_BETTER}"
    return Row(what, "ratio", ratio, ends, 1 + margin, verdict, why, confidence=CONFIDENCE)


def _allowance(
    runs: Sequence[BaselineRun], before: np.ndarray[Any, np.dtype[np.float64]], found: Measurement
) -> tuple[float, str]:
    """Half the 99 % interval of a difference in logarithms, and what it allows for."""
    count = len(runs)
    if count >= FEWEST_RUNS_FOR_A_SPREAD:
        # The interval for one more run like those before: they show the noise of a run and that between runs at once.
        spread = max(float(before.std(ddof=1)), _LEAST_SPREAD)
        half = student_quantile(count - 1, 0.99) * spread * math.sqrt(1 + 1 / count)
        return half, f"the {percent(spread)} by which {count} earlier runs differ"
    within = _standard_error(found) ** 2 + sum(_standard_error(run.measurement) ** 2 for run in runs) / count**2
    half = _NORMAL_99 * math.sqrt(_ASSUMED_SPREAD**2 * (1 + 1 / count) + within)
    return half, f"the {percent(_ASSUMED_SPREAD)} by which runs on one machine may differ"


def _standard_error(found: Measurement) -> float:
    width = found.samples.latency.relative_half_width
    return width / _NORMAL_95 if math.isfinite(width) else _ASSUMED_SPREAD


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What makes two machines unlike, in words; empty if nothing does."""
    for key, name in _ALIKE.items():
        if before.get(key) is None:
            return f"the session does not say which {name} it was made with"
        if before[key] != now.get(key):
            return f"{name} was {before[key]}, and is {now.get(key)}"
    return ""


def _file(run: BaselineRun) -> str:
    return run.measurement.model.path.replace("\\", "/").rpartition("/")[2]

"""Repeats a model with other releases of LiteRT: does each run it, with right outputs, and how fast.

Releases take turns in rounds of fresh processes, as candidates do elsewhere, so that what drifts touches all alike.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.comparison import FEWEST_ROUNDS, Verdict, compare_levels
from hasten.core.errors import UsageError
from hasten.core.failure import Failure
from hasten.core.levels import latency_of
from hasten.practices.help.minimize.facts import CRASH, SLOW, WRONG
from hasten.practices.help.outputs import Output, worst_snr_db, wrong_below_db
from hasten.practices.help.releases.facts import ReleaseRow, ReleasesFound, ReleaseStatus
from hasten.practices.help.releases.rules import finding, in_order
from hasten.targets.local import LocalTarget
from hasten.targets.other_releases import ReleaseEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hasten.core.plan import Plan
    from hasten.measure.effort import Effort
    from hasten.targets.other_releases import ReleaseAnswer

    Environments = Callable[[str], ReleaseEnvironment]

_SECONDS_EACH: Final = 0.3
_MOST_ROUNDS: Final = 3 * FEWEST_ROUNDS
_RESOLVERS: Final = {"delegate": "AUTO", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}
_REFERENCE: Final = "BUILTIN_REF"
_SHARE_OF_INSTALLING: Final = 0.5
# A slowdown below this is nothing that anybody would report.
_NOTABLE: Final = 1.05


@dataclass(slots=True)
class _Entry:
    """A release on its way through the rounds."""

    environment: ReleaseEnvironment
    failure: Failure | None = None
    installed: bool = True
    levels: dict[int, float] = field(default_factory=dict)
    snr_db: float | None = None
    is_wrong: bool | None = None
    """None where outputs were not compared."""

    @property
    def runs(self) -> bool:
        return self.installed and self.failure is None


def run(
    model: Path,
    plan: Plan,
    releases: Sequence[str],
    problem: str,
    effort: Effort,
    environments: Environments = ReleaseEnvironment,
) -> ReleasesFound:
    """What each release makes of the model; `problem` is empty where any may be the one."""
    refuse(plan, effort)
    entries = [_Entry(environments(release)) for release in in_order(releases)]
    for number, entry in enumerate(entries):
        effort.progress(_SHARE_OF_INSTALLING * number / len(entries), f"installing LiteRT {entry.environment.release}")
        entry.failure = entry.environment.prepare()
        entry.installed = entry.failure is None
    for turn in range(_MOST_ROUNDS):
        share = _SHARE_OF_INSTALLING + (1 - _SHARE_OF_INSTALLING) * turn / _MOST_ROUNDS
        # Who goes first finds the machine as the one before left it: take turns at that, too.
        for entry in entries if turn % 2 == 0 else reversed(entries):
            if entry.runs:
                effort.progress(share, f"running LiteRT {entry.environment.release}")
                _time(entry, model, plan, turn)
        if turn + 1 >= FEWEST_ROUNDS and _is_decided(entries, problem):
            break
    for entry in entries:
        if entry.runs:
            effort.progress(0.99, f"comparing the outputs of LiteRT {entry.environment.release}")
            _compare(entry, model, plan)
    asked = problem or _problem(entries)
    rows = tuple(_row(entry, entries, asked) for entry in entries)
    return ReleasesFound(asked, rows, finding(rows, asked))


def refuse(plan: Plan, effort: Effort) -> None:
    """Say what other releases cannot be asked, before anything is installed."""
    if effort.target.name != LocalTarget.name or not plan.runs_on_cpu:
        raise UsageError("--versions runs on the CPU of this machine only.", "Leave out --target and --accelerator.")


def _time(entry: _Entry, model: Path, plan: Plan, turn: int) -> None:
    resolver = _RESOLVERS[plan.kernel]
    found = entry.environment.run(model, threads=plan.threads, resolver=resolver, seconds=_SECONDS_EACH)
    if isinstance(found, Failure):
        entry.failure = found
    elif found.nanoseconds:
        entry.levels[turn] = math.log(max(1.0, median(found.nanoseconds)) / 1e6)


def _compare(entry: _Entry, model: Path, plan: Plan) -> None:
    """The release's outputs against those of its own reference kernels; what these cannot run is not compared."""
    answers = [
        entry.environment.run(model, threads=plan.threads, resolver=resolver, seconds=0.0)
        for resolver in (_REFERENCE, _RESOLVERS[plan.kernel])
    ]
    expected, got = answers
    if not isinstance(expected, Failure) and not isinstance(got, Failure):
        entry.snr_db = snr_of(expected, got)
        entry.is_wrong = entry.snr_db < wrong_below_db(_outputs(expected), on_cpu=True)


def snr_of(expected: ReleaseAnswer, got: ReleaseAnswer) -> float:
    """The signal-to-noise ratio of the worst output."""
    return worst_snr_db(_outputs(expected), _outputs(got))


def _outputs(answer: ReleaseAnswer) -> list[Output]:
    return [_output(*output) for output in answer.outputs]


def _output(dtype: str, data: str, zero_point: int | None) -> Output:
    values = np.frombuffer(base64.b64decode(data), np.dtype(dtype))
    return Output(values) if zero_point is None else Output(values.astype(np.float64) - zero_point, 1.0)


def _is_decided(entries: Sequence[_Entry], problem: str) -> bool:
    """Whether more rounds would tell nothing: times do not matter, or are told apart."""
    if problem in (CRASH, WRONG):
        return True
    fastest = _fastest(entries)
    found = [
        compare_levels(fastest.levels, entry.levels)
        for entry in entries
        if fastest is not None and entry is not fastest and entry.runs
    ]
    return all(one is not None and one.verdict is not Verdict.UNDECIDED for one in found)


def _fastest(entries: Sequence[_Entry]) -> _Entry | None:
    return min((entry for entry in entries if entry.levels), key=_level, default=None)


def _problem(entries: Sequence[_Entry]) -> str:
    """The gravest problem that any release shows."""
    if any(entry.installed and entry.failure is not None for entry in entries):
        return CRASH
    return WRONG if any(entry.is_wrong for entry in entries) else SLOW


def _row(entry: _Entry, entries: Sequence[_Entry], problem: str) -> ReleaseRow:
    status = ReleaseStatus.MISSING if not entry.installed else ReleaseStatus.RUNS
    if entry.installed and entry.failure is not None:
        status = ReleaseStatus.FAILS
    fastest = _fastest(entries)
    beside = None if fastest is None or not entry.levels else compare_levels(fastest.levels, entry.levels)
    row = ReleaseRow(
        entry.environment.release,
        status,
        latency=latency_of(entry.levels) if entry.levels else None,
        against_fastest=beside if entry is not fastest else None,
        snr_db=entry.snr_db if entry.snr_db is not None and math.isfinite(entry.snr_db) else None,
        equal=entry.snr_db == math.inf,
        failure=entry.failure,
    )
    return replace(row, shows=_shows(entry, row, problem))


def _level(entry: _Entry) -> float:
    return median(entry.levels.values())


def _shows(entry: _Entry, row: ReleaseRow, problem: str) -> bool | None:
    if row.status is ReleaseStatus.MISSING:
        return None
    if problem == CRASH:
        return row.status is ReleaseStatus.FAILS
    if row.status is ReleaseStatus.FAILS:
        return None
    if problem == WRONG:
        return entry.is_wrong
    found = row.against_fastest
    if found is None:  # the fastest of all
        return False
    if found.verdict is Verdict.UNDECIDED:
        return None
    return found.verdict is Verdict.SLOWER and found.ratio > _NOTABLE

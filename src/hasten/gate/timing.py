"""Time a model against its limits, with its baseline if there is one, until all are decided or the time is up.

Where a limit is undecided because too few processes ran, timing goes on, up to three times the usual time. A process
that has begun is finished; the first one always runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.contention import wanted_cores
from hasten.core.failure import Failure
from hasten.core.levels import above
from hasten.core.remark import remark
from hasten.core.units import several
from hasten.gate.facts import GateVerdict, Limits, Row
from hasten.gate.rules import (
    FEWEST_PROCESSES,
    FEWEST_WHEN_CLEAR,
    LACKING,
    contention,
    figure_row,
    init_figure,
    latency_figure,
    limited,
    memory_row,
    p95_figure,
    ratio_figure,
)
from hasten.measure.compare import ComparisonResult, compared
from hasten.measure.rounds import Candidate, FailedCandidate, Progress, Rounds, no_progress
from hasten.measure.schedule import Schedule

if TYPE_CHECKING:
    from hasten.core.measurement import Measurement
    from hasten.gate.rules import Figure
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 20.0
MOST_TIMES_AS_LONG: Final = 3
"""The bound of timing, in usual times."""
_SECONDS_EACH_A_ROUND: Final = 0.4


class TimedGate:
    """The limits that need timed runs. `rows` says at any time how they stand."""

    def __init__(
        self, target: Target, candidate: Candidate, baseline: Candidate | None, limits: Limits, baseline_name: str = ""
    ) -> None:
        self.candidate, self.baseline, self.limits = candidate, baseline, limits
        self._baseline_name = baseline_name or (baseline.label if baseline is not None else "")
        self.seconds = self.bound_seconds = 0.0
        self._is_memory_exhausted = self._has_ended = False
        self._rounds = Rounds(target, [candidate] if baseline is None else [baseline, candidate])
        self._track = self._rounds.tracks[-1]
        self._peaks_mb: list[float] = []
        self._rows: list[Row] | None = None  # since the last round: to judge takes longer than to ask

    def run(
        self, seconds: float, progress: Progress = no_progress, *, against_session: bool = False
    ) -> FailedCandidate | None:
        """Measure within about this time; or say which candidate failed: one crash in five is no pass.

        Against the runs of a session, it takes as many processes as these can be compared with.
        """
        schedule = Schedule(seconds)
        self.bound_seconds = MOST_TIMES_AS_LONG * seconds
        while schedule.has_round() and not self._is_decided():
            progress(schedule.share, self._state())
            with schedule.round():
                failed = self._run_round()
            self.seconds = schedule.elapsed_s
            if failed is not None:
                return failed
            schedule.seconds = self.bound_seconds if self._lacks_processes(against_session) else seconds
        self._has_ended, self._rows = True, None
        progress(1.0, self._state())
        return None

    def exhaust_memory(self) -> None:
        """Take note that the model needed more memory than a runner may have."""
        self._is_memory_exhausted, self._rows = True, None

    def rows(self) -> list[Row]:
        """Each timed limit, as it stands now."""
        if self._rows is None:
            self._rows = self._judged()
        return list(self._rows)

    def measurement(self) -> Measurement | None:
        """The model's latency with all that belongs to it, once there is one."""
        found = self._track.result()
        if isinstance(found, Failure):
            return None
        return replace(found, peak_memory_mb=max(self._peaks_mb, default=None))

    def comparison(self) -> ComparisonResult | None:
        """The model against its baseline, once both have run."""
        first, second = self._rounds.tracks[0].result(), self.measurement()
        if self.baseline is None or second is None or isinstance(first, Failure):
            return None
        return compared(first, second, self.seconds, self.limits.max_slowdown)

    def _run_round(self) -> FailedCandidate | None:
        self._rounds.run_one(_SECONDS_EACH_A_ROUND)
        self._rows = None
        self._keep_peak()
        for track in self._rounds.tracks:
            if track.failure is not None:
                return FailedCandidate(track.candidate, track.failure)
        return None

    def _keep_peak(self) -> None:
        """The peak of the process that has just ended: the track has the highest of all only, so begin it anew."""
        if self._track.peak_memory_mb is not None:
            self._peaks_mb.append(self._track.peak_memory_mb)
            self._track.peak_memory_mb = None

    def _judged(self) -> list[Row]:
        # One process decides nothing as long as there is time for another.
        fewest = 1 if self._has_ended else FEWEST_WHEN_CLEAR
        rows = self._time_rows(fewest)
        if self.limits.memory_mb is not None and self._is_memory_exhausted:
            why = remark("gate.memory-exhausted")
            rows.append(replace(limited("memory", "MB", self.limits.memory_mb), verdict=GateVerdict.FAILED, why=why))
        elif self.limits.memory_mb is not None:
            rows.append(memory_row(self._peaks_mb, self.limits.memory_mb, fewest))
        if self.baseline is not None:
            row = limited("latency", "ratio", 1 + self.limits.max_slowdown, self._baseline_name)
            rows.append(figure_row(row, self._ratio(), fewest))
        return rows

    def _time_rows(self, fewest: int) -> list[Row]:
        limits, found = self.limits, self.measurement()
        load = None if found is None else contention(found)

        def row(what: str, limit: float, figure: Figure | None) -> Row:
            under_load = None if figure is None else replace(figure, contention=load)
            return figure_row(limited(what, "ms", limit), under_load, fewest)

        rows = []
        if limits.latency_ms is not None:
            rows.append(row("latency", limits.latency_ms, None if found is None else latency_figure(found.samples)))
        if limits.p95_ms is not None:
            rows.append(row("p95", limits.p95_ms, None if found is None else p95_figure(found.samples)))
        if limits.init_ms is not None:
            rows.append(row("init", limits.init_ms, init_figure([one.init_ms for one in self._track.loads])))
        return rows

    def _ratio(self) -> Figure | None:
        first, second = (track.result() for track in self._rounds.tracks)
        if isinstance(first, Failure) or isinstance(second, Failure):
            return None
        figure = ratio_figure(list(above(second.samples.levels, first.samples.levels).values()))
        # Load slows both alike, unless one wants more cores.
        wanted = wanted_cores(first), wanted_cores(second)
        if figure is None or wanted[0] == wanted[1]:
            return figure
        if wanted[0] > wanted[1]:
            return replace(figure, baseline_contention=contention(first))
        return replace(figure, contention=contention(second))

    def _is_decided(self) -> bool:
        # What this system cannot measure at all is not worth waiting for.
        verdicts = {row.verdict for row in self.rows() if row.measured is not None}
        # A broken limit is broken; where all seem kept, one of four processes may still crash.
        fewest = FEWEST_WHEN_CLEAR if GateVerdict.FAILED in verdicts else FEWEST_PROCESSES
        return len(self._track.rounds) >= fewest and GateVerdict.UNDECIDED not in verdicts

    def _lacks_processes(self, against_session: bool) -> bool:
        few = against_session and len(self._track.rounds) < FEWEST_PROCESSES
        return few or any(row.why.code in LACKING for row in self.rows())

    def _state(self) -> str:
        if not self._track.rounds:
            return "first process"
        undecided = [row.name for row in self.rows() if row.verdict is GateVerdict.UNDECIDED]
        state = several(len(self._track.rounds), "process")
        return state + (f", undecided: {', '.join(undecided)}" if undecided else "")

"""Time a model against its limits, with its baseline if there is one, until all are decided or the time is up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Comparison, compare_rounds, log_ratio_of_round
from hasten.core.failure import Failure
from hasten.core.statistics import grouped_interval
from hasten.core.units import several
from hasten.gate.facts import GateVerdict, Limits, Row
from hasten.gate.rules import CONFIDENCE, latency_interval, memory_row, p95_interval, slowdown_row, timed_row
from hasten.measure.compare import ComparisonResult
from hasten.measure.rounds import Candidate, FailedCandidate, Progress, Rounds, no_progress
from hasten.measure.schedule import Schedule

if TYPE_CHECKING:
    from hasten.core.measurement import Measurement
    from hasten.targets.base import Target

DEFAULT_SECONDS: Final = 20.0
_SECONDS_EACH_A_ROUND: Final = 0.4
_FEWEST_ROUNDS: Final = 4


class TimedGate:
    """The limits that need timed runs. `rows` says at any time how they stand."""

    def __init__(
        self, target: Target, candidate: Candidate, baseline: Candidate | None, limits: Limits, baseline_name: str = ""
    ) -> None:
        self.candidate, self.baseline, self.limits = candidate, baseline, limits
        self._baseline_name = baseline_name or (baseline.label if baseline is not None else "")
        self.seconds = 0.0
        self._rounds = Rounds(target, [candidate] if baseline is None else [baseline, candidate])
        self._track = self._rounds.tracks[-1]
        self._log_ratios: list[float] = []
        self._peaks_mb: list[float] = []
        self._rows: list[Row] | None = None  # since the last round: to judge takes longer than to ask

    def run(self, seconds: float, progress: Progress = no_progress) -> FailedCandidate | None:
        """Measure within about this time; or say which candidate failed: one crash in five is no pass."""
        schedule = Schedule(seconds)
        while schedule.has_round() and not self._is_decided():
            progress(schedule.share, self._state())
            with schedule.round():
                failed = self._run_round()
            self.seconds = schedule.elapsed_s
            if failed is not None:
                return failed
        progress(1.0, self._state())
        return None

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
        compared = self._compared()
        if compared is None:
            return None
        first, second = self._rounds.tracks[0].result(), self.measurement()
        assert not isinstance(first, Failure)
        assert second is not None
        return ComparisonResult(compared, first, second, self.seconds)

    def _run_round(self) -> FailedCandidate | None:
        self._rounds.run_one(_SECONDS_EACH_A_ROUND)
        self._rows = None
        self._keep_peak()
        for track in self._rounds.tracks:
            if track.failure is not None:
                return FailedCandidate(track.candidate, track.failure)
        if self.baseline is not None:
            first, second = (track.rounds[-1] for track in self._rounds.tracks)
            self._log_ratios.append(log_ratio_of_round(first, second))
        return None

    def _keep_peak(self) -> None:
        """The peak of the process that has just ended: the track has the highest of all only, so begin it anew."""
        if self._track.peak_memory_mb is not None:
            self._peaks_mb.append(self._track.peak_memory_mb)
            self._track.peak_memory_mb = None

    def _judged(self) -> list[Row]:
        rows = self._time_rows()
        if self.limits.memory_mb is not None:
            rows.append(memory_row(self._peaks_mb, self.limits.memory_mb))
        if self.baseline is not None:
            rows.append(slowdown_row(self._baseline_name, self._compared(), self.limits.max_slowdown))
        return rows

    def _time_rows(self) -> list[Row]:
        limits, found, processes = self.limits, self.measurement(), len(self._track.rounds)
        rows = []
        if limits.latency_ms is not None:
            interval = None if found is None else latency_interval(found.samples, CONFIDENCE)
            # Processes all of whose runs were disturbed say nothing about the latency.
            counted = 0 if found is None else len(found.samples.block_medians_ms)
            rows.append(timed_row("latency", interval, limits.latency_ms, counted))
        if limits.p95_ms is not None:
            interval = None if found is None else p95_interval(found.samples, CONFIDENCE)
            rows.append(timed_row("p95", interval, limits.p95_ms, processes))
        if limits.init_ms is not None:
            times = [load.init_ms for load in self._track.loads]
            interval = grouped_interval([[time] for time in times], CONFIDENCE) if times else None
            rows.append(timed_row("init", interval, limits.init_ms, len(times)))
        return rows

    def _compared(self) -> Comparison | None:
        return compare_rounds(self._log_ratios, self.limits.max_slowdown) if self._log_ratios else None

    def _is_decided(self) -> bool:
        # What this system cannot measure at all is not worth waiting for.
        waiting = (row for row in self.rows() if row.measured is not None)
        enough = len(self._track.rounds) >= _FEWEST_ROUNDS
        return enough and all(row.verdict is not GateVerdict.UNDECIDED for row in waiting)

    def _state(self) -> str:
        if not self._track.rounds:
            return "first process"
        undecided = [row.name for row in self.rows() if row.verdict is GateVerdict.UNDECIDED]
        state = several(len(self._track.rounds), "process")
        return state + (f", undecided: {', '.join(undecided)}" if undecided else "")

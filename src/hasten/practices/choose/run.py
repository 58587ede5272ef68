"""The guide's "Choose the best model for the task": every candidate timed on this device, in one race.

Gather the models, measure or look up their accuracies, find the number of threads that pays, race all of them, and try
accelerators on those of the front. What was measured is saved as it ends, and the same session goes on from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import is_share
from hasten.core.codec import from_data
from hasten.core.comparison import Verdict
from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.measurement import Measurement
from hasten.core.plan import Plan
from hasten.core.remark import Remark, each_once, remark
from hasten.core.session import damage_as_error, merged_rounds
from hasten.gate.run import above_all, environment_of
from hasten.measure.rounds import FailedCandidate
from hasten.measure.schedule import Schedule
from hasten.measure.study import outcome_of
from hasten.practices.choose.accuracies import Accuracies
from hasten.practices.choose.candidates import Contender, Gathering, on_plan
from hasten.practices.choose.facts import DEFAULT_TASK, ChooseFound, ModelRow, Origin, Place, PlanRow, Trouble
from hasten.practices.choose.plans import ACCELERATORS, Threads, probe, settle_threads
from hasten.practices.choose.race import MOST_AT_ONCE, Race
from hasten.practices.choose.rules import NAME, dropped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.core.failure import Failure
    from hasten.core.machine import Machine
    from hasten.core.session import Line
    from hasten.measure.effort import Effort
    from hasten.practices.choose.facts import ChooseRequest
    from hasten.practices.choose.race import Entrant

SECONDS: Final = 150.0
"""For timing. Building models and measuring accuracies comes before."""
_SHORTEST_S: Final = 5.0
_THREADS_SHARE: Final = 0.08
_LONGEST_THREADS_S: Final = 12.0
_ACCELERATORS_SHARE: Final = 0.15
# So many times slower than the CPU with a cheap model, an accelerator will not pay for a dear one.
_HOPELESS: Final = 10.0
# What must be the same for a session to go on: times of two devices do not belong in one race.
_DEVICE: Final = ("target", "cpu", "cores", "litert")


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where files are put, and what an earlier run of the same session holds."""

    built: Path
    """For models of the catalogue, which nobody needs afterwards."""
    made: Path
    """For files that are quantized; the same folder where nothing is to stay."""
    lines: tuple[Line, ...] = ()


def run(request: ChooseRequest, workplace: Workplace, effort: Effort) -> ChooseFound | Failure | FailedCandidate:
    """Time all models; a failure if the target does, or one of the models where none of them runs.

    Raises Interrupted with what was timed until then.
    """
    return outcome_of(_Study(request, workplace, effort))


@dataclass(slots=True)
class _Study:
    """Runs to its end, or until it is interrupted; `found` tells at any time what there is."""

    request: ChooseRequest
    workplace: Workplace
    effort: Effort
    contenders: list[Contender] = field(default_factory=list)
    accuracies: Accuracies = field(default_factory=Accuracies)
    plans: list[PlanRow] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    machine: Machine = field(init=False)
    race: Race = field(init=False)
    schedule: Schedule = field(init=False)
    whole: Schedule = field(init=False)
    """From the very beginning; its seconds limit nothing."""
    earlier: dict[str, Measurement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.whole = Schedule(0.0, clock=self.effort.clock)
        self._begin_timing()

    def _begin_timing(self) -> None:
        """Building and evaluating take what they take; the time that the user gives is for timing. That of a tuning is
        for all of it."""
        seconds = self.effort.seconds_or(SECONDS)
        if self.request.own:
            seconds = max(_SHORTEST_S, seconds - self.whole.elapsed_s)
        self.schedule = Schedule(seconds, clock=self.effort.clock)
        self.race = Race(self.effort, self.schedule, self.accuracies)
        limits = self.request.limits
        self.race.latency_limit_ms = limits.latency_ms
        self.race.size_limit = math.inf if limits.size_bytes is None else limits.size_bytes
        self.race.own = self._own()

    def _own(self) -> str:
        """The name of the model in use, if there is one."""
        rows = (contender.row for contender in self.contenders)
        return next((row.name for row in rows if self.request.own and row.path == self.request.own), "")

    @property
    def has_answer(self) -> bool:
        """Whether anything was timed."""
        return any(entrant.known is not None for entrant in self.race.entrants.values())

    def run(self) -> FailedCandidate | None:
        """All of it; a model that failed, where none of them runs."""
        self.machine = self.effort.target.machine()
        self._open_session()
        self._gather()
        self._evaluate()
        self._refuse_impossible_limit()
        self._begin_timing()
        failed = self._settle_plan()
        if failed is not None:
            return failed
        self.race.enter(self.contenders, self.earlier)
        self.race.run(0.0 if self.request.plan else _ACCELERATORS_SHARE * self.schedule.seconds)
        if not self.has_answer:
            tracks = [entrant.track for entrant in self.race.entrants.values()]
            return next(FailedCandidate(track.candidate, track.failure) for track in tracks if track.failure)
        self._try_accelerators()
        self.effort.progress(1.0, "done")
        return None

    def _open_session(self) -> None:
        here = environment_of(self.effort.target)
        for line in self.workplace.lines:
            there = line.data if line.kind == "environment" else here
            if any(there.get(key) != here.get(key) for key in _DEVICE):
                raise UsageError(
                    "The session was started on another device or release of LiteRT.",
                    "Choose another folder with -o; times of two devices do not belong in one race.",
                )
        task = (self.request.task or DEFAULT_TASK) if self.request.with_catalogue else NAME
        self.effort.keep("settings", NAME, {"command": self.request.command, "model": task})
        self.effort.keep("environment", "", here)
        with damage_as_error(f"in {self.workplace.made.parent}"):
            measured = merged_rounds(line for line in self.workplace.lines if line.kind == "measurement")
            self.earlier = {line.label: from_data(Measurement, line.data) for line in measured}

    def _tell(self, text: str) -> None:
        self.effort.progress(min(self.schedule.share, 0.99) if self.race.entrants else 0.0, text)

    def _gather(self) -> None:
        gathering = Gathering(self.request, self.workplace.built, self.workplace.made, self._tell)
        self.contenders = gathering.run()
        self.troubles += gathering.troubles
        self.notes += gathering.notes

    def _evaluate(self) -> None:
        """The accuracy of every file on the data. One that the data does not fit has none; if it fits none of them,
        the data is what is wrong."""
        self.accuracies.add_published(contender.row for contender in self.contenders)
        errors = [self._measure_accuracy(one) for one in self.contenders if one.data is not None]
        if errors and all(error is not None for error in errors):
            first = errors[0]
            assert first is not None
            raise first

    def _refuse_impossible_limit(self) -> None:
        """No share is above 1. Say so before the race, where 85 most likely means 85 %."""
        limit = self.request.limits.accuracy
        rows = (self.accuracies.row(one.row) for one in self.contenders)
        metrics = {row.accuracy.metric for row in rows if row.accuracy is not None}
        if limit is not None and limit > 1 and metrics and all(map(is_share, metrics)):
            raise above_all(limit).error(Plan())

    def _measure_accuracy(self, contender: Contender) -> HastenError | None:
        if self.accuracies.restore(contender, self.workplace.lines):
            return None

        def progress(share: float, text: str) -> None:
            self._tell(f"accuracy of {contender.name}: {text}")

        try:
            failure = self.accuracies.measure(contender, self.effort, progress)
        except DataError as error:
            self.troubles.append(Trouble(contender.name, error.message))
            return error
        if failure is None:
            return None
        self.troubles.append(Trouble(contender.name, failure.message))
        return failure.error(contender.candidate.plan)

    def _settle_plan(self) -> FailedCandidate | None:
        """Threads, by the first model around the middle that runs; the one that failed last where none does."""
        if self.request.plan is not None:
            return None
        seconds = min(_LONGEST_THREADS_S, _THREADS_SHARE * self.schedule.seconds)
        failed: FailedCandidate | None = None
        for contender in _from_the_middle(self.contenders):
            self._tell(f"threads for {contender.name}")
            found = settle_threads(contender, self.effort, seconds, self.earlier)
            if isinstance(found, Threads):
                self.plans += found.rows
                self.contenders = [on_plan(one, threads=found.count) for one in self.contenders]
                return None
            failed = FailedCandidate(contender.candidate, found)
        return failed

    def _try_accelerators(self) -> None:
        """The models of the front on each accelerator."""
        if self.request.plan is not None:
            return
        entrants = sorted(self._leading(), key=lambda entrant: entrant.contender.row.macs or 0)
        if not self._has_time_to_try():
            self.notes.append(remark("choose.no-accelerators"))
        for accelerator in ACCELERATORS:
            added = self._moved(entrants, accelerator)
            if not added:
                continue
            for contender in added:
                if contender.data is not None:
                    self._measure_accuracy(contender)
            self.contenders += added
            if accelerator in self.machine.stand_ins:
                told = remark("choose.stand-in", name=accelerator, what=self.machine.stand_ins[accelerator])
                self.notes.append(told)
            self.race.enter(added, self.earlier)
            self.race.run()

    def _has_time_to_try(self) -> bool:
        """Whether a model can still be loaded there, and raced."""
        return self.schedule.fits(self.schedule.longest_s)

    def _leading(self) -> list[Entrant]:
        """The models of the front; where no accuracy is known, the fastest."""
        front = [self.race.entrants[row.name] for row in self.race.front.standing()]
        timed = [entrant for entrant in self.race.entrants.values() if entrant.known is not None]
        fastest = sorted(timed, key=lambda entrant: entrant.known.samples.median_ms if entrant.known else 0.0)
        return (front or fastest)[:MOST_AT_ONCE]

    def _moved(self, entrants: Sequence[Entrant], accelerator: str) -> list[Contender]:
        """Those that may be faster there. They come from the cheapest up: an accelerator that is missing, or slower by
        far, is seen at little cost. Where it pays for none, the last one says why."""
        moved: list[Contender] = []
        refused: list[PlanRow] = []
        failures = 0
        for entrant in entrants:
            measured = self.race.measured(entrant.name)
            if measured is None or not self._has_time_to_try():
                break
            self._tell(f"trying {entrant.name} on the {accelerator}")
            latency_ms = measured.samples.median_ms
            found = probe(entrant.contender, accelerator, latency_ms, self.effort)
            if isinstance(found, Contender):
                moved.append(found)
                continue
            refused.append(found)
            failures += found.latency is None  # of one model alone, it may be the model's
            if failures > 1 or (found.latency is not None and found.latency.estimate > _HOPELESS * latency_ms):
                break
        self.plans += [] if moved else refused[-1:]
        return moved

    def found(self, *, interrupted: bool = False) -> ChooseFound:
        """What is known now."""
        rows = [self._row(contender) for contender in self.contenders]
        if self.workplace.made == self.workplace.built:
            rows = [replace(row, path="") if row.origin is Origin.MADE else row for row in rows]
        return ChooseFound(
            task=(self.request.task or DEFAULT_TASK) if self.request.with_catalogue else "",
            models=tuple(sorted(rows, key=_order)),
            limits=self.request.limits,
            plan=self.contenders[0].candidate.plan if self.contenders else Plan(),
            plans=tuple(self.plans),
            data=self.request.data.source,
            own=self._own(),
            device=self.machine.cpu,
            troubles=tuple(self.troubles),
            notes=each_once(self.notes),
            seconds=self.whole.elapsed_s,
            timing_seconds=self.schedule.elapsed_s,
            interrupted=interrupted,
            strict=self.request.strict,
        )

    def _row(self, contender: Contender) -> ModelRow:
        row = self.accuracies.row(contender.row)
        entrant = self.race.entrants.get(contender.name)
        measured = None if entrant is None else self.race.measured(contender.name)
        if entrant is None or measured is None:
            failure = None if entrant is None else entrant.track.failure
            why = remark("choose.not-timed") if failure is None else remark("choose.failed", message=failure.message)
            return replace(row, failure=failure, why_dropped=why)
        samples = measured.samples
        timed = replace(
            row,
            plan=contender.candidate.plan,
            latency=samples.latency,
            p95_ms=samples.p95_ms,
            rounds=entrant.rounds,
            init_ms=measured.init_ms,
            peak_memory_mb=measured.peak_memory_mb,
            doubts=tuple(measured.doubts),
        )
        return replace(timed, **self._placed(contender.row))

    def _placed(self, row: ModelRow) -> dict[str, Any]:
        """Where a model stands, and why."""
        front = self.race.front
        place = front.place(row)
        if place is Place.UNKNOWN and row.reference:
            return self._against_original(row)
        winner = front.winner_over(row) if place is Place.OFF else None
        if winner is not None:
            compared = self.race.compared(winner.name, row.name)
            gain = self.accuracies.gain(winner.name, row.name)
            return {"place": place, "why_dropped": dropped(self.accuracies.row(row), winner, compared, gain)}
        rivals = tuple(rival.name for rival in front.rivals_of(row)) if place is Place.POSSIBLE else ()
        return {"place": place, "rivals": rivals}

    def _against_original(self, row: ModelRow) -> dict[str, Any]:
        """A model of unknown accuracy next to the one that it was made from."""
        against = self.race.compared(row.name, row.reference)
        if against is None or self.race.speed(row.name, row.reference) is not Verdict.SLOWER:
            return {"against": against}
        ratio = {"ratio": against.ratio, "ci95": list(against.ci95)}
        return {"against": against, "why_dropped": remark("choose.slower", than=row.reference, ratio=ratio)}


def _from_the_middle(contenders: Sequence[Contender]) -> list[Contender]:
    """By cost, the one in the middle first, then its neighbors on either side."""
    ordered = sorted(contenders, key=lambda contender: contender.row.macs or 0)
    middle = len(ordered) // 2
    return [ordered[place] for place in sorted(range(len(ordered)), key=lambda place: abs(place - middle))]


_PLACES: Final[dict[Place, int]] = {Place.ON: 0, Place.POSSIBLE: 0, Place.UNKNOWN: 1, Place.OFF: 2}


def _order(row: ModelRow) -> tuple[int, float, str]:
    """The front first, the fastest first; then what has no accuracy, then what is beaten."""
    untimed = 3 if row.latency is None else _PLACES[row.place]
    return untimed, row.median_ms, row.name

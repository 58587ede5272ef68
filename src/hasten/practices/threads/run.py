"""The guide's "Tweak the number of threads": measured alone and under other load, and by cores where they differ."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hasten.core.codec import to_data
from hasten.core.failure import Failure, RunnerFailed
from hasten.measure.rounds import Candidate, Rounds, Track
from hasten.measure.schedule import Schedule
from hasten.measure.study import outcome_of
from hasten.practices.threads.facts import (
    LOAD_KINDS,
    QUIET,
    SITUATIONS,
    Choice,
    Condition,
    Effect,
    Option,
    ThreadsFound,
    Trouble,
    option_of,
)
from hasten.practices.threads.rules import (
    Round,
    choose_threads,
    counted_rounds,
    effects_of_options,
    row_from_measurement,
    samples_of,
)
from hasten.practices.threads.words import condition_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.samples import Samples
    from hasten.measure.effort import Effort
    from hasten.practices.threads.facts import EffectOfOption, Row

SECONDS_AN_OPTION: Final = 25.0
# Beyond eight cores not every count is tried, as each is a process in every round.
_EACH_UP_TO: Final = 8
_SPARSE_COUNTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_SHORTEST_TURN: Final = 0.3
_LONGEST_TURN: Final = 1.5
_RUNS_A_TURN: Final = 20  # the fewest that show a 95th percentile
_FEWEST_PASSES: Final = 3


@dataclass(slots=True)
class _Trials:
    """One condition, and what has been measured under it so far."""

    condition: Condition
    rounds: Rounds
    schedule: Schedule
    failure: Failure | None = None


def run(candidate: Candidate, load: str, counts: tuple[int, ...], effort: Effort) -> ThreadsFound | Failure:
    """Measure until the choice is sure or the time is spent; a failure if nothing could be measured.

    The candidate's plan is the one in use now. Without counts: 1 to the number of cores, and one more.
    """
    return outcome_of(_Study(candidate, load, counts, effort))


@dataclass(slots=True)
class _Study:
    """Threads under several conditions that take turns."""

    candidate: Candidate
    situation: str
    counts: tuple[int, ...]
    effort: Effort
    rounds: list[Round] = field(default_factory=list)
    _cores: int = 1
    _clusters: tuple[tuple[int, ...], ...] = ()
    _trials: list[_Trials] = field(default_factory=list)
    _schedule: Schedule = field(default_factory=lambda: Schedule(0.0))

    @property
    def has_answer(self) -> bool:
        return bool(self.rounds)

    def run(self) -> Failure | None:
        self._prepare()
        number = 0
        while self._pass(number) and not self._is_settled():
            number += 1
        self.effort.progress(1.0, "done")
        return None if self.rounds else next(trials.failure for trials in self._trials if trials.failure)

    def found(self, *, interrupted: bool = False) -> ThreadsFound:
        rows = self._rows()
        effects = effects_of_options(rows, self._cores)
        choices = {situation: self._choice(situation, effects) for situation in SITUATIONS}
        return ThreadsFound(
            model=self.candidate.model,
            plan=self.candidate.plan,
            load=self.situation,
            rows=tuple(rows),
            by_load={situation: choice for situation, choice in choices.items() if choice is not None},
            effect=tuple(effects),
            cores=self._cores,
            clusters=self._clusters,
            troubles=tuple(self._troubles()),
            seconds=self._schedule.elapsed_s,
            interrupted=interrupted,
        )

    def _prepare(self) -> None:
        machine, plan = self.effort.target.machine(), self.candidate.plan
        self._clusters = tuple(tuple(sorted(cluster.cores)) for cluster in machine.clusters)
        self._cores = len(plan.cores) or machine.cores
        options = thread_options(self._cores, self._clusters, option_of(plan), self.counts)
        clock = self.effort.clock
        self._schedule = Schedule(self.effort.seconds_or(SECONDS_AN_OPTION * len(options)), clock=clock)
        for condition in conditions_for(machine.cores):
            rounds = Rounds(self.effort.target, [self._candidate(option) for option in options], clock)
            self._trials.append(_Trials(condition, rounds, Schedule(self._schedule.seconds, clock=clock)))

    def _candidate(self, option: Option) -> Candidate:
        plan = replace(self.candidate.plan, threads=option.threads, cores=option.cores)
        return replace(self.candidate, label=option.plan_text(), plan=plan)

    def _pass(self, number: int) -> bool:
        """A round under each condition; there and back, so that drift cancels out. False once the time is spent."""
        turn = self._turn()
        for trials in turn if number % 2 == 0 else reversed(turn):
            if trials.failure is not None:
                continue
            if not self.rounds and number == 0 and any(trials.failure for trials in self._trials):
                return False  # what fails alone will not do better beside other work
            if not self._schedule.fits(trials.schedule.longest_s) and self._has_named_rounds():
                return False
            where = condition_words(trials.condition)
            self.effort.progress(self._schedule.share, f"pass {number + 1}, {where}")
            self._round(trials)
        return any(trials.failure is None for trials in self._trials)

    def _turn(self) -> list[_Trials]:
        """The conditions of a pass: twice those that the choice is made by, and alone, which has no second kind."""
        named = [trials for trials in self._trials if trials.condition.situation == self.situation]
        others = [trials for trials in self._trials if trials.condition.situation != self.situation]
        half = len(others) // 2
        alone = [trials for trials in others if trials.condition.situation == QUIET]
        return [*named, *others[:half], *named, *others[half:], *alone]

    def _has_named_rounds(self) -> bool:
        return any(item.condition.situation == self.situation for item in self.rounds)

    def _round(self, trials: _Trials) -> None:
        before = [len(track.rounds) for track in trials.rounds.tracks]
        try:
            with trials.schedule.round():
                self._run_one(trials)
        except RunnerFailed as failed:
            trials.failure = failed.failure
        tracks = trials.rounds.tracks
        grown = [track for track, count in zip(tracks, before, strict=True) if len(track.rounds) > count]
        if trials.failure is not None:
            for track in grown:
                track.rounds.pop()  # The background load ended during this round.
            return
        if grown:
            self.rounds.append(
                Round(trials.condition, {option_of(track.candidate.plan): tuple(track.rounds[-1]) for track in grown})
            )
            self._keep_round(trials, grown)
        if not trials.rounds.alive:
            trials.failure = trials.rounds.tracks[0].failure

    def _run_one(self, trials: _Trials) -> None:
        condition = trials.condition
        if not condition.workers:
            trials.rounds.run_one(self._turn_seconds(trials))
            return
        with self.effort.target.start_load(condition.kind, condition.workers) as load:
            trials.rounds.run_one(self._turn_seconds(trials))
            load.check()

    def _turn_seconds(self, trials: _Trials) -> float:
        """Long enough for some runs of the slowest, as far as is known."""
        blocks = [track.rounds[-1][-1] for track in trials.rounds.tracks if track.rounds]
        slowest = max((max(block.nanoseconds) / 1e9 for block in blocks), default=0.0)
        return max(_SHORTEST_TURN, min(_LONGEST_TURN, _RUNS_A_TURN * slowest))

    def _keep_round(self, trials: _Trials, tracks: Sequence[Track]) -> None:
        condition = trials.condition
        for track in tracks:
            latest = track.latest_round()
            if isinstance(latest, Failure):
                continue
            beside = {"load": condition.situation, "load_kind": condition.kind, "load_workers": condition.workers}
            label = f"{track.candidate.label} {condition_words(condition)}"
            self.effort.keep("measurement", label, {**to_data(latest), **beside, "round": trials.schedule.rounds})

    def _is_settled(self) -> bool:
        """Whether more rounds would change nothing: every condition was seen, and the choice is sure."""
        if min(trials.schedule.rounds for trials in self._trials if trials.failure is None) < _FEWEST_PASSES:
            return False
        choice = self._choice(self.situation, effects_of_options(self._rows(), self._cores))
        return choice is not None and choice.sure

    def _choice(self, situation: str, effects: Sequence[EffectOfOption]) -> Choice | None:
        without = {effect.option for effect in effects if effect.effect is Effect.NONE}
        return choose_threads(situation, self.rounds, self._cores, without)

    def _rows(self) -> list[Row]:
        rows, counted = [], counted_rounds(self.rounds)
        for trials in self._trials:
            base: Samples | None = None
            for track in trials.rounds.tracks:
                measured, option = track.result(), option_of(track.candidate.plan)
                samples = samples_of(option, trials.condition, counted, track.timer_step_ns)
                if isinstance(measured, Failure) or samples is None:
                    continue
                base = base or samples
                shown = replace(measured, samples=samples.beside(base))
                rows.append(row_from_measurement(option, trials.condition, shown))
        return rows

    def _troubles(self) -> list[Trouble]:
        found = []
        for trials in self._trials:
            where = condition_words(trials.condition)
            if trials.failure is not None:
                found.append(Trouble(where, trials.failure.message))
            found += [
                Trouble(f"{track.candidate.label} {where}", track.failure.message)
                for track in trials.rounds.tracks
                if track.failure is not None
            ]
        return found


def thread_counts(cores: int, current: int = 1) -> tuple[int, ...]:
    """1 to the number of cores (some of them, where there are many), one more, and the count in use now."""
    within = range(1, cores + 1) if cores <= _EACH_UP_TO else [count for count in _SPARSE_COUNTS if count < cores]
    return tuple(sorted({*within, cores, cores + 1, current}))


def thread_options(
    cores: int, clusters: Sequence[tuple[int, ...]], current: Option, counts: Sequence[int] = ()
) -> list[Option]:
    """Every count on all cores, the one in use now included; where cores differ, also doubling counts on each kind."""
    chosen = {*counts, current.threads} if counts else set(thread_counts(cores, current.threads))
    options = {Option(count, current.cores) for count in chosen}
    if len(clusters) > 1 and not current.cores:
        for cluster in clusters:
            options |= {
                Option(n, cluster) for n in chosen if n == len(cluster) or (n < len(cluster) and not n & (n - 1))
            }
    return sorted(options, key=lambda option: (option.threads, option.cores))


def conditions_for(cores: int) -> list[Condition]:
    """Alone; beside work on half of the cores and on all, of either kind."""
    workers = {"shared": max(1, cores // 2), "busy": cores}
    beside = [Condition(situation, kind, count) for situation, count in workers.items() for kind in LOAD_KINDS]
    return [Condition(QUIET), *beside]

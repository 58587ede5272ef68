"""Rule that recommends a thread count, from rounds in which all options alternated.

Options are taken from the fewest threads up. One with more threads takes the lead only if it is faster than the leader
with 99 % confidence (on ratios within the same rounds) and by at least 5 % for each doubling: what does not pay costs
energy and disturbs others. Beside other work it must not be slower beside either kind, by the median or by the 95th
percentile of each round; where that is open, so is the choice. More threads than cores are measured to show what they
cost, and never recommended. A round that was to be alone, and beside which other programs ran, tells about another
situation: it does not count where enough others do; where they do not, nothing is said against the option that needs
more cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core import doubts
from hasten.core.block import cores_of_others, usable_cores_of_others
from hasten.core.codec import finite, to_data
from hasten.core.comparison import FEWEST_ROUNDS, Verdict, compare_rounds
from hasten.core.finding import Finding, Standing
from hasten.core.levels import contrast, exponential
from hasten.core.remark import Remark, remark
from hasten.core.samples import Samples
from hasten.core.statistics import Interval, relative_spread
from hasten.practices.practice import not_examined
from hasten.practices.threads.facts import Choice, Effect, EffectOfOption, Option, Refusal, Row, Step

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hasten.core.block import Block
    from hasten.core.comparison import Comparison
    from hasten.core.levels import Contrast
    from hasten.core.measurement import Measurement
    from hasten.core.trial import Trial
    from hasten.practices.practice import Evidence
    from hasten.practices.threads.facts import Condition, ThreadsFound

NAME: Final = "threads"

GAIN_A_DOUBLING: Final = 0.05
_SURE: Final = 0.99
# From this share on, a difference in CPU time is no noise.
_CPU_MATTERS: Final = 0.05
# Other programs using more cores than this disturb a quiet round.
_NOT_ALONE: Final = 0.2
# A second thread that keeps less than this of a core busy does nothing.
_IDLE_THREAD: Final = 0.10
# With fewer cores free than this, a second thread has nowhere to show what it can do.
_CORES_TO_TELL: Final = 1.5
# Load that got less than this share of the cores it was to keep busy was not the load that the row speaks of.
_LEAST_LOAD: Final = 0.4
_FAR_APART: Final = 100_000  # numbers of rounds under different conditions never meet


@dataclass(frozen=True, slots=True)
class Round:
    """Blocks of all options that alternated under one condition."""

    condition: Condition
    blocks: Mapping[Option, Sequence[Block]]


def choose_threads(
    situation: str, rounds: Sequence[Round], cores: int, without_effect: Collection[Option] = ()
) -> Choice | None:
    """The option to use in a situation; None if nothing was measured there."""
    relevant = [item for item in counted_rounds(rounds) if item.condition.situation == situation]
    options = sorted({option for item in relevant for option in item.blocks}, key=_cost)
    if not options:
        return None
    race = _Race(relevant, options[0], cores)
    leader, steps = options[0], []
    for option in options[1:]:
        if option.threads > (len(option.cores) or cores):
            continue
        step = race.step(option, leader, has_effect=option not in without_effect)
        steps.append(step)
        if step.took_the_lead:
            leader = option
    why = _why(situation, race, leader, steps)
    return Choice(leader.threads, leader.cores, all(step.sure for step in steps), tuple(steps), why)


def counted_rounds(rounds: Sequence[Round]) -> list[Round]:
    """The rounds that were alone as they were meant to be, where these are enough; all with a load on purpose."""
    alone = [item for item in rounds if not item.condition.workers]
    undisturbed = [item for item in alone if _others_busy(item) <= _NOT_ALONE]
    left_out = [] if len(undisturbed) < FEWEST_ROUNDS else [item for item in alone if item not in undisturbed]
    return [item for item in rounds if item.blocks and item not in left_out]


def samples_of(option: Option, condition: Condition, rounds: Sequence[Round], timer_step_ns: int = 0) -> Samples | None:
    """The samples of an option under a condition, from the rounds that count; None if there are none."""
    members = [item for item in rounds if item.condition == condition]
    blocks = [
        replace(block, runner=number) for number, item in enumerate(members) for block in item.blocks.get(option, ())
    ]
    return Samples(tuple(blocks), timer_step_ns, every_run=bool(condition.workers)) if blocks else None


def _others_busy(item: Round) -> float:
    """How many of our cores other programs kept busy during a round, by the wall time of its blocks."""
    return usable_cores_of_others(block for blocks in item.blocks.values() for block in blocks)


def _cost(option: Option) -> tuple[int, bool, tuple[int, ...]]:
    """Fewer threads are cheaper, and so is leaving the cores to the scheduler."""
    return option.threads, bool(option.cores), option.cores


@dataclass(frozen=True, slots=True)
class _Race:
    """The rounds of one situation. Alone, options are placed by the one with the fewest threads, as the rows are."""

    rounds: Sequence[Round]
    fewest: Option
    cores: int

    def step(self, option: Option, leader: Option, *, has_effect: bool = True) -> Step:
        """The option against the leader: whether it takes the lead, or why not."""
        found = self._contrast(option, leader)
        doublings = math.log2(option.threads / leader.threads)
        # To be tied to some cores has a price of its own, whatever the number of threads.
        needed = math.log1p(-GAIN_A_DOUBLING) * (max(doublings, 1.0) if option.cores != leader.cores else doublings)
        against, kind = self._against_beside(option, leader)
        refused, sure = _judged(found, needed, has_effect=has_effect, beside=against)
        if refused is not Refusal.NONE and has_effect and self._is_contended(option, leader):
            refused, sure = Refusal.CONTENDED, False
        shown = Interval(math.nan, math.nan, math.nan) if found is None else found.interval(0.95)
        return Step(
            *(option.threads, option.cores, leader.threads, leader.cores),
            ratio=math.exp(shown.estimate),
            ci95=(exponential(shown.low), exponential(shown.high)),
            rounds=0 if found is None else found.rounds,
            needed=math.exp(needed),
            took_the_lead=refused is Refusal.NONE,
            refused=refused,
            sure=sure,
            beside=kind if refused is against else "",
        )

    def _contrast(self, option: Option, leader: Option) -> Contrast | None:
        """The option against the leader; next to a load on purpose by every round, of each kind, as in the rows."""
        one, other = self._levels(leader), self._levels(option)
        if not self._beside_load:
            return contrast(one, other, self._levels(self.fewest))
        # Around a mean that is the same in all rounds: none of them counts as disturbed.
        halves = {number: (level - one[number]) / 2 for number, level in other.items() if number in one}
        return contrast({number: -half for number, half in halves.items()}, halves)

    @property
    def _beside_load(self) -> bool:
        return self.rounds[0].condition.workers > 0

    def _levels(self, option: Option) -> dict[int, float]:
        found: dict[int, float] = {}
        for place, condition in enumerate(self._conditions()):
            if (samples := samples_of(option, condition, self.rounds)) is not None:
                found |= {place * _FAR_APART + number: level for number, level in samples.levels.items()}
        return found

    def _conditions(self) -> list[Condition]:
        return list(dict.fromkeys(item.condition for item in self.rounds))

    def _against_beside(self, option: Option, leader: Option) -> tuple[Refusal, str]:
        """Whether the option is slower beside one kind of work, or may be, by the median or by the 95th percentile.

        Alone there is no other work, and the median decides.
        """
        doubtful = ""
        for condition in self._conditions() if self._beside_load else []:
            one, other = (samples_of(it, condition, self.rounds) for it in (leader, option))
            for found in [] if one is None or other is None else _compared_beside(one, other):
                if found.verdict is Verdict.SLOWER:
                    return Refusal.SLOWER_BESIDE, condition.kind
                if found.verdict is Verdict.UNDECIDED and found.ratio > 1:
                    doubtful = doubtful or condition.kind
        return (Refusal.UNPROVEN_BESIDE, doubtful) if doubtful else (Refusal.NONE, "")

    def uses_less_cpu(self, one: Option, other: Option) -> bool:
        """Whether a run of the one clearly takes less CPU time than one of the other, under each condition."""
        pairs = [[samples_of(it, condition, self.rounds) for it in (one, other)] for condition in self._conditions()]
        known = [(low.cpu_ms, high.cpu_ms) for low, high in pairs if low is not None and high is not None]
        return bool(known) and all(low < (1 - _CPU_MATTERS) * high for low, high in known)

    def _is_contended(self, option: Option, leader: Option) -> bool:
        """Whether other programs used cores that the option needed and the leader did not: a load that is not ours."""
        blocks = [block for item in self.rounds for block in item.blocks.get(option, ())]
        busy = 0.0 if self._beside_load else usable_cores_of_others(blocks)
        cores = len(option.cores) or self.cores
        return option.threads > leader.threads and busy > _NOT_ALONE and option.threads + busy > cores + _NOT_ALONE


def _compared_beside(one: Samples, other: Samples) -> list[Comparison]:
    """The other against the one, by the medians and by the 95th percentiles of the rounds that both were in."""
    pairs = ((one.levels, other.levels), (_tail_levels(one), _tail_levels(other)))
    return [
        compare_rounds([level - first[number] for number, level in second.items() if number in first])
        for first, second in pairs
        if first.keys() & second.keys()
    ]


def _tail_levels(samples: Samples) -> dict[int, float]:
    """Round → logarithm of the 95th percentile of its runs."""
    rounds: dict[int, list[int]] = {}
    for block in samples.blocks:
        rounds.setdefault(block.runner, []).extend(block.nanoseconds)
    return {number: math.log(max(float(np.quantile(times, 0.95)), 1.0)) for number, times in rounds.items() if times}


def _judged(found: Contrast | None, needed: float, *, has_effect: bool, beside: Refusal) -> tuple[Refusal, bool]:
    """Why an option does not take the lead, if it does not, and whether more rounds would hardly change that."""
    if found is None:
        return Refusal.NEVER_MET, False
    if not has_effect:
        return Refusal.NO_EFFECT, True
    if found.rounds < FEWEST_ROUNDS:
        return Refusal.FEW_ROUNDS, False
    strict = found.interval(_SURE)
    if strict.low > 0:
        return Refusal.SLOWER, True
    if strict.high >= 0 or found.estimate > needed:
        return Refusal.NOT_PROVEN, strict.low > needed
    if beside is not Refusal.NONE:
        return beside, beside is Refusal.SLOWER_BESIDE
    return Refusal.NONE, strict.high < needed


def _why(situation: str, race: _Race, chosen: Option, steps: Sequence[Step]) -> Remark:
    """The reason for the choice: the gain over the fewest threads, or why more do not pay."""
    if not steps:
        return remark("threads.nothing-else", load=situation)
    fewest = race.fewest
    if chosen == fewest:
        return _why_fewest(situation, race, steps)
    gain = race.step(chosen, fewest)
    above = [step for step in steps if step.leader == chosen and step.option.threads > chosen.threads]
    later = [step for step in above if step.sure and step.refused is not Refusal.SLOWER_BESIDE]
    return remark(
        "threads.faster",
        load=situation,
        option=to_data(chosen),
        than=to_data(fewest),
        ratio=_ratio_fact(gain),
        later=to_data(later[-1].option) if later else None,
    )


def _ratio_fact(step: Step) -> dict[str, Any]:
    """A step's ratio as a session can hold it: after one round its interval is open."""
    return {"ratio": finite(step.ratio), "ci95": [finite(end) for end in step.ci95]}


def _why_fewest(situation: str, race: _Race, steps: Sequence[Step]) -> Remark:
    fewest = race.fewest
    effective = [step for step in steps if step.refused is not Refusal.NO_EFFECT]
    if not effective:
        return remark("threads.no-effect", option=to_data(fewest))
    best = min(effective, key=lambda step: step.ratio if math.isfinite(step.ratio) else math.inf)
    code = "threads.few-rounds" if best.rounds < FEWEST_ROUNDS else f"threads.{best.refused.value}"
    return remark(
        code,
        load=situation,
        option=to_data(best.option),
        than=to_data(fewest),
        ratio=_ratio_fact(best),
        needed=best.needed,
        rounds=best.rounds,
        beside=best.beside,
        less_cpu=race.uses_less_cpu(fewest, best.option),
    )


def row_from_measurement(option: Option, condition: Condition, found: Measurement) -> Row:
    """The row of one option under one condition."""
    samples = found.samples
    conditions = [block.conditions for block in samples.blocks]
    wall = sum(item.wall_seconds for item in conditions)
    others = cores_of_others(samples.blocks) if _is_told(item.other_cores_busy for item in conditions) else None
    usable_told = _is_told(item.usable_cores_busy for item in conditions)
    return Row(
        threads=option.threads,
        load=condition.situation,
        median_ms=samples.latency.estimate,
        p95_ms=samples.p95_ms,
        cpu_seconds=samples.cpu_ms / 1e3,
        cores=option.cores,
        load_kind=condition.kind or None,
        load_workers=condition.workers,
        ci95_ms=(samples.latency.low, samples.latency.high),
        spread=relative_spread(samples.milliseconds.tolist()),
        cores_used=sum(item.cpu_seconds for item in conditions) / wall if wall else 0.0,
        effective_threads=found.effective.threads,
        energy_mj=None if condition.workers or samples.joules is None else samples.joules * 1e3,
        other_cores_busy=others,
        usable_cores_busy=usable_cores_of_others(samples.blocks) if usable_told else None,
        rounds=samples.processes,
        samples=samples.count,
        doubts=tuple(_row_doubts(condition, found.doubts, others)),
    )


def _is_told(values: Iterable[float | None]) -> bool:
    return any(value is not None for value in values)


def _row_doubts(condition: Condition, found: Sequence[Remark], others: float | None) -> list[Remark]:
    """Doubts of a row: drop OTHER_LOAD under requested load, add LOAD_MISSING if it was too small."""
    if not condition.workers:
        return list(found)
    kept = [doubt for doubt in found if doubt.code != doubts.OTHER_LOAD]
    if others is not None and others < _LEAST_LOAD * condition.workers:
        kept.append(remark(doubts.LOAD_MISSING, cores=others, wanted=condition.workers))
    return kept


def effects_of_options(rows: Sequence[Row], cores: int) -> list[EffectOfOption]:
    """For each option, whether its threads did anything: the threads seen, and CPU time over wall time, alone."""
    alone = sorted((row for row in rows if not row.load_workers), key=lambda row: (row.threads, row.cores))
    if not alone:
        return []
    return [_effect(row, alone[0], min(cores, len(row.cores) or cores)) for row in alone]


def _effect(row: Row, fewest: Row, cores: int) -> EffectOfOption:
    busy = row.other_cores_busy if row.usable_cores_busy is None else row.usable_cores_busy
    seen, others = row.effective_threads, busy or 0.0
    facts = {"option": to_data(row.option), "cores_used": row.cores_used, "seen": seen, "others": others}
    effect, code = Effect.TAKEN, "threads.effect"
    if row.threads == 1:
        pass
    elif seen is not None and seen < row.threads:
        effect, code = Effect.NONE, "threads.fewer-seen"
    elif min(cores - others, row.threads) < _CORES_TO_TELL:
        effect, code = Effect.UNKNOWN, "threads.one-core" if cores == 1 else "threads.cores-taken"
    elif row is not fewest and row.cores_used < fewest.cores_used + _IDLE_THREAD:
        effect, code = Effect.NONE, "threads.idle"
    return EffectOfOption(row.threads, row.cores, effect, remark(code, **facts))


def doubts_of(found: ThreadsFound) -> list[Remark]:
    """Reasons to doubt the choice: those of the rows that it stands on, each once, and its own."""
    # Ratios within rounds cancel what moves all options alike; these touch the latencies, not the choice.
    latency_only = (*doubts.OF_LATENCIES_ONLY, doubts.FREQUENCY_CHANGE)
    rows = [row for row in found.rows if row.load == found.load]
    known = {doubt.code: doubt for row in rows for doubt in row.doubts if doubt.code not in latency_only}
    if found.choice is not None and not found.choice.sure:
        known["threads.unsure"] = remark("threads.unsure")
    return list(known.values())


def finding_of(found: ThreadsFound) -> Finding:
    """What the practice came to."""
    choice = found.choice
    if choice is None:
        return Finding(NAME, Standing.NOT_EXAMINED, remark("threads.not-measured", load=found.load))
    # A recommendation for an idle device that was not idle says so itself, wherever it is shown.
    load = next((doubt for doubt in doubts_of(found) if doubt.code == doubts.OTHER_LOAD), None)
    busy = {} if load is None else {"others": load.facts.get("cores", 0.0)}
    facts = {**choice.why.facts, **busy}
    undecided = is_undecided(choice, found.current)
    if choice.option == found.current:
        return Finding(NAME, Standing.UNDECIDED if undecided else Standing.GOOD, Remark(choice.why.code, facts))
    told = Remark(choice.why.code, {**facts, "use": choice.option.plan_text()})
    return Finding(NAME, Standing.UNDECIDED if undecided else Standing.TO_DO, told)


def is_undecided(choice: Choice, current: Option) -> bool:
    """Whether more rounds could still speak for another option; against a change, only for the one in use."""
    # What took the lead is proven, and what is slower next to other work is refused for good; the rest may lack rounds.
    refused = [step for step in choice.steps if not step.took_the_lead and step.refused is not Refusal.SLOWER_BESIDE]
    unsure = [step.option for step in refused if not step.sure]
    return bool(unsure) if choice.option == current else current in unsure


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with its threads, by the plans of the race: the chosen variant, else the original."""
    variants = [known.best.variant, known.base.variant] if known.best.plan.runs_on_cpu else [known.base.variant]
    found = [_raced(known, rows) for name in variants if len(rows := _by_threads(known.trials, name)) > 1]
    decided = [finding for finding in found if finding.standing is not Standing.UNDECIDED]
    return next(iter([*decided, *found]), not_examined(NAME))


def _raced(known: Evidence, rows: Sequence[Trial]) -> Finding:
    in_use = [trial for trial in rows if trial.plan == known.best.plan]
    chosen = in_use[0] if in_use else min(rows, key=lambda trial: trial.median_ms)
    verdicts = {trial.plan.threads: known.verdict_on(trial, chosen) for trial in rows}
    times = [{"threads": trial.plan.threads, "median_ms": trial.median_ms} for trial in rows]
    facts = {"rows": times, "variant": chosen.variant}
    if Verdict.UNDECIDED in verdicts.values():
        return Finding(NAME, Standing.UNDECIDED, remark("threads.raced-undecided", **facts))
    faster = [threads for threads, found in verdicts.items() if found is Verdict.FASTER]
    if faster:
        return Finding(NAME, Standing.TO_DO, remark("threads.raced", **facts, use=f"threads={faster[0]}"))
    return Finding(NAME, Standing.GOOD, remark("threads.raced", **facts))


def _by_threads(trials: Sequence[Trial], variant: str) -> list[Trial]:
    """The trials of one variant on the CPU that differ in their threads only."""
    timed = [trial for trial in trials if trial.variant == variant and trial.latency is not None]
    return [trial for trial in timed if trial.plan.runs_on_cpu and trial.plan.kernel == "delegate"]

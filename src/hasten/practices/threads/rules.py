"""Rule that recommends a thread count, from rounds in which all options alternated.

Options are taken from the fewest threads up. One with more threads takes the lead only if it is faster than the leader
with 99 % confidence (on ratios within the same rounds) and by at least 5 % for each doubling: what does not pay costs
energy and disturbs others. Alone, the median counts; beside other work the median and the 95th percentile both, so that
a round's ratio is the worse of the two, and the option must not be slower beside either kind of work. More threads than
cores are measured to show what they cost, and never recommended. A round that was to be alone, and beside which other
programs ran, tells about another situation: it does not count where enough others do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core import doubts
from hasten.core.codec import to_data
from hasten.core.comparison import FEWEST_ROUNDS, log_ratio_of_round
from hasten.core.finding import Finding, Standing
from hasten.core.remark import Remark, remark
from hasten.core.statistics import Interval, mean_interval, relative_spread
from hasten.practices.practice import not_examined
from hasten.practices.threads.facts import QUIET, Choice, Effect, EffectOfOption, Option, Refusal, Row, Step

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hasten.core.block import Block
    from hasten.core.measurement import Measurement
    from hasten.practices.practice import Evidence
    from hasten.practices.threads.facts import Condition, ThreadsFound

NAME: Final = "threads"

GAIN_A_DOUBLING: Final = 0.05
_SURE: Final = 0.99
# Other programs using more cores than this disturb a quiet round.
_NOT_ALONE: Final = 0.2
# A second thread that keeps less than this of a core busy does nothing.
_IDLE_THREAD: Final = 0.10
# With fewer cores free than this, a second thread has nowhere to show what it can do.
_CORES_TO_TELL: Final = 1.5
# Load that got less than this share of the cores it was to keep busy was not the load that the row speaks of.
_LEAST_LOAD: Final = 0.4


@dataclass(frozen=True, slots=True)
class Round:
    """Blocks of all options that alternated under one condition."""

    condition: Condition
    blocks: Mapping[Option, Sequence[Block]]


def choose_threads(
    situation: str, rounds: Sequence[Round], cores: int, without_effect: Collection[Option] = ()
) -> Choice | None:
    """The option to use in a situation; None if nothing was measured there."""
    relevant = _undisturbed([item for item in rounds if item.condition.situation == situation and item.blocks])
    options = sorted({option for item in relevant for option in item.blocks}, key=_cost)
    if not options:
        return None
    leader, steps = options[0], []
    for option in options[1:]:
        if option.threads > (len(option.cores) or cores):
            continue
        step = _step(option, leader, relevant, has_effect=option not in without_effect)
        steps.append(step)
        if step.took_the_lead:
            leader = option
    why = _why(situation, options[0], leader, steps, relevant)
    return Choice(leader.threads, leader.cores, all(step.sure for step in steps), tuple(steps), why)


def _undisturbed(rounds: Sequence[Round]) -> Sequence[Round]:
    """The rounds that were alone as they were meant to be; all, where these are too few."""
    alone = [item for item in rounds if item.condition.workers or _others_busy(item) <= _NOT_ALONE]
    return alone if len(alone) >= FEWEST_ROUNDS else rounds


def _others_busy(item: Round) -> float:
    """How many cores other programs kept busy during a round, by the wall time of its blocks."""
    told = [block.conditions for blocks in item.blocks.values() for block in blocks]
    known = [(it.other_cores_busy, it.wall_seconds) for it in told if it.other_cores_busy is not None]
    wall_seconds = sum(wall for _, wall in known)
    return sum(busy * wall for busy, wall in known) / wall_seconds if wall_seconds else 0.0


def _cost(option: Option) -> tuple[int, bool, tuple[int, ...]]:
    """Fewer threads are cheaper, and so is leaving the cores to the scheduler."""
    return option.threads, bool(option.cores), option.cores


def _step(option: Option, leader: Option, rounds: Sequence[Round], *, has_effect: bool) -> Step:
    by_kind = _log_ratios(option, leader, rounds)
    values = [value for kind in by_kind.values() for value in kind]
    doublings = math.log2(option.threads / leader.threads)
    # To be tied to some cores has a price of its own, whatever the number of threads.
    needed = math.log1p(-GAIN_A_DOUBLING) * (max(doublings, 1.0) if option.cores != leader.cores else doublings)
    slower_beside = [kind for kind, ratios in by_kind.items() if _is_slower(kind, ratios, option, leader, rounds)]
    refused, sure = _judged(values, needed, has_effect=has_effect, is_slower_beside=bool(slower_beside))
    shown = mean_interval(values) if values else Interval(math.nan, math.nan, math.nan)
    return Step(
        *(option.threads, option.cores, leader.threads, leader.cores),
        ratio=math.exp(shown.estimate),
        ci95=(math.exp(shown.low), math.exp(min(shown.high, 700.0))),
        rounds=len(values),
        needed=math.exp(needed),
        took_the_lead=refused is Refusal.NONE,
        refused=refused,
        sure=sure,
        beside=slower_beside[0] if refused is Refusal.SLOWER_BESIDE else "",
    )


def _judged(
    values: Sequence[float], needed: float, *, has_effect: bool, is_slower_beside: bool
) -> tuple[Refusal, bool]:
    """Why an option does not take the lead, if it does not, and whether more rounds would hardly change that."""
    if not values:
        return Refusal.NEVER_MET, True
    if not has_effect:
        return Refusal.NO_EFFECT, True
    if len(values) < FEWEST_ROUNDS:
        return Refusal.FEW_ROUNDS, False
    strict = mean_interval(values, _SURE)
    if strict.low > 0:
        return Refusal.SLOWER, True
    if strict.high >= 0 or mean_interval(values).estimate > needed:
        return Refusal.NOT_PROVEN, strict.low > needed
    if is_slower_beside:
        return Refusal.SLOWER_BESIDE, False
    return Refusal.NONE, strict.high < needed


def _log_ratios(option: Option, leader: Option, rounds: Sequence[Round]) -> dict[str, list[float]]:
    """For each kind of load, the log ratio of each round that both took part in."""
    found: dict[str, list[float]] = {}
    for item in rounds:
        if option in item.blocks and leader in item.blocks:
            ratio = _log_ratio(item, option, leader)
            found.setdefault(item.condition.kind, []).append(ratio)
    return found


def _log_ratio(item: Round, option: Option, leader: Option) -> float:
    """Alone, the ratio of medians; beside other work, the worse of that and the ratio of the 95th percentiles."""
    first, second = item.blocks[leader], item.blocks[option]
    median = log_ratio_of_round(first, second)
    if item.condition.situation == QUIET:
        return median
    return max(median, math.log(_p95_ns(second) / _p95_ns(first)))


def _is_slower(kind: str, ratios: Sequence[float], option: Option, leader: Option, rounds: Sequence[Round]) -> bool:
    """Beside this kind of work: by the ratios within rounds, or by the medians that the rows show."""
    if float(np.mean(ratios)) > 0:
        return True
    beside = [item for item in rounds if item.condition.kind == kind]
    return _median_ns(option, beside) > _median_ns(leader, beside)


def _p95_ns(blocks: Sequence[Block]) -> float:
    return max(float(np.quantile(np.concatenate([np.asarray(block.nanoseconds) for block in blocks]), 0.95)), 1.0)


def _median_ns(option: Option, rounds: Sequence[Round]) -> float:
    return float(np.median([np.median(b.nanoseconds) for item in rounds for b in item.blocks.get(option, ())]))


def _why(situation: str, fewest: Option, chosen: Option, steps: Sequence[Step], rounds: Sequence[Round]) -> Remark:
    """The reason for the choice: the gain over the fewest threads, or why more do not pay."""
    if not steps:
        return remark("threads.nothing-else", load=situation)
    if chosen == fewest:
        return _why_fewest(situation, fewest, steps)
    gain = _step(chosen, fewest, rounds, has_effect=True)
    later = [step for step in steps if step.leader == chosen and step.option.threads > chosen.threads]
    return remark(
        "threads.faster",
        load=situation,
        option=to_data(chosen),
        than=to_data(fewest),
        ratio={"ratio": gain.ratio, "ci95": list(gain.ci95)},
        later=to_data(later[-1].option) if later else None,
    )


def _why_fewest(situation: str, fewest: Option, steps: Sequence[Step]) -> Remark:
    best = min(steps, key=lambda step: step.ratio if math.isfinite(step.ratio) else math.inf)
    if all(step.refused is Refusal.NO_EFFECT for step in steps):
        return remark("threads.no-effect", option=to_data(fewest))
    code = "threads.few-rounds" if best.rounds < FEWEST_ROUNDS else f"threads.{best.refused.value}"
    return remark(
        code,
        load=situation,
        option=to_data(best.option),
        than=to_data(fewest),
        ratio={"ratio": best.ratio, "ci95": list(best.ci95)},
        needed=best.needed,
        rounds=best.rounds,
        beside=best.beside,
    )


def row_from_measurement(option: Option, condition: Condition, found: Measurement) -> Row:
    """The row of one option under one condition."""
    samples = found.samples
    conditions = [block.conditions for block in samples.blocks]
    wall = sum(item.wall_seconds for item in conditions)
    busy = [item.other_cores_busy for item in conditions if item.other_cores_busy is not None]
    others = float(np.mean(busy)) if busy else None
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
        rounds=samples.processes,
        samples=samples.count,
        doubts=tuple(_row_doubts(condition, found.doubts, others)),
    )


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
    seen, others = row.effective_threads, row.other_cores_busy or 0.0
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
    if choice.option == found.current:
        return Finding(NAME, Standing.GOOD, Remark(choice.why.code, {**choice.why.facts, **busy}))
    facts = {**choice.why.facts, **busy, "use": choice.option.plan_text()}
    return Finding(NAME, Standing.TO_DO, Remark(choice.why.code, facts))


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with its threads: the study if there was one, else the plans of the race."""
    timed = [trial for trial in known.originals if trial.latency]
    rows = [trial for trial in timed if trial.plan.runs_on_cpu and trial.plan.kernel == "delegate"]
    if len(rows) < 2:
        return not_examined(NAME)
    times = [{"threads": trial.plan.threads, "median_ms": trial.median_ms} for trial in rows]
    return Finding(NAME, Standing.GOOD, remark("threads.raced", rows=times))

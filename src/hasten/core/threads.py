"""How many threads? The decision, from rounds in which all options alternated.

Options are taken from the fewest threads up. One with more threads takes the lead only if it is surely faster than the
leader (99 %, on ratios within the same rounds) and by at least 5 % for each doubling: what does not pay costs energy
and disturbs others. Alone, the median counts; beside other work the median and the 95th percentile both, so that a
round's ratio is the worse of the two, and the option must not be slower beside either kind of work. More threads than
cores are measured to show what they cost, and never recommended. A round that was to be alone, and beside which other
programs ran, tells about another situation: it does not count where enough others do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.comparison import FEWEST_ROUNDS, log_ratio_of_round
from hasten.core.statistics import mean_interval
from hasten.core.thread_rows import QUIET, SITUATIONS, Condition, Option
from hasten.core.units import percent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hasten.core.block import Block

GAIN_A_DOUBLING: Final = 0.05
_SURE: Final = 0.99
# So many cores kept busy by other programs, and a round was not alone.
_NOT_ALONE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Round:
    """Blocks of all options that alternated under one condition."""

    condition: Condition
    blocks: Mapping[Option, Sequence[Block]]


@dataclass(frozen=True, slots=True)
class Step:
    """One option against the leader before it: its time over the leader's."""

    option: Option
    leader: Option
    ratio: float
    ci95: tuple[float, float]
    rounds: int
    needed: float
    """The ratio that it had to come down to."""
    refused: str
    """Why it did not take the lead; empty if it did."""
    sure: bool
    """Whether more rounds would hardly change that."""

    def as_data(self) -> dict[str, Any]:
        """The step as JSON can hold it."""
        return {
            "threads": self.option.threads,
            "cores": list(self.option.cores),
            "against_threads": self.leader.threads,
            "against_cores": list(self.leader.cores),
            "ratio": self.ratio,
            "ci95": list(self.ci95),
            "rounds": self.rounds,
            "needed": self.needed,
            "took_the_lead": not self.refused,
            "refused": self.refused,
            "sure": self.sure,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """The option for a situation, and the steps that led to it."""

    situation: str
    option: Option
    why: str
    steps: tuple[Step, ...]

    @property
    def sure(self) -> bool:
        """Whether more rounds would hardly change it."""
        return all(step.sure for step in self.steps)

    def as_data(self) -> dict[str, Any]:
        """The choice as JSON can hold it."""
        return {
            "threads": self.option.threads,
            "cores": list(self.option.cores),
            "why": self.why,
            "sure": self.sure,
            "steps": [step.as_data() for step in self.steps],
        }


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
        if not step.refused:
            leader = option
    return Choice(situation, leader, _why(situation, options[0], leader, steps, relevant), tuple(steps))


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
    if not values:
        return Step(option, leader, math.nan, (math.nan, math.nan), 0, math.exp(needed), "never ran beside it", True)
    shown, strict = mean_interval(values), mean_interval(values, _SURE)
    slower_beside = [kind for kind, ratios in by_kind.items() if _is_slower(kind, ratios, option, leader, rounds)]
    refused, sure = "", strict.high < needed
    if not has_effect:
        refused, sure = "the setting has no effect", True
    elif len(values) < FEWEST_ROUNDS:
        refused, sure = f"only {len(values)} rounds", False
    elif strict.low > 0:
        refused, sure = "slower", True
    elif strict.high >= 0 or shown.estimate > needed:
        refused, sure = "not surely faster by enough", strict.low > needed
    elif slower_beside:
        refused, sure = f"slower beside {slower_beside[0]} work", False
    return Step(
        option=option,
        leader=leader,
        ratio=math.exp(shown.estimate),
        ci95=(math.exp(shown.low), math.exp(min(shown.high, 700.0))),
        rounds=len(values),
        needed=math.exp(needed),
        refused=refused,
        sure=sure,
    )


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


def _why(situation: str, fewest: Option, chosen: Option, steps: Sequence[Step], rounds: Sequence[Round]) -> str:
    where = SITUATIONS[situation]
    if not steps:
        return f"there is nothing else to choose from {where}."
    if chosen == fewest:
        return _why_fewest(where, fewest, steps)
    gain = _step(chosen, fewest, rounds, has_effect=True)
    low, high = gain.ci95
    sentence = (
        f"{chosen.describe()} {_take(chosen)} {percent(1 - gain.ratio)} less time than {fewest.describe()} {where}"
        f" (95 % interval {percent(max(0.0, 1 - high))} to {percent(1 - low)})"
    )
    if later := [step for step in steps if step.leader == chosen and step.option.threads > chosen.threads]:
        sentence += f", and {later[-1].option.describe()} win no further {percent(GAIN_A_DOUBLING)} a doubling"
    return sentence + "."


def _why_fewest(where: str, fewest: Option, steps: Sequence[Step]) -> str:
    best = min(steps, key=lambda step: step.ratio if math.isfinite(step.ratio) else math.inf)
    other, low, high = best.option.describe(), *best.ci95
    interval = f"95 % interval of the ratio {low:.2f} - {high:.2f}"
    verb = _take(best.option)
    if all(step.refused == "the setting has no effect" for step in steps):
        return f"more threads have no effect on this model, so {fewest.describe()} will do."
    if best.refused == "slower":
        return f"{other} {verb} {percent(best.ratio - 1)} more time than {fewest.describe()} {where} ({interval})."
    if best.rounds < FEWEST_ROUNDS:
        return (
            f"{best.rounds} rounds are too few to prove that {other} would be faster {where}; fewer threads cost less."
        )
    if best.refused.startswith("slower beside"):
        return f"{other} would be faster on the whole, but {verb} more time {best.refused.removeprefix('slower ')}."
    return (
        f"{other} would have to be surely faster {where}, by {percent(1 - best.needed)}, and did not prove it"
        f" ({interval}); fewer threads cost less energy and disturb others less."
    )


def _take(option: Option) -> str:
    return "takes" if option.threads == 1 else "take"

"""Which model to take within the limits, what each limit costs, and how a model in use stands among the others.

With a limit on accuracy the fastest model that keeps all limits is taken; with other limits the most accurate one.
Without any, it is the knee of the front: the model from which on accuracy costs more time than up to it. A measured
accuracy is judged as everywhere (`evaluate/accuracy_limit.py`), a latency by its 95 % interval; what is undecided may
be taken if its estimate keeps the limit, and never with `strict`. Of all else there is an estimate only.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.contention import BEYOND_LOAD
from hasten.core.finding import Finding, Standing
from hasten.core.floor import FloorState
from hasten.core.pareto import pareto_front
from hasten.core.remark import Remark, remark
from hasten.evaluate.accuracy_limit import limit_state, may_be_chosen, samples_to_decide
from hasten.measure.race import OUT_OF_THE_RACE
from hasten.practices.choose.facts import ChooseFound, ModelRow, Place, Source
from hasten.practices.practice import not_examined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.accuracy import Accuracy
    from hasten.core.comparison import Comparison
    from hasten.core.statistics import Interval
    from hasten.gate.facts import Limits
    from hasten.practices.practice import Evidence

NAME: Final = "choose"
_FIELDS: Final = {
    "latency": "latency_ms",
    "p95": "p95_ms",
    "init": "init_ms",
    "memory": "memory_mb",
    "size": "size_bytes",
    "accuracy": "accuracy",
}
LIMIT_NAMES: Final = tuple(_FIELDS)


class Goal(enum.Enum):
    """By what a model is taken; the value is its name in JSON."""

    FASTEST = "fastest"
    MOST_ACCURATE = "most accurate"
    KNEE = "knee"


@dataclass(frozen=True, slots=True)
class Choice:
    """The model to take, or the nearest to the limits where none keeps them."""

    goal: Goal
    row: ModelRow | None = None
    nearest: ModelRow | None = None
    kept: int = 0
    """How many models keep all limits."""
    costs: tuple[tuple[str, ModelRow], ...] = ()
    """Limits, each with the model that would be taken without it."""
    undecided: int = 0
    """Of those that keep all limits, how many do so by an estimate only."""


def verdict(known: Evidence) -> Finding:
    """How a tuned model stands with this practice: a tuning says nothing about it unless it is asked to."""
    return not_examined(NAME)


def asked_limits(limits: Limits) -> dict[str, float]:
    """The limits that are set, by name."""
    values = {name: getattr(limits, place) for name, place in _FIELDS.items()}
    return {name: value for name, value in values.items() if value is not None}


def value_of(row: ModelRow, limit: str) -> float | None:
    """What a limit is about, of one model; None where it is not known."""
    if limit == "latency":
        return None if row.latency is None else row.latency.estimate
    if limit == "accuracy":
        return None if row.accuracy is None else row.accuracy.value
    values = {"p95": row.p95_ms, "init": row.init_ms, "memory": row.peak_memory_mb, "size": float(row.size_bytes)}
    return values[limit]


def is_lower_bound(row: ModelRow, limit: str) -> bool:
    """Whether the limit is the least that is allowed."""
    return limit == "accuracy" and (row.accuracy is None or row.accuracy.higher_is_better)


def keeps(row: ModelRow, limit: str, asked: float, *, strict: bool = False) -> bool:
    """Whether a model may be chosen within a limit: by the estimate, and a measured accuracy by the rule for it."""
    if limit == "accuracy" and (measured := _measured(row)) is not None:
        return may_be_chosen(measured, asked, counted=row.counted, strict=strict)
    value = value_of(row, limit)
    within = value is not None and (value >= asked if is_lower_bound(row, limit) else value <= asked)
    return within and not (strict and state_of(row, limit, asked) is FloorState.UNDECIDED)


def state_of(row: ModelRow, limit: str, asked: float) -> FloorState:
    """How a model stands with a limit, by the 95 % interval where there is one."""
    if limit == "accuracy" and (measured := _measured(row)) is not None:
        return limit_state(measured, asked, counted=row.counted)
    if value_of(row, limit) is None:
        return FloorState.UNKNOWN
    if limit == "latency" and row.latency is not None and row.latency.low <= asked < row.latency.high:
        return FloorState.UNDECIDED
    return FloorState.KEPT if keeps(row, limit, asked) else FloorState.BROKEN


def overall_state(row: ModelRow, limits: dict[str, float]) -> FloorState:
    """How a model stands with all limits: the worst of its states; not judged where there are none."""
    states = {state_of(row, name, asked) for name, asked in limits.items()}
    worst_first = (FloorState.BROKEN, FloorState.UNKNOWN, FloorState.UNDECIDED, FloorState.KEPT)
    return next((state for state in worst_first if state in states), FloorState.NOT_JUDGED)


def accuracy_state(row: ModelRow, limits: dict[str, float]) -> FloorState:
    """How a measured accuracy stands with its limit; not judged where either is missing."""
    if "accuracy" not in limits or _measured(row) is None:
        return FloorState.NOT_JUDGED
    return state_of(row, "accuracy", limits["accuracy"])


def _measured(row: ModelRow) -> Accuracy | None:
    return row.accuracy if row.accuracy_source is Source.MEASURED else None


def eligible(found: ChooseFound) -> list[ModelRow]:
    """The models to choose from: timed, with accuracies that can be compared with each other."""
    if found.basis is Source.UNKNOWN:
        return []
    return [row for row in found.models if row.accuracy_source is found.basis and row.latency is not None]


def count_kept(found: ChooseFound) -> int:
    """How many models are known to keep all limits: of those to choose from, or of all that were timed where no
    accuracy is known. A limit on what is not known is not kept."""
    return len(_within(_judged(found), asked_limits(found.limits), strict=found.strict))


def _judged(found: ChooseFound) -> list[ModelRow]:
    return eligible(found) or [row for row in found.models if row.latency is not None]


def keeps_limits(found: ChooseFound) -> bool | None:
    """Whether the limits are kept: by the choice, or by any model where there is none; None where there are no limits,
    and where that is undecided."""
    limits, taken = asked_limits(found.limits), choice_of(found).row
    if not limits:
        return None
    states = {overall_state(row, limits) for row in (_judged(found) if taken is None else [taken])}
    if FloorState.KEPT in states:
        return True
    return None if FloorState.UNDECIDED in states else False


def choice_of(found: ChooseFound) -> Choice:
    """The model to take within the limits; none where the question is how the model in use stands."""
    if found.own:
        return Choice(Goal.KNEE)
    rows, limits = eligible(found), asked_limits(found.limits)
    goal = Goal.FASTEST if "accuracy" in limits else Goal.MOST_ACCURATE if limits else Goal.KNEE
    kept = _within(rows, limits, strict=found.strict)
    taken = _best(goal, kept)
    without = [(name, _best(goal, _within(rows, _but(limits, name), strict=found.strict))) for name in limits]
    costs = tuple((name, row) for name, row in without if row is not None and row != taken)
    nearest = _nearest(rows, limits) if taken is None else None
    undecided = sum(overall_state(row, limits) is FloorState.UNDECIDED for row in kept)
    return Choice(goal, taken, nearest, len(kept), costs, undecided)


def _but(limits: dict[str, float], left_out: str) -> dict[str, float]:
    return {name: value for name, value in limits.items() if name != left_out}


def _within(rows: Sequence[ModelRow], limits: dict[str, float], *, strict: bool = False) -> list[ModelRow]:
    return [row for row in rows if all(keeps(row, name, asked, strict=strict) for name, asked in limits.items())]


def _best(goal: Goal, rows: Sequence[ModelRow]) -> ModelRow | None:
    if not rows:
        return None
    if goal is Goal.FASTEST:
        return min(rows, key=lambda row: (row.median_ms, -row.merit, row.size_bytes))
    if goal is Goal.MOST_ACCURATE:
        return min(rows, key=lambda row: (-row.merit, row.median_ms, row.size_bytes))
    return knee(rows)


def knee(rows: Sequence[ModelRow]) -> ModelRow:
    """The model of the front that lies furthest above the line between its ends: latency on a logarithmic scale,
    accuracy on a plain one, each from 0 to 1. Of two the faster one."""
    front = pareto_front(rows, lambda row: (row.median_ms, -row.merit))
    first, last = front[0], front[-1]
    wide = math.log(last.median_ms / first.median_ms) if first.median_ms else 0.0
    high = last.merit - first.merit
    if not wide or not high:
        return first

    def above(row: ModelRow) -> float:
        return (row.merit - first.merit) / high - math.log(row.median_ms / first.median_ms) / wide

    return max(front, key=above)


def _nearest(rows: Sequence[ModelRow], limits: dict[str, float]) -> ModelRow | None:
    """The model whose worst miss is the smallest: by how many times it is beyond a limit."""
    known = [row for row in rows if all(value_of(row, name) is not None for name in limits)]
    return min(known, key=lambda row: sorted(_misses(row, limits), reverse=True), default=None)


def _misses(row: ModelRow, limits: dict[str, float]) -> list[float]:
    """The logarithm of how many times a model is beyond each limit; 0 where it is kept."""
    found = []
    for name, asked in limits.items():
        value = value_of(row, name) or 0.0
        over, under = (asked, value) if is_lower_bound(row, name) else (value, asked)
        ratio = over / under if under > 0 else math.inf
        found.append(max(0.0, math.log(ratio)) if ratio > 0 else 0.0)
    return found


def row_facts(row: ModelRow) -> dict[str, Any]:
    """A model as a remark holds it."""
    accuracy = row.accuracy
    return {
        "name": row.name,
        "model": row.model,
        "precision": row.precision,
        "origin": row.origin.value,
        "path": row.path,
        "metric": "" if accuracy is None else accuracy.metric,
        "accuracy": None if accuracy is None else accuracy.value,
        "source": row.accuracy_source.value,
        "weights": row.weights,
        "obtainable": bool(row.locations),
        "latency_ms": None if row.latency is None else row.latency.estimate,
        "plan": row.plan.describe(),
        "size": row.size_bytes,
    }


def limit_facts(row: ModelRow, limit: str, asked: float) -> dict[str, Any]:
    """A limit with what a model has of it."""
    metric = row.accuracy.metric if row.accuracy is not None else ""
    return {
        "limit": limit,
        "asked": asked,
        "value": value_of(row, limit),
        "metric": metric,
        "at_least": is_lower_bound(row, limit),
        "verdict": state_of(row, limit, asked).value,
    }


def why_of(found: ChooseFound) -> Remark:
    """The answer: what to take, or why nothing can be."""
    rows, limits = eligible(found), asked_limits(found.limits)
    if not rows:
        timed = [row for row in found.models if row.latency is not None]
        fastest = min(timed, key=lambda row: row.median_ms, default=None)
        return remark(
            "choose.accuracy-unknown",
            fastest=None if fastest is None else row_facts(fastest),
            count=len(timed),
            kept=count_kept(found),
            limits=[limit_facts(fastest, name, asked) for name, asked in limits.items()] if fastest else [],
        )
    choice = choice_of(found)
    if choice.row is None:
        nearest = choice.nearest or min(rows, key=lambda row: row.median_ms)
        misses = [limit_facts(nearest, name, asked) for name, asked in limits.items()]
        kept = [limit["limit"] for limit in misses if keeps(nearest, limit["limit"], limit["asked"])]
        undecided = sum(overall_state(row, limits) is FloorState.UNDECIDED for row in rows)
        facts = {"limits": misses, "kept": kept, "undecided": undecided}
        return remark("choose.none", count=len(rows), nearest=row_facts(nearest), **facts)
    taken = choice.row
    return remark(
        "choose.take",
        **row_facts(taken),
        goal=choice.goal.value,
        kept=choice.kept,
        undecided=choice.undecided,
        verdict=overall_state(taken, limits).value,
        count=len(rows),
        limits=[limit_facts(taken, name, asked) for name, asked in limits.items()],
    )


def notes_of(found: ChooseFound) -> list[Remark]:
    """What to know of the answer: what limits cost, what is not proven, what its accuracies are."""
    choice, limits = choice_of(found), asked_limits(found.limits)
    notes: list[Remark] = []
    if choice.row is not None:
        notes += _unproven(choice.row, limits)
        if choice.row.rivals:
            notes.append(remark("choose.rivals", name=choice.row.name, rivals=list(choice.row.rivals)))
    compared = choice.row or choice.nearest
    notes += [_cost(name, limits[name], row, compared, choice.goal) for name, row in choice.costs]
    notes += _unknown(found, choice.row, limits)
    if found.basis is Source.PUBLISHED:
        notes.append(remark("choose.published"))
    if found.basis is Source.MEASURED and any(row.accuracy_source is Source.PUBLISHED for row in found.models):
        notes.append(remark("choose.both-sources", data=found.data))
    return [*notes, *found.notes]


def _unproven(row: ModelRow, limits: dict[str, float]) -> list[Remark]:
    """Limits that a model keeps by its estimate only."""
    found = []
    for name, asked in limits.items():
        if state_of(row, name, asked) is FloorState.UNDECIDED:
            ends, data = _ends(row, name), _data_facts(row, name, asked)
            found.append(remark("choose.unproven", name=row.name, **limit_facts(row, name, asked), ci95=ends, **data))
    return found


def _data_facts(row: ModelRow, limit: str, asked: float) -> dict[str, Any]:
    """How many samples an accuracy is of, and about how many would decide."""
    measured = _measured(row) if limit == "accuracy" else None
    if measured is None:
        return {}
    return {"samples": measured.samples, "needed": samples_to_decide(measured, asked, counted=row.counted)}


def _ends(row: ModelRow, limit: str) -> list[float | None]:
    interval: tuple[float, float] = (-math.inf, math.inf)
    if limit == "latency" and row.latency is not None:
        interval = row.latency.low, row.latency.high
    if limit == "accuracy" and row.accuracy is not None:
        interval = row.accuracy.low, row.accuracy.high
    return [end if math.isfinite(end) else None for end in interval]


def _cost(limit: str, asked: float, without: ModelRow, compared: ModelRow | None, goal: Goal) -> Remark:
    """What could be taken without a limit, and what that would change."""
    facts = {**row_facts(without), "goal": goal.value}
    if compared is not None and compared.name != without.name:
        facts["ratio"] = {"ratio": without.median_ms / compared.median_ms}
        if compared.accuracy is not None and without.accuracy is not None:
            facts["gain"] = without.accuracy.value - compared.accuracy.value
    return remark("choose.cost", limit=limit_facts(without, limit, asked), **facts)


def _unknown(found: ChooseFound, taken: ModelRow | None, limits: dict[str, float]) -> list[Remark]:
    """Models of unknown accuracy that would be faster than the choice and keep all other limits."""
    if taken is None:
        return []
    others = {name: asked for name, asked in limits.items() if name != "accuracy"}
    rows = [row for row in found.models if row.accuracy_source is Source.UNKNOWN and row.latency is not None]
    faster = [row for row in _within(rows, others) if row.latency and row.latency.high < taken.median_ms]
    named = [{"name": row.name, "latency_ms": row.median_ms} for row in sorted(faster, key=lambda row: row.median_ms)]
    return [remark("choose.unknown-faster", rows=named)] if named else []


def dropped(row: ModelRow, winner: ModelRow, compared: Comparison | None, gain: Interval | None) -> Remark:
    """Why a model is not on the front."""
    facts: dict[str, Any] = {"than": winner.name, "size": row.size_bytes, "winner_size": winner.size_bytes}
    if compared is not None:
        ends = [end if math.isfinite(end) else None for end in compared.ci95]
        facts |= {"verdict": compared.verdict.value, "ratio": {"ratio": compared.ratio, "ci95": ends}}
    if gain is not None and row.accuracy is not None:
        facts |= {"gain": gain.estimate, "metric": row.accuracy.metric}
    return remark("choose.dominated", **facts)


def finding_of(found: ChooseFound) -> Finding:
    """How things stand: of the model in use, where there is one, else what to take."""
    own = found.row(found.own) if found.own else None
    if own is not None:
        return _own_finding(found, own)
    told = why_of(found)
    if told.code == "choose.take":
        is_open = told.facts["verdict"] == FloorState.UNDECIDED.value
    else:
        is_open = told.code == "choose.accuracy-unknown" or bool(told.facts["undecided"])
    return Finding(NAME, Standing.UNDECIDED if is_open else Standing.TO_DO, told)


def _own_finding(found: ChooseFound, own: ModelRow) -> Finding:
    """Whether another model beats the one in use; where accuracies cannot be compared, whether any is faster."""
    # Variants of the same model are no other model for the task.
    others = [row for row in found.models if row.model != own.model and row.latency is not None]
    comparable = [row for row in others if row.accuracy_source is own.accuracy_source is Source.MEASURED]
    if own.latency is None or not others:
        return not_examined(NAME)
    if comparable and own.place is Place.OFF:
        winner = found.row(str(own.why_dropped.facts.get("than", "")))
        if winner is not None and winner.model != own.model:
            facts = {**row_facts(winner), **own.why_dropped.facts, "own": own.name}
            return Finding(NAME, Standing.TO_DO, Remark("choose.own-beaten", facts))
    if comparable and own.place is not Place.UNKNOWN:
        rivals = [name for name in own.rivals if (row := found.row(name)) is not None and row.model != own.model]
        if rivals:
            return Finding(NAME, Standing.UNDECIDED, remark("choose.own-rivals", name=own.name, rivals=rivals))
        return Finding(NAME, Standing.GOOD, remark("choose.own-best", name=own.name, count=len(comparable)))
    return _own_by_speed(own, others)


def _own_by_speed(own: ModelRow, others: Sequence[ModelRow]) -> Finding:
    faster = sorted((row for row in others if _is_faster(row, own)), key=lambda row: row.median_ms)
    if not faster:
        unsure = [row.name for row in others if not _is_faster(own, row)]
        told = remark("choose.own-fastest", name=own.name, count=len(others), undecided=unsure)
        return Finding(NAME, Standing.UNDECIDED if unsure else Standing.GOOD, told)
    # Of those that are faster, the one with the highest published accuracy is the first to try.
    best = max(faster, key=lambda row: (row.merit, -row.median_ms))
    told = remark("choose.own-slower", own=own.name, own_ms=own.median_ms, count=len(faster), **row_facts(best))
    return Finding(NAME, Standing.UNDECIDED, told)


def _is_faster(row: ModelRow, than: ModelRow) -> bool:
    """Whether the intervals prove it; one round, which has none, proves what decides in the race: what no load on the
    machine explains, which slows models on the same plan alike."""
    if row.latency is None or than.latency is None:
        return False
    factor = OUT_OF_THE_RACE if row.plan == than.plan else BEYOND_LOAD
    return row.latency.high < than.latency.low or row.median_ms * factor < than.median_ms

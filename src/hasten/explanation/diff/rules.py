"""How much of a node's own error is to be expected, and what two models side by side come to.

Three sources explain an error of a node that is run alone on the same inputs as its counterpart: the rounding of its
arithmetic, which grows with the number of terms and with how far the terms cancel; the steps of its output's type; and
the precision of its weights and of the arithmetic. The first is not guessed from the operator: the first model's node
is run on slightly changed inputs, and what its output moves by (`gain`) tells how much a relative error of the terms
can do. What is beyond all three is a fault.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.remark import Remark, remark
from hasten.explanation.diff.facts import CONSTANT, WEIGHTS, DiffRow, Status
from hasten.explanation.tensor_errors import DROP_DB, LARGE_ERROR_DB
from hasten.model.graph import STATE_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.explanation.diff.facts import DiffOutput
    from hasten.explanation.diff.islands import Alone
    from hasten.explanation.facts import LossyInput
    from hasten.explanation.tensor_errors import ErrorMeter

EXACT_DB: Final = 100.0
"""A hundred-thousandth of the signal: approximations of functions in float32 (exp, interpolation) are about as good."""
_EXACT: Final = 10 ** (-EXACT_DB / 20)
_FLOAT: Final = 2.0**-24
_HALF: Final = 2.0**-11
# The error of a sum of n terms is about √n / 3 times that of rounding each of them once: n roundings of partial sums.
_OF_A_SUM: Final = 1 / 3
# Ours are estimates: errors up to these many times as large are still as expected.
_ROUNDING_MARGIN: Final = 4.0
_PRECISION_MARGIN: Final = 2.5
# Kernels of integers may be off by a step where others are not; functions of 16 bits are interpolated.
_STEPS: Final[dict[str, float]] = {"int8": 1.0, "uint8": 1.0, "int16": 4.0}
# The largest of many errors, against their root mean square: of floats, of steps, of weights.
_WORST: Final = 50.0
_WORST_STEPS: Final = 4.0
_WORST_WEIGHTS: Final = 16.0
_LARGEST_DB: Final = 400.0


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a section before it runs."""

    is_choice: bool = False
    """Its output is integers that mean themselves: classes, positions. They are right or wrong."""
    terms: float = 1.0
    """How many terms one value of its output is the sum of."""
    step_before: float = 0.0
    """Between neighbors in the first model's output type; 0 for floats."""
    step_after: float = 0.0
    dtype_before: str = "float32"
    dtype_after: str = "float32"
    weights: float = 0.0
    """The relative error that the type of the second model's weights makes, where the first one has another type."""
    half: bool = False
    """One of the plans computes in half precision."""
    is_dynamic: bool = False
    """The second model rounds its inputs to eight bits, by their largest value."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """An error that is to be expected: its root mean square, and the largest."""

    rms: float
    worst: float

    def covers(self, error: ErrorMeter) -> bool:
        """Whether an error is no larger than that."""
        return error.error_rms <= self.rms and error.worst <= self.worst


def rounding(alone: Alone, place: int, traits: Traits) -> Allowance:
    """What kernels of the first model's own precision may differ by."""
    output = alone.outputs[place]
    terms = max(1.0, math.sqrt(traits.terms) * _OF_A_SUM)
    of_terms = _ROUNDING_MARGIN * _FLOAT * terms * output.gain
    floats = math.hypot(_EXACT * output.error.signal_rms, of_terms, output.gain * alone.mismatch)
    steps = _STEPS.get(traits.dtype_before, 0.0) * traits.step_before
    return Allowance(math.hypot(floats, steps), _WORST * floats + _WORST_STEPS * steps)


def precision(alone: Alone, place: int, traits: Traits) -> Allowance:
    """What the second model's number formats may add to that."""
    output, own = alone.outputs[place], rounding(alone, place, traits)
    steps = _STEPS.get(traits.dtype_after, 0.0) * traits.step_after
    relative = traits.weights
    if traits.half:
        relative = math.hypot(relative, 2 * _HALF * max(1.0, math.sqrt(traits.terms) * _OF_A_SUM))
    if traits.is_dynamic:
        relative = math.hypot(relative, alone.crest / 127)
    coarse = _PRECISION_MARGIN * math.hypot(
        relative * output.gain, 2 * _HALF * output.error.signal_rms if traits.half else 0.0
    )
    return Allowance(math.hypot(own.rms, steps, coarse), own.worst + _WORST_STEPS * steps + _WORST_WEIGHTS * coarse)


def judged(row: DiffRow, alone: Alone, traits: Sequence[Traits]) -> DiffRow:
    """The row with what its node adds: that of its worst output."""
    verdicts = [_verdict_of(alone, place, one) for place, one in enumerate(traits)]
    place = max(range(len(verdicts)), key=lambda at: (_GRAVITY.index(verdicts[at][0]), -alone.outputs[at].error.snr_db))
    error, (status, allowed) = alone.outputs[place].error, verdicts[place]
    return replace(
        row,
        status=status,
        added_db=finite_db(error.snr_db) if not traits[place].is_choice else None,
        added_max_error=error.worst if not error.broken else None,
        expected_db=_ratio_db(error.signal_rms, allowed.rms),
    )


_FAULTS: Final = tuple(status for status in Status if status.is_fault)
_GRAVITY: Final = (
    Status.UNKNOWN,
    Status.EQUAL,
    Status.ROUNDING,
    Status.PRECISION,
    Status.CLIPPED,
    Status.UNEXPLAINED,
    Status.NOT_FINITE,
)


def _verdict_of(alone: Alone, place: int, traits: Traits) -> tuple[Status, Allowance]:
    error = alone.outputs[place].error
    if traits.is_choice:
        wrong = error.differing or error.broken
        return Status.UNEXPLAINED if wrong else Status.EQUAL, Allowance(0.0, 0.0)
    explained = precision(alone, place, traits)
    if error.not_finite:
        return Status.NOT_FINITE, explained
    if error.broken:
        return Status.UNEXPLAINED, explained
    if not error.differing:
        return Status.EQUAL, explained
    if rounding(alone, place, traits).covers(error):
        return Status.ROUNDING, explained
    if explained.covers(error):
        return Status.PRECISION, explained
    within = alone.outputs[place].within
    if within is None or not explained.covers(within):
        return Status.UNEXPLAINED, explained
    # A few outliers that clip are what a calibration chooses; more than that costs more than the steps do.
    return Status.PRECISION if error.error_rms <= explained.rms else Status.CLIPPED, explained


def finite_db(value: float) -> float | None:
    """A ratio that a record can hold; None for equal or broken values."""
    return value if math.isfinite(value) else None


def _ratio_db(signal: float, error: float) -> float | None:
    if signal <= 0 or error <= 0:
        return None
    return min(_LARGEST_DB, 20 * math.log10(signal / error))


def ranked(rows: Sequence[DiffRow]) -> list[DiffRow]:
    """The rows with ranks: faults first, then by the error that a node adds."""
    adding = [row for row in rows if row.status not in (Status.EQUAL, Status.UNKNOWN) and row.index is not None]
    adding.sort(key=lambda row: (-_GRAVITY.index(row.status) if row.status.is_fault else 0, _added(row)))
    ranks = {row.index: rank for rank, row in enumerate(adding, 1)}
    return [replace(row, rank=ranks.get(row.index)) for row in rows]


def _added(row: DiffRow, unknown: float = -math.inf) -> float:
    """The SNR of what a node adds. Unknown ones are not finite, or choices that are wrong: nothing is worse."""
    return unknown if row.added_db is None else row.added_db


def first_divergent(rows: Sequence[DiffRow]) -> int | None:
    """The first node with a fault; without one, the first whose number format makes a difference."""
    for wanted in (_FAULTS, (Status.PRECISION,)):
        found = [row.index for row in rows if row.status in wanted and row.index is not None]
        if found:
            return min(found)
    return None


def first_not_finite(rows: Sequence[DiffRow], feeds: Mapping[int, Sequence[int]]) -> int | None:
    """The first node that has infinities or no numbers where its inputs have none. `feeds` are the nodes before it."""
    broken = {row.index for row in rows if row.not_finite and row.index is not None}
    return next((node for node in sorted(broken) if not broken.intersection(feeds.get(node, ()))), None)


def unproven_span(rows: Sequence[DiffRow], feeds: Mapping[int, Sequence[int]]) -> tuple[int, int] | None:
    """Nodes between which error enters that could not be run alone: the first such range.

    A node is suspected where its SNR is clearly below that of its inputs while it adds nothing itself, or nobody knows.
    """
    by_node = {row.index: row for row in rows if row.index is not None}
    # Steps of integers add up behind a node that nobody can run, and are no fault of it.
    coarse = any(row.status is not Status.UNKNOWN and _added(row, math.inf) < EXACT_DB for row in rows)
    limit = LARGE_ERROR_DB if coarse else EXACT_DB
    for node in sorted(by_node):
        row = by_node[node]
        if row.op in STATE_OPERATORS:  # what it reads was written in an earlier run
            continue
        inherited = EXACT_DB if row.inherited_db is None else min(EXACT_DB, row.inherited_db)
        if row.snr_db is None or row.snr_db >= limit or inherited - row.snr_db < DROP_DB:
            continue
        if row.status.is_fault or row.status is Status.PRECISION:  # it explains itself
            continue
        blind = _blind(node, by_node, feeds)
        if blind:
            return min(blind), max(blind)
    return None


def _blind(node: int, by_node: Mapping[int, DiffRow], feeds: Mapping[int, Sequence[int]]) -> set[int]:
    """The node itself and those before it, as far as nobody knows what they add."""
    found: set[int] = set()
    waiting = [node] if by_node[node].is_unknown else list(feeds.get(node, ()))
    while waiting:
        at = waiting.pop()
        if at not in found and at in by_node and by_node[at].is_unknown:
            found.add(at)
            # What was compared, and is no worse than its inputs, lets nothing wrong through.
            waiting += feeds.get(at, ()) if by_node[at].snr_db is None else ()
    return found


def narrowest(shows: Callable[[int, int], bool], count: int) -> tuple[int, int] | None:
    """The smallest range of `count` nodes that still shows a trouble which the whole shows, found by bisection.

    It takes about 2·log₂(count) questions: the shortest beginning that shows it, then the shortest end of that.
    """
    if count < 1 or not shows(0, count - 1):
        return None
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if shows(0, middle):
            high = middle
        else:
            low = middle + 1
    last, low, high = high, 0, high
    while low < high:
        middle = (low + high + 1) // 2
        if shows(middle, last):
            low = middle
        else:
            high = middle - 1
    return low, last


@dataclass(frozen=True, slots=True)
class Divergence:
    """What the verdict is made of."""

    rows: Sequence[DiffRow]
    outputs: Sequence[DiffOutput]
    first: int | None
    not_finite: int | None = None
    span: tuple[int, int] | None = None
    is_fusion: bool = False
    """The range shows it only while none of its inner tensors is read."""
    lossy: LossyInput | None = None
    """An input whose type loses a part of what the first model is fed."""
    model: str = ""
    """The path of the second model."""
    clipped: Mapping[int, float] = field(default_factory=dict)
    """Nodes of the second model whose output's type clips values of the first, and the share of these."""


def verdict_of(divergence: Divergence) -> Remark:
    """What two models side by side come to."""
    rows = {row.index: row for row in divergence.rows if row.index is not None}
    faults = [row for row in rows.values() if row.status.is_fault]
    facts: dict[str, Any] = {"output": _worst_output(divergence.outputs)}
    if divergence.not_finite is not None:
        row = rows[divergence.not_finite]
        before = divergence.first is not None and divergence.first < divergence.not_finite and bool(faults)
        earlier = _node(rows[divergence.first]) if before and divergence.first is not None else None
        return remark("diff.not-finite", node=_node(row), values=row.not_finite, earlier=earlier, **facts)
    if faults and divergence.first is not None:
        return remark(
            "diff.diverges",
            node=_node(rows[divergence.first]),
            others=len(faults) - 1,
            model=divergence.model,
            clipped=divergence.clipped.get(divergence.first),
            other_weights=sum(any(one.code == WEIGHTS for one in row.causes) for row in faults),
            **facts,
        )
    if divergence.span is not None:
        first, last = (_node(rows[index]) for index in divergence.span)
        return remark("diff.fusion" if divergence.is_fusion else "diff.span", first=first, last=last, **facts)
    if divergence.first is not None:
        coarse = [row for row in rows.values() if row.status is Status.PRECISION]
        worst = min(coarse, key=_added)
        return remark(
            "diff.precision", node=_node(rows[divergence.first]), worst=_node(worst), nodes=len(coarse), **facts
        )
    if divergence.lossy is not None:
        lossy = divergence.lossy
        return remark("diff.input", name=lossy.name, dtype=lossy.dtype, snr_db=finite_db(lossy.snr_db), **facts)
    unknown = sum(row.is_unknown for row in rows.values())
    constant = sum(row.why.code == CONSTANT for row in rows.values())
    compared = len(rows) - unknown - constant
    if all(output.differing == 0 and not output.not_finite for output in divergence.outputs):
        inner = any(row.differing for row in rows.values())
        code = "diff.equal-outputs" if inner or not compared else "diff.equal"
        return remark(code, nodes=compared, unknown=unknown, constant=constant, **facts)
    off = any(
        output.snr_db is None or output.snr_db < LARGE_ERROR_DB for output in divergence.outputs if output.differing
    )
    return remark("diff.amplified" if off else "diff.rounding", unknown=unknown, **facts)


def _worst_output(outputs: Sequence[DiffOutput]) -> dict[str, Any] | None:
    """The output that is furthest off."""
    if not outputs:
        return None
    worst = min(outputs, key=lambda one: (-one.not_finite, one.snr_db if one.snr_db is not None else math.inf))
    return {
        "name": worst.name,
        "snr_db": worst.snr_db,
        "max_error": worst.max_error,
        "differing": worst.differing,
        "not_finite": worst.not_finite,
    }


def _node(row: DiffRow) -> dict[str, Any]:
    return {
        "index": row.index,
        "op": row.op,
        "location": row.location,
        "added_db": row.added_db,
        "added_max_error": row.added_max_error,
        "expected_db": row.expected_db,
        "status": row.status.value,
        "cause": row.causes[0].code if row.causes else "",
    }

"""The phrases of an explanation."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes, doubts
from hasten.core.codec import from_data
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import decibels, milliseconds, percent, several, speedup
from hasten.explanation.facts import INPUT_CONVERSIONS, Cause, CauseKind
from hasten.explanation.rules import SMALLEST_PART
from hasten.explanation.tensor_errors import DROP_DB, ROUNDING_DB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.explanation.facts import Clipping, ExplainFound, LossyInput, NodeRow, NumericalErrors, Side

_CLIPPED_SHOWN: Final = 3


def cause_words(cause: Cause) -> str:
    """What happened to the nodes, without times."""
    nodes = f"{cause.nodes} {cause.op}" if cause.nodes > 1 else f"one {cause.op}"
    if cause.kind is CauseKind.LEFT_DELEGATE:
        return f"{nodes} left the delegate for the engine's built-in kernel"
    if cause.kind is CauseKind.ENTERED_DELEGATE:
        return f"{nodes} moved into the delegate"
    if cause.kind is CauseKind.CONVERSIONS:
        return _conversion_words(cause)
    if cause.kind is CauseKind.OPAQUE:
        return f"{nodes} in a delegate that does not report its operators"
    if cause.kind in (CauseKind.ADDED, CauseKind.REMOVED):
        return f"{nodes} {cause.kind.value}"
    pace = "slower" if cause.change_ms.estimate > 0 else "faster"
    return f"{nodes} {pace} in {'the same' if cause.kernel_before == cause.kernel_after else 'another'} kernel"


def _conversion_words(cause: Cause) -> str:
    if cause.op != INPUT_CONVERSIONS:
        return f"{cause.nodes} {cause.op} {'added' if cause.kernel_after else 'removed'}"
    nodes, many = several(cause.nodes, "node"), cause.nodes > 1
    if not cause.ms_after:
        return f"{nodes} no longer {'convert their' if many else 'converts its'} input in each run"
    return f"{nodes} {'convert their' if many else 'converts its'} input in each run"


def _verdict(speed: Callable[[Mapping[str, Any]], str]) -> Phrase:
    """What happened, then why."""

    def told(facts: Mapping[str, Any]) -> str:
        few = "" if facts["pairs"] is None else f" (only {several(facts['pairs'], 'pair')} of processes)"
        said = f"{speed(facts)}{few}"
        if facts["main"] is None:
            return f"{said}."
        main, other = ([from_data(Cause, cause) for cause in facts[key]] for key in ("main", "other"))
        first = f"{said}: {_listed(main)}." if main else f"{said}. No single group of operators explains it."
        return f"{first} In return, {_listed(other)}." if other else first

    return Phrase(told)


def _unmoved(speed: str) -> Phrase:
    """Neither faster nor slower, or nobody knows; operators may have changed all the same."""

    def told(facts: Mapping[str, Any]) -> str:
        if facts["main"] is None:
            return f"{speed}."
        if not facts["main"]:
            return f"{speed}. No group of operators changed by more than {percent(SMALLEST_PART)} of the run."
        main, other = ([from_data(Cause, cause) for cause in facts[key]] for key in ("main", "other"))
        first = f"{speed}. What changed: {_listed(main)}."
        return f"{first} In return, {_listed(other)}." if other else first

    return Phrase(told)


def _listed(causes: Sequence[Cause]) -> str:
    parts = [f"{cause_words(cause)} ({_kernels(cause)}{signed_ms(cause.change_ms.estimate)})" for cause in causes]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def signed_ms(ms: float) -> str:
    """`+3.10 ms`, `−0.400 ms`."""
    return f"{'−' if ms < 0 else '+'}{milliseconds(abs(ms))}"


def _kernels(cause: Cause) -> str:
    """Which kernel took the place of which, where that is what happened."""
    if cause.kind is not CauseKind.KERNEL or cause.kernel_before == cause.kernel_after:
        return ""
    return f"{cause.kernel_before} → {cause.kernel_after}, "


def partitions_words(found: ExplainFound) -> str:
    """How both models are split up between delegate and engine."""
    text = f"Delegated: {_delegated(found.before)} before, {_delegated(found.after)} after."
    left = _kinds(found.after.left)
    return f"{text} The engine itself now runs {left}." if left else text


def _delegated(side: Side) -> str:
    parts = several(side.delegated_partitions or 0, "partition")
    if not side.nodes:
        return f"a graph that the accelerator's compiler rewrote ({parts})"
    return f"{side.delegated_nodes} of {several(side.nodes, 'operator')} in {parts}"


def _kinds(left: Sequence[str]) -> str:
    """`11 DEPTHWISE_CONV_2D, SOFTMAX`, most first, from labels such as `#5 SOFTMAX`."""
    numbers: dict[str, int] = {}
    for label in left:
        op = label.partition(" ")[2]
        numbers[op] = numbers.get(op, 0) + 1
    ordered = sorted(numbers.items(), key=lambda item: -item[1])
    return ", ".join(f"{number} {op}" if number > 1 else op for op, number in ordered)


def instructions_words(found: ExplainFound) -> str:
    """The CPU's instruction sets for low precision."""
    known = found.instructions
    if not known.has and not known.lacks:
        return "This machine does not report its instruction sets."
    text = (
        f"Instruction sets for int8 and half precision ({known.cpu}): has {', '.join(known.has) or 'none'};"
        f" lacks {', '.join(known.lacks) or 'none'}."
    )
    return f"{text} {BOOK.text(known.hint)}".strip()


def headroom_words(found: ExplainFound) -> str:
    """What the machine's peak leaves; empty where it was not measured."""
    before, after = found.before.headroom_ms, found.after.headroom_ms
    if before is None or after is None:
        return ""
    return f"Headroom to this machine's measured peak: {milliseconds(before)} before, {milliseconds(after)} after."


def numbers_words(errors: NumericalErrors) -> str:
    """What was compared, and how far the outputs are off."""
    named = PurePath(errors.inputs.facts["source"]).name if "source" in errors.inputs.facts else ""
    text = (
        f"Compared the outputs of {several(errors.compared, 'node')} with the original's on"
        f" {several(errors.samples, 'sample')} of {named or BOOK.text(errors.inputs)}."
    )
    if errors.outputs_equal:
        return f"{text} The outputs are equal to the last bit."
    if errors.output_snr_db is None:
        return f"{text} The outputs cannot be compared."
    return f"{text} The worst output has a signal-to-noise ratio (SNR) of {db_words(errors.output_snr_db)}."


def place_words(found: ExplainFound, errors: NumericalErrors) -> list[str]:
    """Where error enters, and where most of the signal is lost."""
    if errors.compared == 0:
        return []
    sentences = [
        f"Error enters at the input {lossy.name!r}: {_held_in(lossy)} keeps an SNR of {db_words(lossy.snr_db)}."
        for lossy in errors.lossy_inputs
    ]
    if errors.first_drop is None:
        return [*sentences, "No node is clearly worse than its inputs."]
    first = "The first node that adds error is" if sentences else "Error enters first at"
    sentences.append(f"{first} {_node(found, errors.first_drop)}.")
    if errors.largest_drop is not None and errors.largest_drop != errors.first_drop:
        sentences.append(f"The largest loss is at {_node(found, errors.largest_drop)}.")
    if errors.first_below not in (None, errors.first_drop, errors.largest_drop):
        sentences.append(f"The error first exceeds a tenth of the signal at {_node(found, errors.first_below)}.")
    return sentences


def _held_in(lossy: LossyInput) -> str:
    return f"its {lossy.dtype}" if lossy.node is None else f"{lossy.dtype} (#{lossy.node} QUANTIZE)"


def _node(found: ExplainFound, after: int | None) -> str:
    row = found.row_of(after) if after is not None else None
    assert row is not None
    drop = "its inputs have no error" if is_new(row) else f"{row.drop_db or 0.0:.0f} dB below its inputs"
    return f"#{after} {row.op} ({snr_words(row)}, {drop})"


def is_new(row: NodeRow) -> bool:
    """Whether error enters here that was not in the node's inputs."""
    if row.snr_db is None or row.drop_db is None:
        return False
    return row.drop_db >= DROP_DB and row.snr_db + row.drop_db >= ROUNDING_DB


def clipping_words(found: ExplainFound, errors: NumericalErrors) -> tuple[list[str], str]:
    """The tensors that clip, and what to do about it."""
    sentences = [_clipping(found, clipping) for clipping in errors.clipped[:_CLIPPED_SHOWN]]
    if (more := len(errors.clipped) - len(sentences)) > 0:
        sentences.append(f"{several(more, 'more tensor')} {'clips' if more == 1 else 'clip'} values (see --json).")
    return sentences, (
        "Calibrate with samples that cover this range, or use min-max ranges"
        " (hasten quantize --recipe static_int8_min_max)."
    )


def _clipping(found: ExplainFound, clipping: Clipping) -> str:
    if clipping.node is None:
        where = f"The input {clipping.name!r}"
    else:
        where = f"#{clipping.node} {found.row_of(clipping.node).op}"
    low, high = (f"{value:.3g}" for value in clipping.original)
    least, most = (f"{value:.3g}" for value in clipping.held)
    return (
        f"{where} clips {percent(clipping.share)} of the original's values: its range is {least} to {most},"
        f" the values span {low} to {high}."
    )


def db_words(value: float) -> str:
    """A ratio in decibels."""
    return "broken" if value == float("-inf") else decibels(value)


def snr_words(row: NodeRow) -> str:
    """The SNR of a node."""
    return "equal" if row.same_to_the_bit else "-" if row.snr_db is None else db_words(row.snr_db)


PHRASES: Final[dict[str, Phrase]] = {
    "explain.slower": _verdict(lambda facts: f"The changed model is {speedup(facts['ratio'])}"),
    "explain.faster": _verdict(lambda facts: f"The changed model is {speedup(facts['ratio'])}"),
    "explain.same": _unmoved("The changed model is as fast as the original"),
    "explain.undecided": _unmoved("Whether the changed model is faster or slower is undecided"),
    "explain.keep-in-delegate": Phrase(
        "Keeping {operators:list} in the delegate, as in the original, may help. This was not measured.",
        "Keep {operators:list} unchanged, and measure again.",
    ),
    "explain.no-int8-dot-product": Phrase(
        "Without int8 dot-product instructions, integer kernels gain little over float ones."
    ),
    "explain.not-timed": Phrase("The operators were not timed. {model}: {failure}"),
    "explain.other-inputs": Phrase("The original takes {before:count input}, the changed model {after}."),
    "explain.other-shape": Phrase("The input {name!r} of the changed model differs in shape from the original's."),
    "explain.inputs-data": Phrase("{source}"),
    "explain.inputs-range": Phrase("random inputs over the range of the changed model's inputs"),
    "explain.inputs-unit": Phrase("random inputs from 0 to 1"),
    "explain.random": Phrase(
        "The inputs are random, unlike the data that the model was trained on.",
        "Treat this as a rough guide, or give --data.",
    ),
    "explain.disturbed": Phrase(
        "Reading inner tensors changes the outputs themselves (SNR {snr_db:.1f} dB), as the delegate then fuses less.",
        "The SNRs are those of the models without these fusions.",
    ),
    "explain.unread": Phrase("{nodes:count node} could not be read. {why}"),
    "explain.many-refusals": Phrase("The engine refused too many copies of the model."),
    "explain.not-shown": Phrase("The engine does not expose it."),
    "explain.skipped": Phrase("Skipped {samples:count bad sample}. The first: {first}"),
    "explain.no-numbers": Phrase("The numbers were not compared. {why}"),
}
BOOK: Final = Phrasebook(PHRASES, accuracy_notes.PHRASES, doubts.PHRASES)

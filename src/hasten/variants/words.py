"""The phrases about variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.remark import Remark

OPERATOR_CODES: Final = "variants.operator-codes"
SIGNATURE_ADDED: Final = "variants.signature-added"
FLOAT16_FOLDED: Final = "variants.float16-folded"
UNUSED_TENSORS: Final = "variants.unused-tensors"
FLOAT_WEIGHTS: Final = "variants.float-weights"
NO_INTEGER_FORM: Final = "variants.no-integer-form"
OTHER_GRAPHS: Final = "variants.other-graphs"
WEIGHTS_TWICE: Final = "variants.weights-twice"
OTHER_SIGNATURES: Final = "variants.other-signatures"
CALLED_IN_FLOAT: Final = "variants.called-in-float"
ONE_SAMPLE: Final = "variants.one-sample"
FIRST_SAMPLE: Final = "variants.first-sample"
BIASES: Final = "variants.biases"
EMPTY_CHANNELS: Final = "variants.empty-channels"
STATEFUL: Final = "variants.stateful"
INTEGER_WEIGHTS: Final = "variants.integer-weights"
ZEROS: Final = "variants.zeros"
ENCODED: Final = "variants.encoded"


def _operators(counted: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counted)


def _other_graphs(facts: Mapping[str, Any]) -> str:
    count, signature, total = facts["graphs"], facts["signature"], facts["total"]
    what = f"the graph of signature {signature!r} was"
    if count > 1:
        what = f"the {count} graphs that signature {signature!r} runs were"
    return f"Only {what} quantized, of {total} in the file."


def _encoded(facts: Mapping[str, Any]) -> str:
    count = facts["layers"]
    layers = "1 dense layer is" if count == 1 else f"{count} dense layers are"
    return f"{layers} stored without zeros, for LiteRT's sparse kernels."


PHRASES: Final[dict[str, Phrase]] = {
    OPERATOR_CODES: Phrase("Filled in {codes:count operator code}, which the file stores in the old field only."),
    SIGNATURE_ADDED: Phrase("Added the signature {signature!r}, as the file has none."),
    FLOAT16_FOLDED: Phrase("Converted {constants:count float16 constant} to float32."),
    UNUSED_TENSORS: Phrase("Emptied {tensors:count unused tensor}."),
    FLOAT_WEIGHTS: Phrase(
        lambda facts: (
            f"{percent(facts['share'])} of the weight bytes stay float32 (in {_operators(facts['operators'])})."
        )
    ),
    NO_INTEGER_FORM: Phrase(
        lambda facts: (
            f"The quantizer has no integer form of {_operators(facts['operators'])}:"
            " they run in float, with conversions around them."
        )
    ),
    OTHER_GRAPHS: Phrase(_other_graphs),
    WEIGHTS_TWICE: Phrase("Weights that other graphs share are in the file twice, quantized and unchanged."),
    OTHER_SIGNATURES: Phrase("Other signatures run quantized graphs too: {signatures:list}."),
    CALLED_IN_FLOAT: Phrase(
        "The graphs that {callers:list} calls stay float, as calibration cannot see into them.",
        "Use {recipes:list or} to quantize them too.",
    ),
    ONE_SAMPLE: Phrase(
        "A single calibration sample sets all ranges: values beyond them are clipped.", "Give more samples."
    ),
    FIRST_SAMPLE: Phrase(
        "With {samples} calibration samples, the first has a weight of {weight:percent} in all ranges.",
        "Give more samples, or use static_int8_min_max, which weights all samples equally.",
    ),
    BIASES: Phrase("Corrected the biases of {layers:count layer}."),
    EMPTY_CHANNELS: Phrase("Kept the biases of {channels:count channel} without weights: the quantizer loses them."),
    STATEFUL: Phrase("The model keeps state from run to run; operators on that state may stay float."),
    INTEGER_WEIGHTS: Phrase("Some weights are already {types:list} and stay unchanged."),
    ZEROS: Phrase("Zeros make the zipped file smaller; LiteRT computes with them as with any other weight."),
    ENCODED: Phrase(_encoded),
}
BOOK: Final = Phrasebook(PHRASES)


def told(remarks: Sequence[Remark]) -> tuple[str, ...]:
    """Remarks as sentences, each with what to do about it."""
    return tuple(" ".join(filter(None, (BOOK.text(remark), BOOK.hint(remark)))) for remark in remarks)

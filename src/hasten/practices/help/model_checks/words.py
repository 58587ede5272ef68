"""The phrases about models and delegates. Whoever shows advice adds the model's path to the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import remark_from_data
from hasten.core.units import first_few, interval_ms, milliseconds, percent, several

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.core.phrases import Template

_MOST_NAMES: Final = 3
_LEAST_SHARE: Final = 0.001
_CONVERT: Final = "Convert the model again with a current converter."
_TITLES: Final = {"xnnpack": "XNNPACK", "gpu": "The GPU delegate", "nnapi": "NNAPI", "hexagon": "The Hexagon delegate"}
_LATER: Final = {"nnapi": " Android 15 deprecated NNAPI."}


def _model(facts: Mapping[str, Any]) -> str:
    return str(facts.get("model", "MODEL"))


def _rewrite(name: str) -> Template:
    return lambda facts: f"Run hasten operators {_model(facts)} --rewrite {name} -o rewritten/."


def _cost(facts: Mapping[str, Any]) -> str:
    """What something costs in a run, where that was measured."""
    if facts.get("share") is None or "ms" not in facts:
        return ""
    if facts["share"] < _LEAST_SHARE:
        return " It costs no time that could be measured."
    return f" It costs {milliseconds(facts['ms'])} per run ({percent(facts['share'])})."


def _names(facts: Mapping[str, Any], key: str = "names") -> str:
    return first_few(facts[key], _MOST_NAMES)


def _nodes(facts: Mapping[str, Any]) -> str:
    nodes = facts["nodes"]
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {first_few(nodes, _MOST_NAMES)}"


def _runs(facts: Mapping[str, Any]) -> str:
    interval = "" if facts["ci95_ms"] is None else f" (95 % CI {interval_ms(*facts['ci95_ms'])})"
    return f"The model runs with {facts['plan']}: {milliseconds(facts['median_ms'])}{interval}."


def _does_not_run(facts: Mapping[str, Any]) -> str:
    return f"The model does not run with {facts['plan']}. {facts['message']}"


def _taken(facts: Mapping[str, Any]) -> str:
    verb = "takes" if facts["observed"] else "would take"
    parts = several(facts["partitions"], "partition")
    macs = "" if facts["macs"] is None else f", {percent(facts['macs'])} of the multiply-accumulates"
    return f"{_TITLES[facts['delegate']]} {verb} {facts['taken']} of {facts['total']} operators in {parts}{macs}."


def _partial(facts: Mapping[str, Any]) -> str:
    rows = facts["refused"]
    reasons = [f"{row['count']} {row['op']}: {BOOK.text(remark_from_data(row))}" for row in rows[:_MOST_NAMES]]
    more = f"; and {several(len(rows) - _MOST_NAMES, 'other kind')}" if len(rows) > _MOST_NAMES else ""
    refused = f" It refuses {'; '.join(reasons)}{more}." if rows else ""
    share = "" if facts["share"] is None else f" On this CPU they take {percent(facts['share'])} of a run."
    return f"{_taken(facts)}{refused}{share if rows else ''}{_LATER.get(facts['delegate'], '')}"


def _advice_on_parts(facts: Mapping[str, Any]) -> str:
    return f"Run hasten operators {_model(facts)} to see which operators a rewrite can replace."


def _option(facts: Mapping[str, Any]) -> str:
    allowed = f", not {_words(facts['allowed'])}" if facts["allowed"] else ""
    return f"{facts['option']} is {facts['value']}{allowed}"


def _words(values: list[Any]) -> str:
    numbers = [value for value in values if isinstance(value, int)]
    if len(values) > _MOST_NAMES and numbers == values == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return " or ".join(map(str, values))


def _quantize(_: Mapping[str, Any]) -> str:
    return "Quantize the float model again: hasten quantize FLOAT_MODEL --data DATA."


_REFUSALS: Final[dict[str, Phrase]] = {
    "refused.operator": Phrase("not supported"),
    "refused.custom": Phrase("a custom operator"),
    "refused.type": Phrase(lambda facts: f"{facts['dtype']}, where only {_words(facts['allowed'])} is taken"),
    "refused.not-constant": Phrase("input {place} is not a constant"),
    "refused.inputs": Phrase(lambda facts: f"{facts['count']} inputs, not {_words(facts['allowed'])}"),
    "refused.runtime-inputs": Phrase(
        lambda facts: f"{facts['count']} inputs that are no constants, not {_words(facts['allowed'])}"
    ),
    "refused.rank": Phrase(lambda facts: f"{facts['rank']} dimensions, not {_words(facts['allowed'])}"),
    "refused.dimensions": Phrase("{rank} dimensions, more than {most}"),
    "refused.dynamic": Phrase("an open shape {shape}"),
    "refused.option": Phrase(_option),
    "refused.option-large": Phrase("{option} is {value}, above {most}"),
    "refused.version": Phrase("version {version} of the operator, above {most}"),
    "refused.rescales": Phrase("input and output have different scales"),
    "refused.broadcast": Phrase("shapes {first} and {second}"),
    "refused.cast": Phrase("{source} to {goal}"),
    "refused.unscaled": Phrase("{dtype} without a scale"),
    "refused.zero-scale": Phrase("a channel with a scale of 0"),
    "refused.filter": Phrase("a filter {width} wide, not {allowed}"),
    "refused.size": Phrase("a size of {size}, above {most}"),
    "refused.sparse": Phrase("the CPU unpacks weights where some are sparse"),
    "refused.small-part": Phrase("not in the largest partition, the only one that it runs"),
    "refused.observed": Phrase("the reason is not known"),
}

PHRASES: Final[dict[str, Phrase]] = {
    **_REFUSALS,
    "model.runs": Phrase(_runs),
    "model.does-not-run": Phrase(_does_not_run, lambda facts: str(facts["advice"])),
    "model.interface": Phrase("LiteRT runs the model through its current interface."),
    "model.classic-only": Phrase(
        "LiteRT 2.3 runs this model only through its classic interface: no accelerator takes it, and no profile shows"
        " where its time goes.",
        "Convert it with fixed shapes, and without variable tensors and strings.",
    ),
    "model.outputs-finite": Phrase("All outputs are numbers on seeded inputs."),
    "model.outputs-not-finite": Phrase(
        "NaN or infinity in {count:count output}, on seeded inputs.",
        lambda facts: f"Run hasten diff {_model(facts)}@kernel=reference {_model(facts)} to find the node.",
    ),
    "model.operators": Phrase("{count:count operator}, all built in."),
    "model.flex": Phrase(
        lambda facts: f"The model needs TensorFlow's own operators ({_names(facts)}). LiteRT does not have them.",
        "Convert it again without SELECT_TF_OPS, or replace these operators.",
    ),
    "model.unknown-operators": Phrase(
        lambda facts: f"The model has operators that LiteRT 2.3 does not know: {_names(facts)}.",
        "Update LiteRT, or convert the model again for this release.",
    ),
    "model.custom-operators": Phrase(
        lambda facts: f"Custom operators: {_names(facts)}. Each needs a kernel, and delegates leave most to the CPU.",
        "Use built-in operators where you can.",
    ),
    "model.shapes": Phrase("All shapes are fixed, the batch aside."),
    "model.no-size": Phrase(
        "Input {input!r} has no size in the file (shape {shape}).",
        "Convert the model with a fixed shape, or give --shape.",
    ),
    "model.open-inputs": Phrase(
        "The file leaves the shape of input {input!r} open: {shape}.",
        "Convert the model with a fixed shape, or give --shape: delegates refuse open shapes.",
    ),
    "model.open-tensors": Phrase(
        lambda facts: f"Open inner shapes: {several(facts['count'], 'tensor')}, after {_names(facts, 'ops')}.",
        "Convert the model with fixed shapes: delegates refuse these operators, and each run plans its memory anew.",
    ),
    "model.types": Phrase("The number format is {format}."),
    "model.unscaled": Phrase(
        lambda facts: (
            f"{_names(facts, 'ops')} reads 8-bit integers without a scale ({_nodes(facts)}). "
            "LiteRT 2.3 ends the process on them."
        ),
        "Give these tensors a scale, or cast them to int32 or float32.",
    ),
    "model.odd-types": Phrase(
        lambda facts: f"Computed in {_names(facts, 'types')}: {_nodes(facts)}. No delegate takes that.{_cost(facts)}",
        "Use float32 or int32 in the model before it is converted.",
    ),
    "model.signatures": Phrase(lambda facts: f"Signatures: {_names(facts, 'keys')}."),
    "model.no-signature": Phrase(
        "The file has no signature: inputs and outputs have tensor names only, and calibration needs one.", _CONVERT
    ),
    "model.metadata": Phrase("The metadata describes inputs and outputs."),
    "model.no-metadata": Phrase(
        "The file has no metadata: it does not tell how inputs are normalized.",
        "Give --preprocess to commands that take --data, and add metadata before you ship the model.",
    ),
    "model.metadata-partial": Phrase(
        "The metadata describes other inputs or outputs than the file has.", "Write the metadata again."
    ),
    "model.metadata-damaged": Phrase("{why}", "Write the metadata again."),
    "model.schema": Phrase("Format version {version}."),
    "model.schema-unknown": Phrase("The file has format version {version}; LiteRT reads version 3.", _CONVERT),
    "model.schema-old": Phrase(
        "Operator codes only in the field of files from before 2020 ({count}): newer tools read them as ADD.", _CONVERT
    ),
    "model.no-dead-code": Phrase("Every operator serves an output."),
    "model.dead-code": Phrase(
        lambda facts: f"No output needs {_names(facts, 'ops')} ({_nodes(facts)}).{_cost(facts)}", _rewrite("dead-code")
    ),
    "model.no-unused-weights": Phrase("Every weight is used."),
    "model.unused-weights": Phrase(
        "Never read: {count:count constant} of {bytes:size} ({share:percent} of the file).",
        lambda facts: (
            f"Run hasten operators {_model(facts)} --cut 0:{facts['last']} -o smaller.tflite: it leaves out"
            " the constants, and the metadata."
        ),
    ),
    "model.no-duplicates": Phrase("No weight is stored twice."),
    "model.duplicates": Phrase(
        "Stored again: {count:count constant} of {bytes:size} ({share:percent} of the file).",
        f"{_CONVERT} It stores equal weights once.",
    ),
    "model.no-float16": Phrase("No weights are in half precision."),
    "model.float16": Phrase(
        lambda facts: (
            f"Stored as float16 and converted by the model itself: {several(facts['count'], 'weight')}.{_cost(facts)}"
        ),
        "Quantize the float32 model: the quantizer does not take float16 weights. For speed, keep float32.",
    ),
    "model.finite": Phrase("All weights are numbers."),
    "model.not-finite": Phrase(
        "NaN or infinity in {count:count weight tensor}.", "Train or convert the model again from a sound checkpoint."
    ),
    "model.weights-damaged": Phrase(
        "More or fewer bytes than the shape needs, in {count:count weight tensor}.", "Download the model again."
    ),
    "model.not-quantized": Phrase("No tensor is quantized."),
    "model.parameters": Phrase("All scales and zero points are usable."),
    "model.bad-parameters": Phrase(
        "Tensor {tensor} ({name!r}) has the impossible {parameter} {value}.", "Quantize the model again."
    ),
    "model.scale-count": Phrase(
        "Tensor {tensor} ({name!r}) has {count:count scale} for dimension {dimension}, which its shape {shape} does not"
        " have.",
        "Quantize the model again.",
    ),
    "model.fixed-parameters": Phrase(
        "{op} at node {node} has scale {scale:.4g} and zero point {zero_point}; its 8-bit kernel needs"
        " {needed_scale:.4g} and {needed_zero_point}.",
        "Quantize the model again with a current quantizer.",
    ),
    "model.bias-scale": Phrase(
        "The bias of {op} at node {node} has {ratio:.3g} times the scale of the products that it is added to.",
        "Quantize the model again with a current quantizer.",
    ),
    "model.ranges": Phrase("Weights and activations use their levels."),
    "model.zero-scales": Phrase(
        "Some channels have a scale of 0, which turns their weights and biases into 0, in {count:count layer}."
        " XNNPACK refuses such layers.",
        _quantize,
    ),
    "model.half-range": Phrase(
        "Never negative, but with levels for negative numbers: {count:count activation}. Up to 1 of 8 bits is lost.",
        _quantize,
    ),
    "model.clipped-weights": Phrase(
        "More than 1 % of the weights is clipped at the ends of the range in {count:count layer}.", _quantize
    ),
    "model.few-levels": Phrase(
        "Most channels use fewer than 16 of 127 levels in {count:count layer}: 3 of 8 bits are lost.",
        lambda facts: f"{_quantize(facts)} Choose a recipe with a scale for each channel.",
    ),
    "delegate.whole": Phrase(_taken),
    "delegate.partial": Phrase(_partial, _advice_on_parts),
    "delegate.wants-integers": Phrase(
        lambda facts: f"{_TITLES[facts['delegate']]} takes 8-bit quantized models only; this one computes in floats."
    ),
}
BOOK: Final = Phrasebook(PHRASES)

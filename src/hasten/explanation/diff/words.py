"""The phrases of a diff. A is the first model, B the second."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes, doubts
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import decibels, percent, several
from hasten.explanation import words as explanation
from hasten.explanation.diff.facts import CONSTANT, INSIDE, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.remark import Remark
    from hasten.explanation.diff.facts import DiffFound, DiffOutput, DiffRow

STATUS_WORDS: Final = {
    Status.EQUAL: "-",
    Status.ROUNDING: "rounding",
    Status.PRECISION: "format",
    Status.CLIPPED: "clipping",
    Status.UNEXPLAINED: "unexplained",
    Status.NOT_FINITE: "NaN",
    Status.UNKNOWN: "not run",
}
_CAUSES: Final = {
    "diff.operator": ("operator", " It is another operator in A."),
    "diff.order": ("order", " It reads its inputs in another order than in A."),
    "diff.option": ("options", " Its options are not A's."),
    "diff.constant-values": ("constant", " It reads another constant than in A."),
    "diff.range": ("range", " The range of its output is not A's."),
    "diff.weights": ("weights", " Its weights are not A's."),
}
"""Of each kind of difference between two files: a name for a table, and a sentence."""
_FEW: Final = 3
_SMALL: Final = 0.001


def cause_words(row: DiffRow) -> str:
    """Why a node adds what it adds, as far as it is known."""
    if row.status is Status.UNEXPLAINED and row.causes:
        return _CAUSES[row.causes[0].code][0]
    return STATUS_WORDS[row.status]


def snr(value: float | None) -> str:
    """A ratio in decibels."""
    return "unknown SNR" if value is None else f"SNR {decibels(value)}"


def node_words(node: Mapping[str, Any]) -> str:
    """`#7 CONV_2D`."""
    return f"#{node['index']} {node['op']}"


def _lost(values: int) -> str:
    return f"{several(values, 'value')} that {'is' if values == 1 else 'are'} NaN or infinite"


def _kept(facts: Mapping[str, Any]) -> str:
    return "none of A's values" if facts["snr_db"] is None else f"A's values at an SNR of {decibels(facts['snr_db'])}"


def _share(value: float | None) -> str:
    """A share of values, of which there is one at least."""
    return "some" if value is None else percent(value) if value >= _SMALL else f"under {percent(_SMALL)}"


def _adds(node: Mapping[str, Any]) -> str:
    """What a node adds, against what is expected."""
    if node["status"] == Status.NOT_FINITE.value:
        return "Run alone on A's inputs, it gives values that are NaN or infinite."
    if node["added_db"] is None:
        return "Run alone on A's inputs, it gives other values than A."
    text = f"Run alone on A's inputs, it reaches an SNR of {decibels(node['added_db'])}"
    return text + (f"; at least {node['expected_db']:.0f} dB is expected." if node["expected_db"] else ".")


def _output(facts: Mapping[str, Any]) -> str:
    """How far the worst output is off."""
    output = facts["output"]
    if output is None:
        return "The outputs cannot be compared."
    if output["not_finite"]:
        return f"The output {output['name']!r} has {_lost(output['not_finite'])}."
    if not output["differing"]:
        return "The outputs are equal."
    if output["snr_db"] is None:
        return f"The output {output['name']!r} differs in {percent(output['differing'])} of its values."
    return f"The worst output, {output['name']!r}, has an SNR of {decibels(output['snr_db'])}."


def _is_another_training(facts: Mapping[str, Any]) -> bool:
    """Whether most nodes with a fault have weights of their own, and more than a few do."""
    return bool(facts["other_weights"] > max(_FEW, (facts["others"] + 1) / 2))


def _diverges(facts: Mapping[str, Any]) -> str:
    node, more = facts["node"], facts["others"]
    is_clipped = node["status"] == Status.CLIPPED.value
    cause = f" Its output's type clips {_share(facts['clipped'])} of A's values." if is_clipped else ""
    cause = cause or _CAUSES.get(node["cause"], ("", ""))[1]
    others = f" {several(more, 'more node')} {'adds' if more == 1 else 'add'} more error than expected." if more else ""
    if _is_another_training(facts):
        others += f" {several(facts['other_weights'], 'node')} have other weights than A, which no type explains."
    return f"B diverges from A at {node_words(node)}. {_adds(node)}{cause}{others} {_output(facts)}"


def _diverges_hint(facts: Mapping[str, Any]) -> str:
    if _is_another_training(facts):
        return "If B was trained separately, compare it with the model that it was made from."
    if facts["node"]["status"] == Status.CLIPPED.value:
        return "Calibrate with samples that cover these values, or widen the range."
    if not facts["node"]["cause"]:
        index, model = facts["node"]["index"], shlex.quote(facts["model"])
        return f"Cut the node out to reproduce this: hasten operators {model} --cut {index}:{index} -o node.tflite."
    return "Compare this node in both files."


def _not_finite(facts: Mapping[str, Any]) -> str:
    text = f"{node_words(facts['node'])} of B gives {_lost(facts['values'])}. Its inputs and A's values are finite."
    earlier = facts["earlier"]
    return f"{text} Before that, B diverges from A at {node_words(earlier)}. {_adds(earlier)}" if earlier else text


def _precision(facts: Mapping[str, Any]) -> str:
    first, worst = facts["node"], facts["worst"]
    text = (
        f"Number formats explain every difference. The first node that they change is {node_words(first)}"
        f" ({snr(first['added_db'])})"
    )
    most = f"; {node_words(worst)} adds most ({snr(worst['added_db'])})" if worst["index"] != first["index"] else ""
    return f"{text}{most}. {_output(facts)}"


def _span(facts: Mapping[str, Any]) -> str:
    if facts["first"]["index"] == facts["last"]["index"]:
        return f"B diverges from A at {node_words(facts['first'])}, which could not be run alone. {_output(facts)}"
    ends = f"{node_words(facts['first'])} and {node_words(facts['last'])}"
    return f"B diverges from A between {ends}. These nodes could not be run alone. {_output(facts)}"


def _fusion(facts: Mapping[str, Any]) -> str:
    ends = f"{node_words(facts['first'])} to {node_words(facts['last'])}"
    return (
        f"B diverges from A in the nodes {ends}, but only while they run in one piece: each node alone is as expected."
        f" The likely cause is how B's plan fuses them. {_output(facts)}"
    )


def _range(ends: Sequence[float]) -> str:
    return f"{ends[0]:.3g} to {ends[1]:.3g}"


def _but(unknown: int) -> str:
    return f" {several(unknown, 'node')} could not be run alone." if unknown else ""


def _constant(nodes: int) -> str:
    return f" {several(nodes, 'more node')} {'reads' if nodes == 1 else 'read'} constants only." if nodes else ""


def _equal_outputs(facts: Mapping[str, Any]) -> str:
    inner = " Inner values differ by no more than rounding." if facts["nodes"] else ""
    return f"The outputs of A and B are equal to the last bit.{_but(facts['unknown']) or inner}"


def side_words(found: DiffFound, at: int) -> str:
    """A model and its plan."""
    side = (found.before, found.after)[at]
    return f"{PurePath(side.model.path).name}, {side.plan.describe()}"


def inputs_words(found: DiffFound) -> str:
    """What both were run on."""
    source = found.inputs.facts.get("source")
    return f"{several(found.samples, 'sample')} of {PurePath(source).name if source else BOOK.text(found.inputs)}"


def output_words(output: DiffOutput) -> str:
    """How far an output is off."""
    if output.not_finite:
        return _lost(output.not_finite)
    if not output.differing:
        return "equal to the last bit"
    if output.snr_db is None:
        return f"{percent(output.differing)} of the values differ"
    return f"{snr(output.snr_db)}, largest error {error_words(output.max_error)}"


def whole_words(row: DiffRow) -> str:
    """How far a node is off in the whole model."""
    if row.differing is None:
        return "-"
    if row.not_finite:
        return "NaN"
    if row.is_equal:
        return "equal"
    return f"{percent(row.differing)} differ" if row.snr_db is None else decibels(row.snr_db)


def added_words(row: DiffRow) -> str:
    """What a node adds."""
    if row.status is Status.UNKNOWN:
        return "-"
    if row.status is Status.EQUAL:
        return "nothing"
    return "-" if row.added_db is None else decibels(row.added_db)


def error_words(value: float | None) -> str:
    """An absolute error."""
    return "-" if value is None else f"{value:.2g}"


PHRASES: Final[dict[str, Phrase]] = {
    "diff.equal": Phrase(
        lambda facts: (
            f"A and B are equal to the last bit, node by node ({several(facts['nodes'], 'node')})."
            f"{_constant(facts.get('constant', 0))}{_but(facts['unknown'])}"
        )
    ),
    "diff.equal-outputs": Phrase(_equal_outputs),
    "diff.rounding": Phrase(
        lambda facts: (
            f"A and B differ by rounding only: no node adds more than that. {_output(facts)}{_but(facts['unknown'])}"
        )
    ),
    "diff.amplified": Phrase(
        lambda facts: (
            f"No node of B adds more than rounding, but the model amplifies it. {_output(facts)}"
            f"{_but(facts['unknown'])}"
        ),
        "Run it on more samples (--data), and look at the nodes that subtract, divide or choose.",
    ),
    "diff.precision": Phrase(_precision),
    "diff.input": Phrase(
        lambda facts: (
            f"B diverges from A at its input {facts['name']!r}: {facts['dtype']} keeps {_kept(facts)}."
            f" No node adds more than rounding. {_output(facts)}"
        )
    ),
    "diff.diverges": Phrase(_diverges, _diverges_hint),
    "diff.not-finite": Phrase(
        _not_finite, "Look for a division by zero, a root or logarithm of a negative number, or an overflow there."
    ),
    "diff.span": Phrase(_span),
    "diff.fusion": Phrase(_fusion),
    "diff.choice": Phrase(
        "#{node} {op} chooses differently in {share:percent} of its values, because its inputs differ a little. "
        "The node itself is right."
    ),
    "diff.first-not-finite": Phrase(
        lambda facts: (
            f"A itself gives {_lost(facts['values'])}, first at #{facts['node']} {facts['op']}."
            " These were left out of the comparison."
        )
    ),
    "diff.no-counterpart": Phrase("A has no corresponding value."),
    "diff.not-alone": Phrase("hasten cannot feed nodes that use resources, other graphs or unusual types."),
    "diff.inputs-unread": Phrase("The inputs could not be read."),
    "diff.gone": Phrase("Only A has such a node."),
    "diff.added": Phrase("Only B has such a node."),
    INSIDE: Phrase("It was run together with #{node}."),
    CONSTANT: Phrase("It reads constants only."),
    "diff.not-run": Phrase("{nodes:count node} of B could not be run alone. {why}"),
    "diff.instead": Phrase("#{node} {op} also does the work of {before:list}, which only A has."),
    "diff.together": Phrase("#{node} {op} was run together with {after:list}, which only B has."),
    "diff.operator": Phrase("#{node} is {after} in B and {before} in A."),
    "diff.order": Phrase("#{node} {op} reads its inputs in another order than in A."),
    "diff.option": Phrase("#{node} {op}: the option {name} is {after} in B and {before} in A."),
    "diff.constant-values": Phrase("#{node} {op}: input {input} is {after} in B and {before} in A."),
    "diff.range": Phrase(
        lambda facts: (
            f"#{facts['node']} {facts['op']}: its output ranges from {_range(facts['after'])} in B"
            f" and from {_range(facts['before'])} in A."
        )
    ),
    "diff.weights": Phrase(
        lambda facts: (
            f"#{facts['node']} {facts['op']}: the constant at input {facts['input']} is not A's; "
            + (f"it has {_lost(facts['not_finite'])}." if facts["not_finite"] else f"{snr(facts['snr_db'])}.")
        )
    ),
    "diff.clipped": Phrase(
        lambda facts: (
            f"{facts['where']} clips {_share(facts['share'])} of A's values: its range is {_range(facts['held'])},"
            f" the values span {_range(facts['values'])}."
        ),
        "Calibrate with samples that cover this range.",
    ),
    "diff.lossy-input": Phrase(
        lambda facts: f"The input {facts['name']!r} of B is {facts['dtype']}, which keeps {_kept(facts)}."
    ),
}
BOOK: Final = Phrasebook(PHRASES, explanation.PHRASES, accuracy_notes.PHRASES, doubts.PHRASES)


def headline_words(verdict: Remark) -> str:
    """A verdict in one sentence, for the top of a page."""
    facts = verdict.facts
    if verdict.code == "diff.diverges":
        return f"B diverges from A at {node_words(facts['node'])}."
    if verdict.code == "diff.not-finite":
        return f"{node_words(facts['node'])} of B gives {_lost(facts['values'])}."
    if verdict.code in ("diff.span", "diff.fusion"):
        return f"B diverges from A between {node_words(facts['first'])} and {node_words(facts['last'])}."
    return _HEADLINES.get(verdict.code, "") or BOOK.text(verdict)


_HEADLINES: Final = {
    "diff.precision": "Number formats explain every difference between A and B.",
    "diff.rounding": "A and B differ by rounding only.",
    "diff.amplified": "No node of B adds more than rounding, but the model amplifies it.",
}

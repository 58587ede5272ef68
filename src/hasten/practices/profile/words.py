"""The phrases of profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import first_few, milliseconds, percent, several

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODES_NAMED: Final = 8


def _kinds(facts: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"{kind['op']} {percent(kind['share'])}" for kind in facts["kinds"])
    if "run_ms" not in facts:  # an older release gave the latency, which other runs had shown
        return f"A run takes {milliseconds(facts['latency_ms'])}: {kinds}.{_earlier(facts)}"
    return f"A profiled run takes {milliseconds(facts['run_ms'])}: {kinds}.{_earlier(facts, 'A profiled run of the')}"


def _unseen(facts: Mapping[str, Any]) -> str:
    return (
        f"A run takes {milliseconds(facts['latency_ms'])}, of which the profiler sees {milliseconds(facts['seen_ms'])}"
        f" in operators: too little to say where the time goes.{_earlier(facts)}"
    )


def _earlier(facts: Mapping[str, Any], the: str = "The") -> str:
    return f" {the} original takes {milliseconds(facts['earlier_ms'])}." if facts["earlier_ms"] is not None else ""


def _placement(facts: Mapping[str, Any]) -> str:
    if not facts["partitions"]:
        return "none: LiteRT's built-in kernels run every operator"
    partitions = several(facts["partitions"], "partition")
    if not facts["delegated"]:  # nodes of a rewritten graph are not those of the file
        return partitions
    text = f"{facts['delegated']} of {several(facts['total'], 'operator')}, in {partitions}"
    left = ", ".join(f"{op} ({count})" if count > 1 else op for op, count in facts["left"].items())
    return f"{text}; LiteRT's built-in kernels run {left}" if left else text


def _nodes(text: str) -> Phrase:
    """A sentence about some nodes; `{nodes}` is `node 3` or `nodes 3, 5 and 9 more`."""

    def told(facts: Mapping[str, Any]) -> str:
        nodes = facts["nodes"]
        return text.format(nodes=f"{'node' if len(nodes) == 1 else 'nodes'} {first_few(nodes, _NODES_NAMED)}")

    return Phrase(told)


PHRASES: Final[dict[str, Phrase]] = {
    "profile.not-examined": Phrase("There was no time left for a profile.", "Run hasten profile."),
    "profile.kinds": Phrase(_kinds),
    "profile.unseen": Phrase(_unseen),
    "profile.placement": Phrase(_placement),
    "profile.rewritten": Phrase(
        "The accelerator's compiler rewrote the graph. Its operators do not correspond to nodes of the model file."
    ),
    "profile.ambiguous": _nodes("The mapping of kernels to {nodes} is ambiguous: other nodes fit as well."),
    "profile.guess": _nodes("The mapping of kernels to {nodes} is a guess: no rule explains them."),
    "profile.opaque": Phrase("A delegate reports its time as a whole, not by operator: see DELEGATE."),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES)

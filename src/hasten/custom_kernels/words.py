"""The phrases about kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase

if TYPE_CHECKING:
    from collections.abc import Mapping

WRONG: Final = "kernel.wrong"
REFUSES: Final = "kernel.refuses"
SHAPE: Final = "kernel.shape"


def _shape(facts: Mapping[str, Any]) -> str:
    expected, got = ("x".join(map(str, facts[side])) or "scalar" for side in ("expected", "got"))
    return f"The kernel {facts['kernel']} gives output {facts['output']!r} the shape {got}, not {expected}."


PHRASES: Final[dict[str, Phrase]] = {
    WRONG: Phrase(
        "The kernel {kernel} is wrong: on input {case!r}, element [{place}] of {output!r} is {got}, not {expected}.",
        "Load the input and both outputs with numpy.load({file!r}).",
    ),
    REFUSES: Phrase(
        "The kernel {kernel} fails on an input that the original takes ({case}): {why}",
        "Load the input with numpy.load({file!r}).",
    ),
    SHAPE: Phrase(_shape, "Correct the kernel's shapes function."),
}

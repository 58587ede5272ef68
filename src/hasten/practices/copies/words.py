"""The phrases of a study of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.units import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

WAY_NAMES: Final = {
    "copying": "set_tensor and get_tensor",
    "buffers": "TensorBuffer.write and read",
    "views": "tensor() views",
    "host": "hasten.Runner (host memory)",
    "locked": "hasten.Runner (locked device memory)",
}


def _usual(facts: Mapping[str, Any]) -> str:
    name = WAY_NAMES[facts["usual"]]
    verb = "costs" if facts["usual"] in ("host", "locked") else "cost"
    if facts["usual_us"] <= 0:
        return f"{name} {verb} nothing measurable."
    share = "" if facts["usual_share"] is None else f" ({percent(facts['usual_share'])})"
    return f"{name} {verb} {milliseconds(facts['usual_us'] / 1e3)} per inference{share}."


def _cheap(facts: Mapping[str, Any]) -> str:
    rest = f" No alternative saves more than {_matters(facts)}." if "matters" in facts else ""
    return f"{_usual(facts)}{rest}"


def _matters(facts: Mapping[str, Any]) -> str:
    return f"{facts['matters'] * 100:.0f} %"


def _saved(facts: Mapping[str, Any]) -> str:
    return f"{milliseconds(facts['saved_us'] / 1e3)} per inference ({percent(facts['saved_share'])})"


def _saves(facts: Mapping[str, Any]) -> str:
    plainest = (
        f" It is the simplest way without a copy; no other is proven to save another {_matters(facts)}."
        if "matters" in facts
        else ""
    )
    return f"Use {WAY_NAMES[facts['best']]}: saves up to {_saved(facts)}.{plainest} {_usual(facts)}"


def _undecided(facts: Mapping[str, Any]) -> str:
    return f"A saving is not proven for {WAY_NAMES[facts['best']]}: {_saved(facts)} so far. {_usual(facts)}"


PHRASES: Final[dict[str, Phrase]] = {
    "copies.not-examined": Phrase("The cost of feeding the model was not measured.", "Run hasten copies."),
    "copies.none-in-place": Phrase("No way to feed and read this model in place could be timed."),
    "copies.cheap": Phrase(_cheap),
    "copies.undecided": Phrase(_undecided, "Measure longer (--seconds)."),
    "copies.saves": Phrase(
        _saves,
        "Let the application write its input into the model's own memory; hasten copies --language prints the code.",
    ),
    "copies.not-timed": Phrase("The measurement ended before it was timed."),
    "copies.unclear": Phrase("The noise is larger than its cost."),
    # Why a way cannot be gone.
    "copies.classic-only": Phrase("LiteRT 2.3 runs this model through its classic interface only."),
    "copies.classic-on-cpu": Phrase("LiteRT's classic interface is timed on the CPU only."),
    "copies.compiled-on-cpu-gpu": Phrase("LiteRT's CompiledModel for Python is timed on the CPU and GPU only."),
    "copies.own-memory": Phrase("The {accelerator} keeps tensors in its own memory and must copy them."),
    "copies.host-memory": Phrase("The engine works in host memory, which needs no lock."),
    "copies.other-outputs": Phrase("Its outputs differ from those of the other ways."),
    "copies.no-type": Phrase("NumPy has no such type: {error}."),
    "copies.custom-kernels": Phrase("LiteRT's Python classes take no custom kernels."),
    "copies.first-signature": Phrase("set_tensor and tensor() know the first signature only."),
    "copies.no-signature": Phrase("The model has no signature."),
    "copies.default-types": Phrase("Every input has NumPy's default type already."),
    "copies.always-contiguous": Phrase("Inputs with a single dimension are always contiguous."),
    "copies.long-list": Phrase("Inputs of more than {values:,} values are too large for a list."),
    "copies.no-dimension": Phrase("A single number has no dimension to resize."),
    "copies.other-batch": Phrase("The model's operators do not take another batch."),
    "copies.unknown-outputs": Phrase(
        "LiteRT's Python interface creates no buffers for outputs whose size is known only after a run."
    ),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES)

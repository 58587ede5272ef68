"""The phrases of this practice: what was seen of an application, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import Remark
from hasten.core.units import milliseconds, percent, several
from hasten.traces import words as trace_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PARTS: Final = {
    "start": "Python start and imports",
    "load": "model load",
    "pre": "pre-processing",
    "copy_in": "copy in",
    "inference": "inference",
    "copy_out": "copy out",
    "post": "post-processing",
    "waiting": "waiting",
    "other": "rest of the program",
    "core": "no core",
}
HELD_CORE: Final = "held a core that inference waited for"


def place_words(file: str, line: int, function: str = "") -> str:
    """`app.py:12 (digit)`; as much of it as is known."""
    place = f"{Path(file).name}:{line}" if file and line else ""
    return (f"{place} ({function})" if function else place) if place else function


def _faults(facts: Mapping[str, Any]) -> str:
    place = place_words(facts["file"], facts["line"], facts["function"])
    what = f"{facts['rule']} in {place}" if place else facts["rule"]
    seen = f"{percent(facts['inference'])} of {milliseconds(facts['ms'])} is inference."
    if facts["faults"] == 1:
        return f"{seen} One fault costs {milliseconds(facts['cost_ms'])}: {what}."
    return f"{seen} {facts['faults']} faults cost {milliseconds(facts['cost_ms'])}. The largest: {what}."


def _first_fix(facts: Mapping[str, Any]) -> str:
    return BOOK.hint(Remark(facts["first"]["code"], facts["first"]["facts"]))


def _resized(facts: Mapping[str, Any]) -> str:
    changed = f"; {facts['changes']} of them changed the shape" if "changes" in facts else ""
    calls, runs = several(facts["calls"], "time"), several(facts["runs"], "run")
    return f"The program resized or allocated tensors {calls} in {runs}{changed}."


def _preprocessing(facts: Mapping[str, Any]) -> str:
    per = " per run" if facts["per_run"] else ""
    return (
        f"Pre-processing takes {milliseconds(facts['pre_ms'])}{per}, inference {milliseconds(facts['inference_ms'])}."
        f" {facts['function']} takes most of it; the cost is all of its time, the upper limit of what can be saved."
    )


def _unread(facts: Mapping[str, Any]) -> str:
    variable = facts["variable"]
    fate = f"stores it in {variable}, which is never used" if variable else "discards it"
    return f"The program reads this output {several(facts['reads'], 'time')} and {fate}."


def _native(facts: Mapping[str, Any]) -> str:
    """What is seen of LiteRT without its Python classes, and what is not."""
    threads = facts["threads"]
    seen = f" hasten sees {several(threads, 'native thread')} that used {milliseconds(facts['cpu_ms'])} of CPU time."
    return (
        f"The program runs LiteRT without its Python classes: it loaded {' and '.join(facts['libraries'])}."
        f"{seen if threads else ''} hasten does not see models, runs and copies there."
    )


def _range(ci95: Sequence[float]) -> str:
    """An interval of ratios as what they save."""
    low, high = (percent(1 - ratio) for ratio in reversed(ci95))
    return f"{low.removesuffix(' %')}–{high}"


PHRASES: Final[dict[str, Phrase]] = {
    **trace_words.PHRASES,
    "app.not-examined": Phrase(
        "The application around the model was not examined.", "Run it: hasten app -- python app.py."
    ),
    "app.not-seen": Phrase(
        "hasten saw no Python program that reads PYTHONPATH.", "Start the program without Python's options -I and -E."
    ),
    "app.no-litert": Phrase("The program did not use LiteRT."),
    "app.watched-from-outside": Phrase("hasten app watches this program, so a watch inside it sees nothing."),
    "app.unexamined": Phrase(
        "Nothing was examined. {why}", "Run the model inside the watch, or let this pass: allow = ('not examined',)."
    ),
    "app.native-litert": Phrase(
        _native,
        "Record it with perf, Perfetto or py-spy --native, and read that: hasten app --from FILE. Or measure the model"
        " itself with hasten bench.",
    ),
    "app.no-inference": Phrase("The trace shows no inference."),
    "app.no-fault": Phrase("{inference:percent} of {ms:ms} is inference. No avoidable cost found around the model."),
    "app.faults": Phrase(_faults, _first_fix),
    # What rules see.
    "app.loaded-again": Phrase(
        "The program loaded the model again {loads:count time}, {each_ms:ms} each.",
        "Create the interpreter once, outside of the loop, and reuse it.",
    ),
    "app.resized": Phrase(_resized, "Use one interpreter per shape, allocated once, or bring all frames to one shape."),
    "app.input-not-array": Phrase(
        "The program passes a {type} ({bytes:size}) {calls:count time}. An array that fits takes {fit_ms:ms}.",
        "Write into a contiguous array of the input's type, or directly into interpreter.tensor(index)().",
    ),
    "app.input-not-contiguous": Phrase(
        "The program passes a non-contiguous array ({bytes:size}) {calls:count time}."
        " A contiguous one takes {fit_ms:ms}.",
        "Write into a contiguous array of the input's type, or directly into interpreter.tensor(index)().",
    ),
    "app.input-float64": Phrase(
        "The program converts {elements} numbers from float64 on every frame, {each_ms:ms} each time.",
        "Compute in float32 from the start (dtype=np.float32, out=…) instead of astype at the end.",
    ),
    "app.copies": Phrase(
        "Copying inputs and outputs takes {copies_ms:ms}, inference {inference_ms:ms}.",
        "Write directly into the input's memory: direct ByteBuffers, interpreter.tensor() or host buffers.",
    ),
    "app.output-unused": Phrase(_unread, "Remove this read."),
    "app.output-copied": Phrase(
        "The program copies {bytes:size} {calls:count time} and drops each copy before the next run.",
        "Call output = interpreter.tensor(index) once, read output() in the loop, and keep no reference to it.",
    ),
    "app.preprocessing": Phrase(
        _preprocessing,
        "Speed up {function} (whole arrays instead of loops), or prepare the next frame in another thread.",
    ),
    "app.blocks-event-loop": Phrase(
        "Inference on the event loop's thread ({runs:count run}, up to {longest_ms:ms} each) blocks"
        " everything else there.",
        "Run it in a worker thread, for example await loop.run_in_executor(pool, run).",
    ),
    "app.blocks-interface": Phrase(
        "Thread {thread} draws the interface and runs inference, up to {longest_ms:ms} at a time.",
        "Run it on its own thread: an executor, a coroutine off the main dispatcher, or a dispatch queue.",
    ),
    "app.cold": Phrase(
        "The first run takes {first_ms:ms}, later runs {warm_ms:ms}.",
        "Run the model once on any input before the loop whose latency matters.",
    ),
    "app.other-threads": Phrase(
        lambda facts: (
            f"A run takes {percent(1 - facts['ratio'])} less time with {several(facts['threads'], 'thread')} than with"
            f" {facts['now']} (95 % CI {_range(facts['ci95'])}), measured after the program."
        ),
        "Set num_threads={threads}.",
    ),
    "app.contention": Phrase(
        lambda facts: (
            f"{facts['together']} interpreters with {several(facts['now'], 'thread')} each run at the same time. With"
            f" {facts['threads']} each they take {percent(1 - facts['ratio'])} less time, measured after the program."
        ),
        "Set num_threads={threads} for each, or run them one after the other.",
    ),
    "app.contention-seen": Phrase(
        "{threads} threads run inference at the same time for {together_ms:ms} and compete for cores.",
        "Run them one after the other, or give each interpreter fewer threads.",
    ),
    "app.no-core": Phrase(
        "Thread {thread} was ready to run but had no core during {share:percent} of inference.",
        "Use fewer threads (hasten threads --load busy), or stop the other work at that moment.",
    ),
    # Doubts about what was seen.
    "app.process-unseen": Phrase("A process could not be watched: {error}."),
    "app.too-short": Phrase(
        "The program was too short to tell its own functions apart ({samples:count sample}).",
        "Let it process more frames.",
    ),
    "app.process-killed": Phrase("A process was killed; what it did in its last 0.25 s is missing."),
    "app.replay-busy": Phrase(
        "Other processes kept {cores:.1f} cores busy while hasten measured the model after the program.",
        "Run it again on an idle machine.",
    ),
    "app.queued": Phrase(
        "The program waited for a core {share:percent} of its time because other programs used the CPU.",
        "Close other programs. Costs exclude this time; the split includes it.",
    ),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES)

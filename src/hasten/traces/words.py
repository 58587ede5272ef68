"""The phrases of what is doubtful about a trace: a code says what kind of doubt, a cause what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import platform_trace as codes
from hasten.core.phrases import Phrase, Phrasebook, filled

if TYPE_CHECKING:
    from collections.abc import Mapping


def _by_cause(hint: str, **texts: str) -> Phrase:
    def text(facts: Mapping[str, Any]) -> str:
        return filled(texts[facts["cause"]], facts)

    return Phrase(text, hint)


PHRASES: Final[dict[str, Phrase]] = {
    codes.TRUNCATED: _by_cause(
        "Copy the trace again if it is complete on the device; otherwise record again.",
        gzip="The gzip archive ends early.",
        line="The last line is incomplete.",
        events="The file ends inside the list of events.",
        event="One event cannot be read, nor can anything after it.",
        document="The file ends inside the JSON document.",
        xml="The XML ends early, in line {line:,}.",
        packet="The file ends inside a packet; {bytes:,} bytes are missing.",
        weights="{count:,} samples have no weight.",
    ),
    codes.DAMAGED: _by_cause(
        "Copy the file again. The result covers what could be read.",
        lines="{count:,} of {total:,} lines are not events.",
        no_events="The file has no array of trace events.",
        events="{count:,} events have an unknown form.",
        document="The JSON document is damaged at character {position:,}.",
        nesting="The JSON document is nested too deeply.",
        xml="The XML is damaged in line {line:,}: {error}.",
        rows="{count:,} rows could not be read.",
        sample_lines="{count:,} lines do not belong to a sample.",
        stack_lines="{count:,} lines are not a stack with a count.",
        packets="{count:,} packets could not be read.",
        no_packet="No packet begins at byte {position:,}.",
        no_names="The names of the functions are missing.",
        times="{count:,} events have impossible times.",
    ),
    codes.LOST_EVENTS: _by_cause(
        "Record with a larger buffer, or for a shorter time.",
        kernel_buffer="The kernel's buffer overflowed during the recording.",
        perf="perf lost {count:,} samples.",
        names="The names of {count:,} events were lost.",
        dropped="The recorder dropped packets.",
        overwritten="Newer events overwrote the oldest ones.",
        packets="{count:,} packets were lost.",
    ),
    codes.UNMATCHED: _by_cause(
        "The recording cut them off; times at its beginning and end are too short.",
        signposts="{unclosed:,} signposts begin without an end.",
        sections="{unopened:,} sections end without a beginning, {unclosed:,} begin without an end.",
    ),
    codes.TOO_LARGE: _by_cause(
        "Record for a shorter time, or fewer kinds of events.",
        events="Only the first {count:,} events were read.",
        unpacked="The compressed packets are larger than {limit:size}.",
    ),
    codes.NO_ORDER: _by_cause(
        "With py-spy, use record --format speedscope, which keeps the order of samples.",
        samples="The trace counts samples without their times; hasten assumes 10 ms between two of them.",
        stacks="The trace counts stacks without their order; hasten assumes 10 ms between two samples.",
    ),
    codes.NO_TFLITE: Phrase(
        "The trace contains no TensorFlow Lite events.",
        "Set debug.tflite.trace to 1 before the application starts, and record while it runs the model.",
    ),
    codes.NO_OPERATORS: Phrase(
        "The trace shows runs of the model, but not its operators.",
        "Set debug.tflite.trace to 1 before the interpreter is created; XNNPACK shows as one operator.",
    ),
    codes.NO_SYMBOLS: Phrase(
        "Most of the inference time has no kernel names.",
        "Use py-spy --native, or a library with symbols; the share of TensorFlow Lite is correct either way.",
    ),
    codes.FEW_SAMPLES: Phrase(
        "The trace has only {samples:count sample}.", "Record for a longer time, or at a higher rate."
    ),
    codes.STARTED_LATE: Phrase(
        "The model was loaded before the recording began, or loading left no mark.",
        "Start the recording before the application.",
    ),
}
BOOK: Final = Phrasebook(PHRASES)

"""An explanation as text: why the changed model is slower, and where its numbers go wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.units import milliseconds, percent, several
from hasten.explain.node_errors import DROP_DB, ROUNDING_DB
from hasten.explain.sentences import cause_words
from hasten.model.matching import Certainty
from hasten.report.text import WIDTH, doubts_text, printable, wrapped
from hasten.show.tables import rendered, table

if TYPE_CHECKING:
    from rich.table import Table

    from hasten.explain.facts import Cause, CutOff, ErrorView, Explanation, LossyInput, NodeRow, Side

_SMALLEST_PART: Final = 0.005
_ROWS: Final = 12
_HARMED_ROWS: Final = 6
_CUT_OFF_SHOWN: Final = 3


def explanation_text(found: Explanation, rows: int = _ROWS) -> str:
    """The whole explanation, for a terminal of 80 columns."""
    parts = [
        *wrapped(f"Why: {found.verdict}", other=""),
        "",
        *_times(found),
        *wrapped(_instructions(found), other=""),
        *_roofline(found),
        *(line for hint in found.hints for line in wrapped(f"Hint (not measured): {hint}.", other="")),
        "",
        *_errors(found),
        "",
        rendered(_node_table(found, rows), WIDTH),
        *_legend(found, rows),
        *doubts_text(found.doubts),
    ]
    return "\n".join(parts)


def _times(found: Explanation) -> list[str]:
    """Where the time went, or why that is not known."""
    if found.why_no_times:
        return wrapped(f"The operators were not timed. {printable(found.why_no_times)}.", "! ")
    partitions = wrapped(_partitions(found), other="")
    return [*rendered(_cause_table(found), WIDTH).splitlines(), *_rest(found), "", *partitions]


def _shown_causes(found: Explanation) -> list[Cause]:
    smallest = _SMALLEST_PART * max(found.before.invoke_ms, found.after.invoke_ms)
    return [cause for cause in found.causes if abs(cause.change_ms.estimate) >= smallest]


def _cause_table(found: Explanation) -> Table:
    grid = table()
    for title, width in (("before", 8), ("after", 8), ("change", 9)):
        grid.add_column(title, justify="right", width=width)
    grid.add_column("milliseconds a run: what happened", width=52)
    for cause in _shown_causes(found):
        doubtful = "" if cause.is_clear else " (not clear: rounds differ in sign)"
        grid.add_row(
            _ms(cause.ms_before),
            _ms(cause.ms_after),
            _change(cause.change_ms.estimate),
            printable(cause_words(cause)) + doubtful,
        )
        if cause.kernel_before != cause.kernel_after and cause.kernel_before and cause.kernel_after:
            grid.add_row("", "", "", printable(f"  {cause.kernel_before} → {cause.kernel_after}"))
    return grid


def _rest(found: Explanation) -> list[str]:
    shown = _shown_causes(found)
    rest = sum(cause.change_ms.estimate for cause in found.causes) - sum(cause.change_ms.estimate for cause in shown)
    before, after = found.before.invoke_ms, found.after.invoke_ms
    lines = []
    if len(found.causes) > len(shown):
        lines.append(f"{'':17} {_change(rest):>9} {several(len(found.causes) - len(shown), 'smaller change')}")
    lines.append(f"{'':17} {_change(found.outside_ms.estimate):>9} outside the operators")
    lines.append(f"{_ms(before):>8} {_ms(after):>8} {_change(after - before):>9} in all, inside the engine")
    return lines


def _partitions(found: Explanation) -> str:
    text = f"Delegated: {_delegated(found.before)} before, {_delegated(found.after)} after."
    new = _kinds(found.after.left)
    return f"{text} Left to the engine now: {printable(new)}." if new else text


def _delegated(side: Side) -> str:
    if not side.nodes:
        return f"a graph that the accelerator's compiler rewrote, in {several(side.delegated_partitions, 'partition')},"
    operators, parts = several(side.nodes, "operator"), several(side.delegated_partitions, "partition")
    return f"{side.delegated_nodes} of {operators} in {parts}"


def _kinds(left: tuple[str, ...]) -> str:
    """`11 DEPTHWISE_CONV_2D, SOFTMAX`, most first."""
    numbers: dict[str, int] = {}
    for entry in left:
        kind = entry.partition(" ")[2]
        numbers[kind] = numbers.get(kind, 0) + 1
    ordered = sorted(numbers.items(), key=lambda item: -item[1])
    return ", ".join(f"{number} {kind}" if number > 1 else kind for kind, number in ordered)


def _instructions(found: Explanation) -> str:
    known = found.instructions
    if not known.has and not known.lacks:
        return "Instruction sets: this machine does not tell."
    text = (
        f"Instruction sets for int8 and half precision ({printable(known.cpu)}): has"
        f" {', '.join(known.has) or 'none'}; lacks {', '.join(known.lacks) or 'none'}."
    )
    return f"{text} Hint: {known.hint}." if known.hint else text


def _roofline(found: Explanation) -> list[str]:
    before, after = found.before.headroom_ms, found.after.headroom_ms
    if before is None or after is None:
        return []
    text = (
        f"At this machine's peak the operators would take {milliseconds(before)} less before, and"
        f" {milliseconds(after)} less after."
    )
    return wrapped(text, other="")


def _errors(found: Explanation) -> list[str]:
    view = found.errors
    if view is None:
        return wrapped(f"The numbers were not compared: {found.why_no_errors}.", other="")
    inputs = Path(view.inputs).name if not view.is_random else view.inputs
    lines = wrapped(
        f"Numbers: {several(view.compared, 'node')} against the original's, on {several(view.samples, 'sample')} of"
        f" {printable(inputs)}."
        f" {_outputs(view.output_snr_db)}",
        other="",
    )
    for sentence in _places(found, view):
        lines += wrapped(sentence, "  ", "    ")
    for sentence in _cut_off(found, view):
        lines += wrapped(sentence, "  ", "    ")
    for note in view.notes:
        lines += wrapped(f"{printable(note)}.", "! ")
    if view.is_random:
        lines += wrapped("Random inputs are not what the model was made for: take this as a hint.", "! ")
    if view.disturbance_db < ROUNDING_DB:
        lines += wrapped(
            f"Reading inner tensors moves the outputs themselves ({_db(view.disturbance_db)}): the delegate fuses less"
            " then, and the ratios are those of the models without these fusions.",
            "! ",
        )
    for why in dict.fromkeys(why for _, why in view.unread):
        number = sum(1 for _, reason in view.unread if reason == why)
        lines += wrapped(f"{several(number, 'node')} could not be read: {why}", "! ")
    return lines


def _outputs(snr_db: float | None) -> str:
    if snr_db is None:
        return "The outputs cannot be compared."
    if snr_db == math.inf:
        return "The outputs are the same to the last bit."
    return f"The worst output has a signal-to-noise ratio of {_db(snr_db)}."


def _places(found: Explanation, view: ErrorView) -> list[str]:
    if view.compared == 0:
        return []
    sentences = [
        f"Error enters at the input {printable(lossy.name)!r}: {_held_in(lossy)} keeps {_db(lossy.snr_db)} of what the"
        " original is fed."
        for lossy in view.lossy_inputs
    ]
    if view.first_drop is None:
        return [*sentences, "No node is clearly worse than what feeds it."]
    first = "The first node to add to it is" if sentences else "Error enters first at"
    sentences.append(f"{first} {_node(found, view.first_drop)}.")
    if view.largest_drop is not None and view.largest_drop != view.first_drop:
        sentences.append(f"Most is lost at {_node(found, view.largest_drop)}.")
    if view.first_below not in (None, view.first_drop, view.largest_drop):
        sentences.append(f"It exceeds a tenth of the signal first at {_node(found, view.first_below)}.")
    return sentences


def _held_in(lossy: LossyInput) -> str:
    return f"its {lossy.dtype}" if lossy.node is None else f"{lossy.dtype} (#{lossy.node} QUANTIZE)"


def _cut_off(found: Explanation, view: ErrorView) -> list[str]:
    sentences = [_cut_off_sentence(found, cut) for cut in view.cut_off[:_CUT_OFF_SHOWN]]
    if (more := len(view.cut_off) - len(sentences)) > 0:
        sentences.append(f"{several(more, 'more tensor')} {'is' if more == 1 else 'are'} cut off as well (see --json).")
    if sentences:
        sentences.append(
            "Calibrate with samples that reach as far, or take ranges from the least and the largest value"
            " (static_int8_min_max in hasten quantize)."
        )
    return sentences


def _cut_off_sentence(found: Explanation, cut: CutOff) -> str:
    if cut.node is None:
        where = f"The input {printable(cut.name)!r}"
    else:
        where = f"#{cut.node} {printable(found.row_of(cut.node).match.op)}"
    low, high = (f"{value:.3g}" for value in cut.original)
    least, most = (f"{value:.3g}" for value in cut.held)
    return (
        f"{where} is cut off: it holds {least} to {most}, and {percent(cut.share)} of the original's values, which go"
        f" from {low} to {high}, lie beyond."
    )


def _node(found: Explanation, after: int) -> str:
    row = found.row_of(after)
    drop = ", with inputs that have none" if _is_new(row) else f", {row.drop_db or 0.0:.0f} dB below its inputs"
    return f"#{after} {printable(row.match.op)} ({_db(row.snr_db)}{drop})"


def _node_table(found: Explanation, rows: int) -> Table:
    grid = table()
    grid.add_column("#", justify="right", width=4)
    grid.add_column("was", justify="right", width=4)
    grid.add_column("operator", no_wrap=True, overflow="ellipsis", width=21)
    grid.add_column("match", width=6)
    for title, width in (("before", 7), ("after", 7), ("change", 8), ("SNR dB", 7), ("drop", 5)):
        grid.add_column(title, justify="right", width=width)
    for row in _telling_rows(found, rows):
        grid.add_row(*_cells(row))
    return grid


def _telling_rows(found: Explanation, rows: int) -> list[NodeRow]:
    """Those whose time changed most, and those that lost most of the signal, in the order of execution."""
    order = {id(row): place for place, row in enumerate(found.rows)}
    by_time = sorted(found.rows, key=lambda row: -abs(row.change_ms.estimate) if not found.why_no_times else 0)[:rows]
    harmed = [row for row in found.rows if row.drop_db is not None and row.drop_db >= 3]
    by_drop = sorted(harmed, key=lambda row: -(row.drop_db or 0.0))[:_HARMED_ROWS]
    chosen = {id(row): row for row in (*by_time, *by_drop)}
    return sorted(chosen.values(), key=lambda row: order[id(row)])


def _cells(row: NodeRow) -> list[str]:
    return [
        _index(row.match.after),
        _index(row.match.before),
        printable(row.match.op),
        row.match.certainty.value,
        "-" if row.before is None else _ms(row.before.ms),
        "-" if row.after is None else _ms(row.after.ms),
        _change(row.change_ms.estimate),
        "-" if row.snr_db is None else _db(row.snr_db).removesuffix(" dB"),
        _drop(row),
    ]


def _drop(row: NodeRow) -> str:
    if row.drop_db is None or row.snr_db is None:
        return "-"
    return "new" if _is_new(row) else str(round(row.drop_db))


def _is_new(row: NodeRow) -> bool:
    """Whether error enters here that was not in the node's inputs."""
    return (
        row.snr_db is not None
        and row.drop_db is not None
        and (row.drop_db >= DROP_DB and row.snr_db + row.drop_db >= ROUNDING_DB)
    )


def _legend(found: Explanation, rows: int) -> list[str]:
    left = len(found.rows) - len(_telling_rows(found, rows))
    original = [row for row in found.rows if row.match.before is not None]
    exact = sum(1 for row in original if row.match.certainty is Certainty.EXACT)
    text = f"{exact} of the original's {len(original)} nodes are matched exactly"
    if len(original) == 1:
        text = f"The original's one node is {'' if exact else 'not '}matched exactly"
    return wrapped(f"{text}; {left} more rows with --json." if left > 0 else f"{text}.", other="")


def _index(node: int | None) -> str:
    return "-" if node is None or node < 0 else str(node)


def _ms(value: float) -> str:
    """Milliseconds in a column of seven."""
    return f"{value:.3f}" if value < 99.9995 else f"{value:.1f}" if value < 9999.95 else f"{value:.0f}"


def _change(value: float) -> str:
    if math.isnan(value):
        return "-"
    value = round(value, 3) + 0.0  # no minus before zero
    return f"{value:+.3f}" if abs(value) < 99.9995 else f"{value:+.1f}" if abs(value) < 9999.95 else f"{value:+.0f}"


def _db(value: float | None) -> str:
    if value is None:
        return "unknown"
    if value == math.inf:
        return "same"
    return "broken" if value == -math.inf else f"{value:.1f} dB"

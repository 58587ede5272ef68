"""What a platform's trace came to, as text for a terminal of 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.units import milliseconds, percent, several, size
from hasten.practices.app.facts import PARTS
from hasten.report.text import WIDTH, printable, wrapped
from hasten.traces.words import BOOK

if TYPE_CHECKING:
    from hasten.practices.app.facts import AppFinding
    from hasten.practices.app.recorded.facts import InsteadRow, PlatformResult

_MOST_ROWS: Final = 10
_BAR: Final = 20
_TFLITE_PARTS: Final = ("load", "copy_in", "inference", "copy_out")


def platform_trace_text(found: PlatformResult) -> str:
    """Source, split, operators, what ran instead, findings, doubts."""
    lines = [
        *_source(found),
        *_split(found),
        *_runs(found),
        *_operators(found),
        *_instead(found),
        *_findings(found),
        *_doubts(found),
    ]
    return "\n".join(_cut(line, WIDTH) for line in lines)  # a damaged trace can hold times as long as the universe


def _source(found: PlatformResult) -> list[str]:
    source = found.source
    whole = "complete" if source.complete else "not complete: " + " ".join(BOOK.sentences(source.lost))
    lines = wrapped(f"{Path(source.path).name}: {source.title}, {size(source.size_bytes)}, {whole}")
    if found.process:
        lines += wrapped(f"process {found.process}".replace("process process", "process"))
    return lines


def _split(found: PlatformResult) -> list[str]:
    main = found.main
    if main is None or not main.wall_ms:
        return ["", "Nothing in it could be read."]
    share = sum(main.split.get(part, 0.0) for part in _TFLITE_PARTS) / main.wall_ms
    of_what = "CPU time" if found.sampled and found.source.kind in ("perf", "perfetto", "instruments") else "time"
    lines = [
        "",
        *wrapped(f"{percent(share)} of {milliseconds(main.wall_ms)} of {of_what} is TFLite's, on {main.thread}"),
        "",
    ]
    for part, title in PARTS.items():
        if ms := main.split.get(part, 0.0):
            bar = "█" * round(ms / main.wall_ms * _BAR)
            lines.append(f"  {title:<26}{milliseconds(ms):>10} {percent(ms / main.wall_ms):>7}  {bar}".rstrip())
    others: dict[str, list[float]] = {}
    for thread in found.threads:
        if thread != main:
            others.setdefault(thread.thread, []).append(sum(thread.split.get(part, 0.0) for part in _TFLITE_PARTS))
    for name, times in list(others.items())[:_MOST_ROWS]:
        threads = f" ({len(times)} threads)" if len(times) > 1 else ""
        lines += wrapped(f"and {milliseconds(sum(times))} of TFLite on {name}{threads}", "  ", "    ")
    return lines


def _runs(found: PlatformResult) -> list[str]:
    if found.inferences is None:
        return []
    runs = found.inferences
    counted = {"load": found.loads, "allocation": found.allocations}
    counts = [several(number, word) for word, number in counted.items() if number]
    lines = [
        "",
        *wrapped(
            f"{several(runs.count, 'run')}, {milliseconds(runs.median_ms)} median, p95 {milliseconds(runs.p95_ms)}, "
            f"first {milliseconds(runs.first_ms)}" + "".join(f"; {text}" for text in counts)
        ),
    ]
    if found.scheduling_ms is not None:
        running, ready, waiting = found.scheduling_ms
        total = max(running + ready + waiting, 1e-9)
        lines += wrapped(
            f"inside them the thread ran {percent(running / total)} of the time, was ready without a core "
            f"{percent(ready / total)}, and waited {percent(waiting / total)}"
        )
    return lines


def _operators(found: PlatformResult) -> list[str]:
    rows = found.by_kind()
    if not rows:
        return []
    partitions = f", {found.partitions} of them whole partitions of a delegate" if found.partitions else ""
    what, seen, nodes = ("kernel", "samples", "") if found.sampled else ("operator", "calls", "nodes")
    head = _operator_line(what, nodes, seen, "time", "share")
    lines = ["", *wrapped(f"{several(len(found.operators), what)}{partitions}"), head]
    for op, _, count, calls, ms, share in rows[:_MOST_ROWS]:
        number = "" if found.sampled else f"{count}"
        lines.append(_operator_line(op, number, f"{calls:,}", milliseconds(ms), percent(share)))
    if len(rows) > _MOST_ROWS:
        rest = sum(row[4] for row in rows[_MOST_ROWS:])
        lines.append(_operator_line(f"{len(rows) - _MOST_ROWS} more kinds", "", "", milliseconds(rest), ""))
    return lines


def _operator_line(name: str, nodes: str, seen: str, time: str, share: str) -> str:
    return f"  {_cut(name, 43):<44}{nodes:>6}{seen:>9}{time:>11}{share:>7}".rstrip()


def _instead(found: PlatformResult) -> list[str]:
    rows = [row for row in found.instead if row.ms >= 1e-3 * max(found.wall_ms, 1e-9)][:_MOST_ROWS]
    if not rows:
        return []
    return ["", "What ran instead", *(_instead_line(row) for row in rows)]


def _instead_line(row: InsteadRow) -> str:
    part = {"core": "no core", "copy_in": "copy in", "copy_out": "copy out"}.get(row.part, row.part)
    place = f"{Path(row.file).name}:{row.line}" if row.file and row.line else row.where
    what = row.where if row.part == "core" else row.what
    place = "held a core meanwhile" if row.part == "core" else place
    return f"  {milliseconds(row.ms):>9}  {part:<8} {_cut(what, 34):<34} {_cut(place, WIDTH - 57)}".rstrip()


def _findings(found: PlatformResult) -> list[str]:
    if not found.findings:
        return ["", "No fault that such a trace can show."]
    lines = ["", several(len(found.findings), "finding")]
    for number, fault in enumerate(found.findings, 1):
        lines += _finding(number, fault)
    return lines


def _finding(number: int, fault: AppFinding) -> list[str]:
    place = f" in {fault.function}" if fault.function else ""
    place = f" at {fault.file}:{fault.line}" if fault.file and fault.line else place
    head = f"{number}. {fault.rule}{place}: {milliseconds(fault.cost_ms)} ({percent(fault.share)})"
    more = [line for text in (fault.evidence, fault.fix) for line in wrapped(text, "     ", "     ")]
    return [*wrapped(head, "  ", "     "), *more]


def _doubts(found: PlatformResult) -> list[str]:
    lines: list[str] = [""] if found.doubts else []
    for doubt in found.doubts:
        lines += wrapped(f"{doubt.code}: {BOOK.text(doubt)}", "! ", "  ")
        lines += wrapped(BOOK.hint(doubt), "  ", "  ")
    return lines


def _cut(text: str, width: int) -> str:
    """In one line and not wider; the end of a long name tells more than its middle."""
    text = printable(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"

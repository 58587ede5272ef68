"""What was found about an application as blocks, as the document that `--json` prints, and in a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.core.platform_trace import LOSSES
from hasten.core.units import milliseconds, percent, several, size
from hasten.practices.app.facts import NAME, AppFound, TraceFound, WatchedFound
from hasten.practices.app.rules import finding_of
from hasten.practices.app.words import BOOK, HELD_CORE, PARTS, place_words
from hasten.show.blocks import Cell, Chart, Detail, Facts, Headline, Note, Notes, Prose, Section, Table, columns, notes
from hasten.show.charts import Bar, interval_bars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.session import Line
    from hasten.practices.app.facts import Fault, InsteadRow, ModelUse, OperatorRow, SlowFrame
    from hasten.show.blocks import Block

_SMALL: Final = 0.0005
"""Parts of the time that would be shown as 0.0 %."""
_MOST_ROWS: Final = 10
_OPERATORS: Final = 4
_CPU_SAMPLERS: Final = ("perf", "perfetto", "instruments")


def view(found: AppFound, name: str = "app") -> list[Block]:
    """The answer, what to change, where the time goes, and what else there is to know."""
    finding = finding_of(found)
    # What to do about the first fault stands with it.
    to_do = "" if found.findings else BOOK.hint(finding.remark)
    if isinstance(found, WatchedFound):
        rows, detail = _program_facts(found), _program_detail(found, name)
        operators: list[Block] = []
    else:
        assert isinstance(found, TraceFound)
        rows, detail, operators = _trace_facts(found), _instead(found, name), _operators(found, name)
    return [
        Headline(f"{BOOK.text(finding.remark)} {to_do}".strip()),
        *([Notes(tuple(map(_fault, found.findings)))] if found.findings else []),
        Facts(tuple(rows)),
        *([_split_chart(found, f"{name}-split")] if found.split.total_ms else []),
        *operators,
        *notes(found.doubts, BOOK),
        *([Prose(f"Timeline: {found.trace}. Open it in ui.perfetto.dev.")] if found.trace else []),
        Detail((*detail, *_threads(found, name))),
    ]


def document(found: AppFound) -> dict[str, Any]:
    """The document of `hasten app --json`."""
    data = to_data(found, BOOK)
    for row, fault in zip(data["findings"], found.findings, strict=True):
        row["fix"] = BOOK.hint(fault.evidence)
    if isinstance(found, TraceFound):
        for row in data["instead"]:
            row["what"] = HELD_CORE if row["part"] == "core" else row["what"]
        data["source"]["lost"] = [BOOK.text(doubt) for doubt in found.doubts if doubt.code in LOSSES]
    return {**data, "finding": BOOK.finding_data(finding_of(found))}


def session_lines(found: WatchedFound | TraceFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of it."""
    return [("app", found.label, to_data(found)), ("finding", NAME, to_data(finding_of(found)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report."""
    found = [_found(line.data) for line in lines if line.kind == "app"]
    blocks = [block for place, one in enumerate(found) for block in view(one, f"app-{place}")]
    return [Section("app", "Application", tuple(blocks))] if blocks else []


def _found(data: Mapping[str, Any]) -> AppFound:
    """What a line of a session holds. Those of earlier releases have sentences in the place of codes."""
    findings = [
        {**row, "evidence": {"text": row["evidence"], "hint": row.get("fix", "")}}
        if isinstance(row["evidence"], str)
        else row
        for row in data["findings"]
    ]
    cls: type[AppFound] = TraceFound if "source" in data else WatchedFound
    return from_data(cls, {**data, "findings": findings})


def _fault(fault: Fault) -> Note:
    place = place_words(fault.file, fault.line, fault.function)
    cost = f"{milliseconds(fault.cost_ms)} ({percent(fault.share)})"
    what = f"{fault.rule[:1].upper()}{fault.rule[1:]}" + (f" in {place}" if place else "")
    return Note(f"{what}: {cost}. {BOOK.text(fault.evidence)}", BOOK.hint(fault.evidence))


def _split_chart(found: AppFound, name: str) -> Chart:
    total = found.split.total_ms
    parts = {part: ms for part, ms in found.split.parts.items() if ms >= _SMALL * total}
    rows = tuple(
        (Cell(PARTS[part]), Cell(milliseconds(ms), ms), Cell(percent(ms / total), ms)) for part, ms in parts.items()
    )
    table = Table(f"{name}-table", "Time by part", columns("part", "#time", "#share"), rows)
    bars = [Bar(PARTS[part], ms, ms, ms, milliseconds(ms)) for part, ms in parts.items()]
    largest = max(parts, key=lambda part: parts[part])
    said = f"The largest part is {PARTS[largest]}: {milliseconds(parts[largest])} of {milliseconds(total)}."
    return Chart(name, f"Time of thread {found.thread}", said, interval_bars(bars, "time, ms"), table)


def _program_facts(found: WatchedFound) -> list[tuple[str, str]]:
    ended = "" if found.exit_code == 0 else f", exit code {found.exit_code}"
    rows = [("program", f"{' '.join(found.command) or 'this process'}: {milliseconds(found.wall_ms)}{ended}")]
    rows += [("model", _model(use)) for use in found.models]
    if frames := found.frames:
        loop = f"{several(frames.count, 'round')}, median {milliseconds(frames.median_ms)}"
        rest = f"p95 {milliseconds(frames.p95_ms)}, first result after {milliseconds(frames.first_at_ms)}"
        rows.append(("loop", f"{loop}, {rest}"))
    return rows


def _model(use: ModelUse) -> str:
    threads = "default threads" if use.threads is None else several(use.threads, "thread")
    times = f"median {milliseconds(use.median_ms)}, p95 {milliseconds(use.p95_ms)}, first {milliseconds(use.first_ms)}"
    name = Path(use.path).name or "unnamed"
    return f"{name} ({use.kind}, {threads}): {several(use.runs, 'run')}, {times}; {several(use.loads, 'load')}"


def _program_detail(found: WatchedFound, name: str) -> list[Block]:
    cost = found.overhead
    share = percent(cost.total_ms / max(found.wall_ms, 1e-9))
    calls = f"{several(cost.calls, 'call')} at {cost.call_ns / 1e3:.1f} µs"
    sampler = f"{several(cost.samples, 'sample')} in {milliseconds(cost.sampler_ms)}"
    watching = f"about {milliseconds(cost.total_ms)} ({share}): {calls}, {sampler}, start {milliseconds(cost.start_ms)}"
    rows = [("watching cost", watching)]
    for use in found.models:
        if use.operators:
            top = ", ".join(f"{entry.op} {percent(entry.share)}" for entry in use.operators[:_OPERATORS])
            rows.append(("operators", f"{top} (measured after the program)"))
    if frames := found.frames:
        slow = [frame for frame in frames.slowest if frame.ms > 2 * frames.median_ms]
        rows += [("slow round", _slow_round(frame)) for frame in slow]
    code = tuple(
        (
            Cell(milliseconds(row.ms), row.ms),
            Cell(place_words(row.file, row.line, row.function), code=True),
            Cell(PARTS[row.part]),
        )
        for row in [row for row in found.code if row.part != "start" and row.samples][:_MOST_ROWS]
    )
    own = Table(f"{name}-code", "The program's own code", columns("#time", "line", "part"), code)
    return [Facts(tuple(rows)), *([own] if code else [])]


def _slow_round(frame: SlowFrame) -> str:
    when = f"number {frame.number}, {milliseconds(frame.at_ms)} after the start"
    return f"{when}: {milliseconds(frame.ms)}, {milliseconds(frame.inference_ms)} of it inference"


def _threads(found: AppFound, name: str) -> list[Block]:
    """The threads, where there is more than one."""
    if len(found.threads) < 2:
        return []
    rows = tuple(
        (
            Cell(thread.thread),
            Cell(str(thread.runs), thread.runs),
            Cell(milliseconds(thread.wall_ms), thread.wall_ms),
            Cell(milliseconds(thread.split.litert_ms), thread.split.litert_ms),
        )
        for thread in found.threads
    )
    return [Table(f"{name}-threads", "Threads", columns("thread", "#runs", "#time", "#LiteRT"), rows)]


def _trace_facts(found: TraceFound) -> list[tuple[str, str]]:
    source = found.source
    whole = "complete" if source.complete else "not complete"
    rows = [("trace", f"{Path(source.path).name}: {source.title}, {size(source.size_bytes)}, {whole}")]
    if found.process:
        rows.append(("program", found.process))
    if found.thread is not None:
        what = "CPU time" if found.sampled and source.kind in _CPU_SAMPLERS else "time"
        share = percent(found.split.litert_ms / max(found.split.total_ms, 1e-9))
        rows += [("thread", found.thread), ("LiteRT", f"{share} of the thread's {what}")]
    if runs := found.inferences:
        counted = {"load": found.loads, "allocation": found.allocations}
        counts = "".join(f"; {several(number, word)}" for word, number in counted.items() if number)
        times = f"median {milliseconds(runs.median_ms)}, p95 {milliseconds(runs.p95_ms)}"
        rows.append(("runs", f"{runs.count}, {times}, first {milliseconds(runs.first_ms)}{counts}"))
    if states := found.scheduling:
        total = max(states.running_ms + states.no_core_ms + states.waiting_ms, 1e-9)
        on, off, idle = (percent(ms / total) for ms in (states.running_ms, states.no_core_ms, states.waiting_ms))
        rows.append(("scheduler", f"during inference {on} running, {off} ready without a core, {idle} waiting"))
    return rows


def _operators(found: TraceFound, name: str) -> list[Block]:
    """Operators by kind, those with the most time first."""
    if not found.operators:
        return []
    kinds: dict[tuple[str, bool], list[OperatorRow]] = {}
    for row in found.operators:
        kinds.setdefault((row.op, row.delegate), []).append(row)
    groups = sorted(kinds.values(), key=lambda rows: -sum(row.ms for row in rows))
    what, seen = ("kernel", "#samples") if found.sampled else ("operator", "#calls")
    rows = [_operator_cells(group[0].op, group, sampled=found.sampled) for group in groups[:_MOST_ROWS]]
    if rest := [row for group in groups[_MOST_ROWS:] for row in group]:
        rows.append(_operator_cells(f"{len(groups) - _MOST_ROWS} more kinds", rest, sampled=found.sampled))
    delegated = f", {found.partitions} of them delegate partitions" if found.partitions else ""
    caption = f"{several(len(found.operators), what)}{delegated}"
    return [Table(f"{name}-operators", caption, columns(what, "#nodes", seen, "#time", "#share"), tuple(rows))]


def _operator_cells(title: str, group: Sequence[OperatorRow], *, sampled: bool) -> tuple[Cell, ...]:
    count, ms = sum(row.count for row in group), sum(row.ms for row in group)
    return (
        Cell(title, code=True),
        Cell("" if sampled else str(len(group)), len(group)),
        Cell(f"{count:,}", count),
        Cell(milliseconds(ms), ms),
        Cell(percent(sum(row.share for row in group)), ms),
    )


def _instead(found: TraceFound, name: str) -> list[Block]:
    shown = [row for row in found.instead if row.ms >= 1e-3 * max(found.wall_ms, 1e-9)][:_MOST_ROWS]
    if not shown:
        return []
    rows = tuple((Cell(milliseconds(row.ms), row.ms), Cell(PARTS[row.part]), *_what_and_where(row)) for row in shown)
    return [Table(f"{name}-instead", "What ran instead", columns("#time", "part", "what", "where"), rows)]


def _what_and_where(row: InsteadRow) -> tuple[Cell, Cell]:
    if row.part == "core":
        return Cell(row.where, code=True), Cell(HELD_CORE)
    return Cell(row.what, code=True), Cell(place_words(row.file, row.line) or row.where)

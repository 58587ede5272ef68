"""Tables of Instruments as `xctrace export` writes them: signposts and time profiles, in which a value is given once.

Each row has a cell for each column of the table's schema. A cell has an `id` where its value first stands, and only a
`ref` to that later. Ids are numbered anew in each table, so a later one takes the place of an earlier one.
"""

from __future__ import annotations

import re
import xml.parsers.expat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError
from hasten.core.platform_trace import DAMAGED, TRUNCATED, UNMATCHED, Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.traces.builder import ThreadRows, TraceBuilder
    from hasten.traces.content import Content

TFLITE_SUBSYSTEM: Final = "org.tensorflow.lite"
_MOST_DEPTH: Final = 64
_PROCESS_NAME: Final = re.compile(r"^(?P<name>.*) \((?P<pid>\d{1,9})\)$")
# Between their elements stand blanks only, as many as there are rows.
_WITHOUT_TEXT: Final = ("node", "row")
_STACK_TAGS: Final = ("backtrace", "tagged-backtrace", "text-backtrace")


@dataclass(slots=True)
class Cell:
    """An element of the export: what it shows, what it is, and what stands inside."""

    tag: str
    shown: str
    path: str = ""
    line: str = ""
    text: str = ""
    inside: list[Cell] = field(default_factory=list)

    @property
    def value(self) -> str:
        """The raw value, or what is shown where there is none."""
        return self.text.strip() or self.shown

    def find(self, tag: str) -> Cell | None:
        """The first element of this tag inside."""
        return next((cell for cell in self.inside if cell.tag == tag), None)


Row = dict[str, Cell]
_ERRORS = xml.parsers.expat.errors
_UNCLOSED: Final = {
    _ERRORS.codes[message]
    for message in (
        _ERRORS.XML_ERROR_UNCLOSED_TOKEN,
        _ERRORS.XML_ERROR_NO_ELEMENTS,
        _ERRORS.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
}
"""Errors of a document that ends too early."""


def read_instruments(content: Content, builder: TraceBuilder) -> None:
    """All rows of all tables that hold signposts or samples."""
    tables = _Tables(builder)
    parser = _Parser(tables.add)
    try:
        for chunk in content.chunks():
            parser.feed(chunk)
        parser.close()
    except xml.parsers.expat.ExpatError as error:
        if error.code in _UNCLOSED:
            builder.doubt(TRUNCATED, "xml", line=error.lineno)
        else:
            words = xml.parsers.expat.errors.messages.get(error.code, "")
            builder.doubt(DAMAGED, "xml", line=error.lineno, error=words)
    if parser.toc and not parser.rows:
        raise DataError(
            f"{content.path} is only the table of contents of an Instruments trace.",
            "Export a table: xcrun xctrace export --input F.trace --output trace.xml "
            "--xpath '/trace-toc/run/data/table[@schema=\"os-signpost-interval\"]'",
        )
    tables.finish()


class _Parser:
    """The export as a stream: rows are handed on and forgotten, values with an id are kept."""

    def __init__(self, hand_on: Callable[[str, Row], None]) -> None:
        self._hand_on = hand_on
        self._parser = xml.parsers.expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._letters
        self._known: dict[str, Cell] = {}
        self._stack: list[tuple[str, Cell, list[str] | None]] = []
        """The elements that are open: id, cell, and the pieces of its text; None where a text says nothing."""
        self._depth = 0
        self._schema = ""
        self._columns: list[str] = []
        self.toc = False
        self.rows = 0

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        self._parser.Parse(chunk, False)

    def close(self) -> None:
        """There are no more."""
        self._parser.Parse(b"", True)

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self.toc = self.toc or tag == "trace-toc"
        if tag == "schema":
            self._schema, self._columns = attributes.get("name", ""), []
        if self._depth > _MOST_DEPTH:
            return
        known = self._known.get(attributes["ref"]) if "ref" in attributes else None
        shown = attributes.get("fmt") or attributes.get("name", "")
        cell = known or Cell(tag, shown, attributes.get("path", ""), attributes.get("line", ""))
        self._stack.append((attributes.get("id", ""), cell, None if known or tag in _WITHOUT_TEXT else []))

    def _letters(self, letters: str) -> None:
        pieces = self._stack[-1][2] if self._stack and self._depth <= _MOST_DEPTH else None
        if pieces is not None:
            pieces.append(letters)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if self._depth >= _MOST_DEPTH:
            return
        number, cell, pieces = self._stack.pop()
        if pieces:
            cell.text = "".join(pieces)
        if number:
            self._known[number] = cell
        if tag == "mnemonic":
            self._columns.append(cell.text.strip())
        elif tag == "row":
            self.rows += 1
            self._hand_on(self._schema, self._row(cell.inside))
        elif self._stack and tag not in ("schema", "col", "node"):
            self._stack[-1][1].inside.append(cell)

    def _row(self, cells: list[Cell]) -> Row:
        """Cells by their column, and where a column is not known, by their tag."""
        row = {cell.tag: cell for cell in reversed(cells)}
        row.update({name: cell for name, cell in zip(self._columns, cells, strict=False) if cell.tag != "sentinel"})
        return row


class _Tables:
    """What rows mean, by the table that they stand in."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._opened: dict[tuple[int, str, str], tuple[int, str]] = {}
        self._strange = 0

    def add(self, schema: str, row: Row) -> None:
        """One row."""
        if "duration" in row and ("start" in row or "start-time" in row) and "signpost" in schema:
            self._add_interval(row)
        elif "event-type" in row:
            self._add_event(row)
        elif any(tag in row for tag in ("weight", "stack", *_STACK_TAGS)) and _first(row, "time", "sample-time"):
            self._add_sample(row)

    def finish(self) -> None:
        """Say what is missing."""
        self._builder.weigh_samples()
        if self._opened:
            self._builder.doubt(UNMATCHED, "signposts", unclosed=len(self._opened))
        if self._strange:
            self._builder.doubt(DAMAGED, "rows", count=self._strange)

    def _add_interval(self, row: Row) -> None:
        begin_ns, duration_ns = _number(_first(row, "start", "start-time")), _number(row.get("duration"))
        if begin_ns is None or duration_ns is None:
            self._strange += 1
            return
        rows = self._thread(_first(row, "start-thread", "thread"), _first(row, "start-process", "process"))
        message = _first(row, "start-message", "message", "os-log-metadata")
        name = _first(row, "name", "signpost-name", "string")
        self._builder.whole(rows, begin_ns, duration_ns, _name(row, name, message), _arguments(row))

    def _add_event(self, row: Row) -> None:
        """Begin and end of a signpost come in rows of their own."""
        time_ns, kind = _number(_first(row, "time", "event-time")), row["event-type"].value
        if time_ns is None:
            self._strange += 1
            return
        rows = self._thread(_first(row, "thread"), _first(row, "process"))
        name = _first(row, "name", "signpost-name")
        identifier = _first(row, "identifier", "os-signpost-identifier")
        key = (rows.pid, identifier.value if identifier else "", name.value if name else "")
        if kind == "Begin":
            message = _first(row, "message", "os-log-metadata")
            self._opened[key] = (time_ns, _name(row, name, message))
        elif kind == "End" and key in self._opened:
            begin_ns, words = self._opened.pop(key)
            self._builder.whole(rows, begin_ns, max(0, time_ns - begin_ns), words, _arguments(row))

    def _add_sample(self, row: Row) -> None:
        time_ns = _number(_first(row, "time", "sample-time"))
        if time_ns is None:
            self._strange += 1
            return
        rows = self._thread(_first(row, "thread"), _first(row, "process"))
        stack = self._builder.stack(tuple(reversed(self._frames(_first(row, "stack", *_STACK_TAGS)))))
        self._builder.sample(rows, time_ns, _number(row.get("weight")) or 0, stack)

    def _frames(self, cell: Cell | None) -> list[int]:
        while cell is not None and cell.tag != "backtrace" and cell.find("backtrace") is not None:
            cell = cell.find("backtrace")
        found = []
        for frame in cell.inside if cell else ():
            if frame.tag == "frame":
                binary, source = frame.find("binary"), frame.find("source")
                path = source.find("path") if source else None
                line = int(source.line) if source and source.line.isdecimal() and len(source.line) < 9 else 0
                module = (binary.path or binary.shown) if binary else ""
                found.append(self._builder.frame(Frame(frame.shown, module, path.value if path else "", line)))
        return found

    def _thread(self, thread: Cell | None, process: Cell | None) -> ThreadRows:
        process = (thread.find("process") if thread else None) or process
        pid_cell = process.find("pid") if process else None
        named = _PROCESS_NAME.match(process.shown) if process else None
        pid = _number(pid_cell) or (int(named["pid"]) if named else 0)
        if named:
            self._builder.processes.setdefault(pid, named["name"])
        tid = (_number(thread.find("tid")) if thread else 0) or 0
        name = thread.shown.split(" 0x")[0].strip() if thread else ""
        return self._builder.thread((pid, tid, name), pid=pid, tid=tid, name=name)


def _name(row: Row, name: Cell | None, message: Cell | None) -> str:
    """TFLite's signposts have the kind of event as a name, and say which in the message."""
    subsystem = row.get("subsystem")
    if message and message.value and subsystem and subsystem.value == TFLITE_SUBSYSTEM:
        return message.value
    return name.value if name else "signpost"


def _arguments(row: Row) -> dict[str, str] | None:
    found: dict[str, str] = {name: row[name].value for name in ("subsystem", "category") if name in row}
    return found or None


def _first(row: Row, *names: str) -> Cell | None:
    return next((row[name] for name in names if name in row), None)


def _number(cell: Cell | None) -> int | None:
    """A cell's whole number; hexadecimal where it says so."""
    value = cell.value if cell else ""
    try:
        return int(value, 16 if value.startswith("0x") else 10) if len(value) < 20 else None
    except ValueError:
        return None

"""What a watched program wrote, read back: its processes with events, samples and what they refer to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.watcher import rows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Chain = list[list[Any]]
"""[file, function, line] of a call and of those that led to it, the innermost first."""
RUNS = (rows.INVOKE, rows.SIGNATURE)


@dataclass
class Events:
    """Calls of LiteRT in the order of their starts, as columns."""

    kind: NDArray[np.int64]
    flags: NDArray[np.int64]
    number: NDArray[np.int64]
    place: NDArray[np.int64]
    thread: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def ms(self) -> NDArray[np.float64]:
        """How long each took."""
        return (self.end - self.start) / 1e6

    @property
    def is_run(self) -> NDArray[np.bool_]:
        """Which of them are runs of a model."""
        return np.isin(self.kind, RUNS)

    def where(self, mask: NDArray[np.bool_]) -> Events:
        """Those that a mask picks."""
        return Events(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


@dataclass
class StackSamples:
    """What threads were doing, as columns in the order of time."""

    stack: NDArray[np.int64]
    thread: NDArray[np.int64]
    at: NDArray[np.int64]
    cpu: NDArray[np.int64]

    def of_thread(self, thread: int) -> StackSamples:
        """Those of one thread."""
        mask = self.thread == thread
        return StackSamples(self.stack[mask], self.thread[mask], self.at[mask], self.cpu[mask])


@dataclass
class Process:
    """One process of the program."""

    pid: int
    events: Events
    samples: StackSamples
    facts: dict[str, Any]
    ends: dict[str, Any]
    places: dict[int, dict[str, Any]]
    objects: dict[int, dict[str, Any]]
    stacks: dict[int, Chain]
    threads: dict[int, str]
    notes: list[dict[str, Any]] = field(default_factory=list)
    warm_ms: dict[str | None, float | None] = field(default_factory=dict)
    """What is known of the latency of each model's warm runs, once it was asked for."""

    @property
    def began(self) -> int:
        """When the watch began in it."""
        return int(self.facts["began_ns"])

    @cached_property
    def ended(self) -> int:
        """The last that was seen of it."""
        ends = [self.events.end.max(initial=0), self.samples.at.max(initial=0), self.ends.get("at_ns", 0), self.began]
        return int(max(ends))

    @cached_property
    def first_run(self) -> int:
        """The index of the first run of a model among its events; their number if there is none."""
        runs = np.flatnonzero(self.events.is_run)
        return int(runs[0]) if len(runs) else len(self.events)

    @property
    def main_thread(self) -> int:
        """The identity of its main thread."""
        return int(self.facts["main_thread"])

    def thread_name(self, thread: int) -> str:
        """The name that `threading` knows, or main."""
        return "main" if thread == self.main_thread else self.threads.get(thread, f"thread {thread}")

    def chain(self, place: int) -> Chain:
        """Where a call is in the program."""
        found: Chain = self.places[place]["chain"]
        return found

    def queued_ms(self, thread: int) -> float:
        """How long a thread was ready without a core, where the system reports it."""
        return max((note["ns"] for note in self.notes_of("queued") if note["thread"] == thread), default=0) / 1e6

    def notes_of(self, kind: str) -> list[dict[str, Any]]:
        """Notes of one kind."""
        return [note for note in self.notes if note["kind"] == kind]


def read_processes(folder: Path) -> list[Process]:
    """The processes that wrote into a folder, the earliest first; what a crash cut off is left out."""
    found = [_process(path) for path in folder.glob(f"*{rows.LINES_SUFFIX}")]
    return sorted((process for process in found if process is not None), key=lambda process: process.began)


def watch_errors(folder: Path) -> list[str]:
    """Why the watch could not begin in some process."""
    return sorted({path.read_text(errors="replace") for path in folder.glob("trouble-*")})


def _process(path: Path) -> Process | None:
    lines = list(_lines(path))
    facts = [line for line in lines if line["kind"] == "process"]
    if not facts:
        return None
    table = _table(path.with_suffix(rows.ROWS_SUFFIX))
    kind = table[:, 0] & rows.KIND_MASK
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_kind.setdefault(line["kind"], []).append(line)
    known = ("process", "end", "place", "object", "stack", "thread")
    places = {line["number"]: line for line in by_kind.get("place", ())}
    events = _events(table[kind != rows.SAMPLE])
    return Process(
        pid=int(path.stem),
        # A crash between the two files can leave rows whose places were not written.
        events=events.where(np.isin(events.place, list(places))),
        samples=_samples(table[kind == rows.SAMPLE]),
        facts=facts[-1],
        ends=by_kind.get("end", [{}])[-1],
        places=places,
        objects={line["number"]: line for line in by_kind.get("object", ())},
        stacks={line["number"]: line["frames"] for line in by_kind.get("stack", ())},
        threads={line["ident"]: line["name"] for line in by_kind.get("thread", ())},
        notes=[line for line in lines if line["kind"] not in known],
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "kind" in line:
            found.append(line)
    return found


def _table(path: Path) -> NDArray[np.int64]:
    data = path.read_bytes() if path.exists() else b""
    whole = len(data) // (8 * rows.INTEGERS_A_ROW) * 8 * rows.INTEGERS_A_ROW
    return np.frombuffer(data[:whole], np.int64).reshape(-1, rows.INTEGERS_A_ROW)


def _events(table: NDArray[np.int64]) -> Events:
    table = table[np.argsort(table[:, 2], kind="stable")]
    code = table[:, 0]
    return Events(
        kind=code & rows.KIND_MASK,
        flags=code >> rows.FLAG_SHIFT & rows.FLAG_MASK,
        number=code >> rows.OBJECT_SHIFT & rows.OBJECT_MASK,
        place=code >> rows.PLACE_SHIFT,
        thread=table[:, 1],
        start=table[:, 2],
        end=table[:, 3],
    )


def _samples(table: NDArray[np.int64]) -> StackSamples:
    table = table[np.argsort(table[:, 2], kind="stable")]
    return StackSamples(table[:, 0] >> rows.STACK_SHIFT, table[:, 1], table[:, 2], table[:, 3])

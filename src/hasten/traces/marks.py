"""Android's trace marks (`B|pid|name`, `E|pid`, `S|pid|name|cookie`, …), as atrace and Perfetto both hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasten.traces.builder import ThreadRows, TraceBuilder


class Marks:
    """Marks in any order. Those that name what they belong to by a cookie are paired at the end, in order of time."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._loose: list[tuple[int, bool, int, str, str, str]] = []
        """(time, begins, pid, track, cookie, name)"""

    def add(self, rows: ThreadRows, time_ns: int, payload: str) -> None:
        """One mark as a thread wrote it."""
        kind, _, rest = payload.partition("|")
        if kind == "B":
            pid, _, name = rest.partition("|")
            rows.pid = rows.pid or _number(pid)
            self._builder.begin(rows, time_ns, name)
        elif kind == "E" and payload[:2] in ("E", "E|"):
            self._builder.end(rows, time_ns)
        elif kind in ("S", "F"):
            pid, _, named = rest.partition("|")
            name, _, cookie = named.rpartition("|")
            self._add_loose(time_ns, kind == "S", _number(pid), (name, cookie, name))
        elif kind == "G":
            pid, track, name, cookie, *_ = [*rest.split("|"), "", "", ""]
            self._add_loose(time_ns, True, _number(pid), (track, cookie, name))
        elif kind == "H":
            pid, _, named = rest.partition("|")
            track, _, cookie = named.partition("|")
            self._add_loose(time_ns, False, _number(pid), (track, cookie.rpartition("|")[2], ""))

    def finish(self) -> None:
        """Pair what is left, on a track of its own for each name."""
        opened: dict[tuple[int, str, str], tuple[int, str]] = {}
        for time_ns, begins, pid, track, cookie, name in sorted(self._loose, key=lambda mark: mark[0]):
            key = (pid, track, cookie)
            if begins:
                opened[key] = (time_ns, name)
            elif key in opened:
                begin_ns, name = opened.pop(key)
                rows = self._builder.thread(("async", pid, track), pid=pid, name=f"async: {track}")
                self._builder.whole(rows, begin_ns, time_ns - begin_ns, name)

    def _add_loose(self, time_ns: int, begins: bool, pid: int, words: tuple[str, str, str]) -> None:
        if self._builder.takes_event():
            track, cookie, name = words
            self._loose.append((time_ns, begins, pid, track, cookie, name))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

"""Which format a trace is in, by its content, and the reader for it."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError, UsageError
from hasten.core.platform_trace import LOSSES
from hasten.traces.atrace import LINE, read_atrace
from hasten.traces.builder import TraceBuilder
from hasten.traces.chrome import EVENTS, read_chrome
from hasten.traces.content import Content, opened
from hasten.traces.instruments import read_instruments
from hasten.traces.perf_script import FRAME, HEAD, read_perf_script
from hasten.traces.perfetto import looks_like_perfetto, read_perfetto
from hasten.traces.speedscope import FOLDED, read_folded, read_speedscope
from hasten.traces.words import BOOK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.platform_trace import PlatformTrace
    from hasten.traces.content import Progress

_HEAD: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be read."""

    title: str
    read: Callable[[Content, TraceBuilder], None]


FORMATS: Final = {
    "perfetto": Format("Perfetto trace", read_perfetto),
    "atrace": Format("atrace or systrace", read_atrace),
    "perf": Format("perf script", read_perf_script),
    "speedscope": Format("speedscope", read_speedscope),
    "folded": Format("folded stacks", read_folded),
    "instruments": Format("Instruments export", read_instruments),
    "chrome": Format("Chrome trace events", read_chrome),
}
_KNOWN: Final = ", ".join(FORMATS)


def read_trace(path: Path, kind: str = "", progress: Progress | None = None) -> PlatformTrace:
    """The trace in a file, in the format that its content shows or that is named."""
    if kind and kind not in FORMATS:
        raise UsageError(f"There is no kind of trace {kind!r}.", f"Choose one of {_KNOWN}.")
    with opened(path, progress) as content:
        kind = kind or detected(content)
        builder = TraceBuilder()
        FORMATS[kind].read(content, builder)
        found = builder.finished(content, kind, FORMATS[kind].title)
    if not any(len(thread.slices) or len(thread.samples) for thread in found.threads):
        lost = [BOOK.text(doubt) for doubt in found.doubts if doubt.code in LOSSES]
        raise DataError(
            " ".join((f"{path} holds no events of the format {FORMATS[kind].title}.", *lost[:1])),
            f"If it has another format, name it with --kind ({_KNOWN}).",
        )
    return found


def detected(content: Content) -> str:
    """The format's name. DataError where it is none that hasten knows."""
    head = content.data[:_HEAD]
    if head.startswith((b"PERFILE2", b"2ELIFREP")):
        raise DataError(f"{content.path} is perf's binary file.", "Convert it to text: perf script -i FILE > trace.txt")
    if looks_like_perfetto(head):
        return "perfetto"
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    for kind, matches in _SIGNS.items():
        if matches(text):
            return kind
    if text.startswith("{") and EVENTS.search(content.data) is not None:
        return "chrome"  # however late in the file they stand
    if _is_page(text) and content.data.find(b'class="trace-data"') >= 0:
        return "atrace"
    titles = ", ".join(f"{entry.title} ({name})" for name, entry in FORMATS.items())
    raise DataError(
        f"{content.path} is not a trace in a format that hasten reads.",
        f"Give one of {titles}, or name it with --kind.",
    )


def _is_speedscope(text: str) -> bool:
    return text.startswith("{") and ("speedscope" in text[:4096] or ('"profiles"' in text and '"shared"' in text))


def _is_chrome(text: str) -> bool:
    return re.match(r"\[\s*(\{|\])", text) is not None or (text.startswith("{") and '"traceEvents"' in text)


def _is_instruments(text: str) -> bool:
    return text.startswith("<") and re.search(r"<trace-(query-result|toc)\b", text[:4096]) is not None


def _is_atrace(text: str) -> bool:
    if _is_page(text):
        return "<title>Android System Trace</title>" in text or 'class="trace-data"' in text
    return text.startswith(("# tracer:", "TRACE:")) or _share(LINE.match, text) > 0.5


def _is_page(text: str) -> bool:
    return text[:16].lower().startswith(("<!doctype html", "<html"))


def _is_perf(text: str) -> bool:
    lines = [line for line in text.splitlines()[:400] if line and not line.startswith("#")]
    frames = sum(FRAME.match(line) is not None for line in lines)
    heads = sum(HEAD.match(line) is not None for line in lines)
    return heads > 0 and heads + frames > len(lines) / 2


def _is_folded(text: str) -> bool:
    return ";" in text and not text.startswith(("{", "[", "<")) and _share(FOLDED.match, text) > 0.5


def _share(matches: Callable[[str], object], text: str) -> float:
    """The share of the first lines that look so; comments and the last line, which may be cut, do not count."""
    lines = [line for line in text.splitlines()[:200] if line.strip() and not line.startswith("#")]
    with contextlib.suppress(IndexError):
        lines = lines if len(lines) == 1 else lines[:-1]
    return sum(matches(line) is not None for line in lines) / len(lines) if lines else 0.0


_SIGNS: Final = {
    "speedscope": _is_speedscope,
    "chrome": _is_chrome,
    "instruments": _is_instruments,
    "atrace": _is_atrace,
    "perf": _is_perf,
    "folded": _is_folded,
}

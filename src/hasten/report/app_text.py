"""What was seen of an application, as text for a terminal."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.units import milliseconds, percent
from hasten.practices.app.facts import PARTS
from hasten.report.text import doubts_text

if TYPE_CHECKING:
    from hasten.practices.app.facts import AppFinding, AppResult, Frames

WIDTH: Final = 80
_BAR: Final = 24
_LINES: Final = 8
_OPERATORS: Final = 4
_SMALL: Final = 0.0005


def app_text(found: AppResult) -> str:
    """The split, the lines, the frames, the faults, and what watching cost."""
    lines = [_head(found), ""]
    if found.main is None:
        lines += _wrapped(
            "Nothing was seen: no Python program started that reads PYTHONPATH (is it run with -I or -E?)."
        )
    else:
        lines += [*_split(found), *_code(found), *_models(found), *_frames(found.frames), *_findings(found), ""]
        lines += _wrapped(_overhead(found))
    lines += doubts_text(found.doubts)
    if found.trace:
        lines += _wrapped(f"Timeline: {found.trace}; open it in ui.perfetto.dev.")
    return "\n".join(lines)


def _head(found: AppResult) -> str:
    command = " ".join(found.command)
    ended = "" if found.exit_code == 0 else f", exit code {found.exit_code}"
    return f"{_cut(command, WIDTH - 32)}: {milliseconds(found.wall_ms)}{ended}"


def _split(found: AppResult) -> list[str]:
    assert found.main is not None
    main, total = found.main, max(found.main.wall_ms, 1e-9)
    others = len(found.threads) - 1
    where = f"Where the time of the thread {main.thread} goes" if others else "Where the time goes"
    lines = [where + (f" ({others} more in the JSON document)" if others else "")]
    for part, name in PARTS.items():
        ms = main.split.get(part, 0.0)
        if ms / total >= _SMALL:
            bar = "█" * round(_BAR * ms / total)
            lines.append(f"  {name:<27}{milliseconds(ms):>10}{percent(ms / total):>7}  {bar}".rstrip())
    return lines


def _code(found: AppResult) -> list[str]:
    rows = [row for row in found.code if row.part != "start" and row.samples][:_LINES]
    if not rows:
        return []
    lines = ["", "The program's own lines"]
    for row in rows:
        place = f"{_short(row.file)}:{row.line} {row.function}"
        lines.append(f"  {milliseconds(row.ms):>9}  {_cut(place, 40):<40}  {PARTS[row.part]}")
    return lines


def _models(found: AppResult) -> list[str]:
    lines = []
    for use in found.models:
        threads = "default threads" if use.threads is None else _count(use.threads, "thread")
        lines += _wrapped(
            f"{_short(use.path) or 'a model'} ({use.kind}, {threads}): {use.runs} runs, {milliseconds(use.median_ms)}"
            f" each, p95 {milliseconds(use.p95_ms)}, the first {milliseconds(use.first_ms)}; loaded {_times(use.loads)}"
        )
        if use.operators:
            top = [f"{op} {percent(share)}" for op, _, share in use.operators[:_OPERATORS]]
            lines += _wrapped(f"  operators, measured afterwards: {', '.join(top)}")
    return ["", *lines] if lines else []


def _frames(frames: Frames | None) -> list[str]:
    if frames is None:
        return []
    text = (
        f"{frames.count} rounds: {milliseconds(frames.median_ms)} each, p95 {milliseconds(frames.p95_ms)}; the first"
        f" result came {milliseconds(frames.first_at_ms)} after the start."
    )
    slow = [
        f"number {number} at {at / 1e3:.2f} s took {milliseconds(ms)} ({milliseconds(inference)} of it inference)"
        for number, at, ms, inference in frames.slowest
        if ms > 2 * frames.median_ms
    ]
    return [*_wrapped(text), *(_wrapped("Slowest: " + "; ".join(slow) + ".") if slow else [])]


def _findings(found: AppResult) -> list[str]:
    if not found.models:
        return ["", "The program did not use LiteRT."]
    if not found.findings:
        return ["", "Nothing around the model costs what it need not."]
    return ["", "What to change", *(line for fault in found.findings for line in _finding(fault))]


def _finding(fault: AppFinding) -> list[str]:
    place = f"{_short(fault.file)}:{fault.line}"
    head = f"  {milliseconds(fault.cost_ms):>9} {percent(fault.share):>6}  {fault.rule}, {place} ({fault.function})"
    pad = " " * 20
    return [
        *textwrap.wrap(head, WIDTH, subsequent_indent=pad, break_on_hyphens=False),
        *textwrap.wrap(fault.evidence, WIDTH, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False),
        *textwrap.wrap("→ " + fault.fix, WIDTH, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False),
    ]


def _overhead(found: AppResult) -> str:
    cost = found.overhead
    return (
        f"Watching cost about {milliseconds(cost.total_ms)} ({percent(cost.total_ms / max(found.wall_ms, 1e-9))}):"
        f" {cost.calls} calls of {cost.call_ns / 1e3:.1f} µs, {cost.samples} samples in"
        f" {milliseconds(cost.sampler_ms)}, start {milliseconds(cost.start_ms)}."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _short(path: str) -> str:
    return Path(path).name


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _wrapped(text: str) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    return textwrap.wrap(text.strip(), WIDTH, initial_indent=indent, subsequent_indent="  ", break_on_hyphens=False)

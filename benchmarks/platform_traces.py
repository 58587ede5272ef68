"""Large traces of platform tools: how much of one is read in a second of CPU time, and what memory that takes.

Wanted: a trace of 100 MB in under 60 s of CPU time and 2 GB of memory, in each format. The traces are made of frames of
an application whose thread infers and is put off its core now and then. CPU time hardly varies: one run a format is
enough. `--megabytes N` asks for less.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.common import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MEGABYTES: Final = 100
_MOST_SECONDS: Final = 60
_MOST_MEMORY_MB: Final = 2000
_PID, _TID, _OTHER = 4100, 4123, 777
_SECTIONS: Final = (
    (0, "processFrame"),
    (10, "convertToBitmap"),
    (2_000, None),
    (2_100, "Invoke@0/0"),
    (2_110, "TfLiteXNNPackDelegate@66/0"),
    (7_000, None),
    (7_010, "CONV_2D@64/0"),
    (8_000, None),
    (8_010, None),
    (8_100, "updateOverlay"),
    (9_000, None),
    (9_100, None),
)
_SWITCHES: Final = (
    (3_000, _TID, 256, _OTHER),
    (4_000, _OTHER, 256, _TID),
    (9_200, _TID, 1, _OTHER),
    (9_900, _OTHER, 1, _TID),
)


def main() -> int:
    """Each format in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.platform_traces", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=_MEGABYTES, metavar="N", help=f"default: {_MEGABYTES}")
    megabytes = parser.parse_args().megabytes
    figures: dict[str, Any] = {"megabytes": megabytes}
    passed = True
    for name, pieces in FORMATS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace"
            write(path, pieces(), megabytes * 1_000_000)
            seconds, memory_mb = _examined(path)
        speed = round(megabytes / seconds, 1)
        figures[name] = {"cpu_seconds": round(seconds, 1), "mb_a_second": speed, "memory_mb": round(memory_mb)}
        passed &= seconds <= _MOST_SECONDS and memory_mb <= _MOST_MEMORY_MB
    return record("platform_traces", figures, passed=passed, whole=megabytes >= _MEGABYTES)


def _examined(path: Path) -> tuple[float, float]:
    """CPU seconds and peak memory of a process that reads and examines a trace."""
    command = [sys.executable, "-m", "hasten", "app", "--from", str(path), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def write(path: Path, pieces: Iterator[bytes], size: int) -> None:
    """Write a trace of about this many bytes."""
    written = 0
    with path.open("wb") as stream:
        while written < size:
            written += stream.write(next(pieces))


def _times() -> Iterator[int]:
    yield from range(1_000_000, 1 << 50, 10_000)


def _perfetto() -> Iterator[bytes]:
    """A packet with a bundle of kernel events for each frame."""
    for begin_us in _times():
        events = [
            _number(1, (begin_us + after) * 1000)
            + _number(2, _TID)
            + _bytes(3, _bytes(2, f"B|{_PID}|{name}\n".encode() if name else f"E|{_PID}\n".encode()))
            for after, name in _SECTIONS
        ]
        events += [
            _number(1, (begin_us + after) * 1000)
            + _number(2, before)
            + _bytes(4, _number(2, before) + _number(4, state) + _number(6, to))
            for after, before, state, to in _SWITCHES
        ]
        yield _bytes(1, _bytes(1, _number(1, 0) + b"".join(_bytes(2, event) for event in events)))


def _atrace() -> Iterator[bytes]:
    yield b"# tracer: nop\n#\n"
    for begin_us in _times():
        for after, name in _SECTIONS:
            mark = f"B|{_PID}|{name}" if name else f"E|{_PID}"
            yield _line(begin_us + after, f"tracing_mark_write: {mark}")
        for after, before, state, to in _SWITCHES:
            letter = "S" if state == 1 else "R+"
            yield _line(
                begin_us + after,
                f"sched_switch: prev_comm=a prev_pid={before} prev_prio=120 prev_state={letter} ==> "
                f"next_comm=b next_pid={to} next_prio=120",
            )


def _line(time_us: int, words: str) -> bytes:
    return f"   inference-{_TID}  ({_PID}) [000] d..3 {time_us // 10**6}.{time_us % 10**6:06}: {words}\n".encode()


def _chrome() -> Iterator[bytes]:
    yield b'[{"ph":"M","pid":4100,"name":"process_name","args":{"name":"app"}}'
    for begin_us in _times():
        for after, name in _SECTIONS:
            words = f'"ph":"B","name":"{name}","cat":"app"' if name else '"ph":"E"'
            yield f',\n{{"pid":{_PID},"tid":{_TID},"ts":{begin_us + after},{words}}}'.encode()


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


FORMATS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {"perfetto": _perfetto, "atrace": _atrace, "chrome": _chrome}


if __name__ == "__main__":
    sys.exit(main())

"""Sampled traces, built from stacks by each format's definition."""

from __future__ import annotations

import json
from typing import Final

from constructed import Export, _table
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from timelines import MAIN, PID, WORKER

Stack = tuple[tuple[str, str], ...]
"""(function, library), outermost first."""

_APP: Final = "/data/app/camera/libcamera_app.so"
_TFLITE: Final = "/data/app/camera/libtensorflowlite_jni.so"
LOAD: Final[Stack] = (("main", _APP), ("tflite::InterpreterBuilder::operator()", _TFLITE), ("memcpy", "/apex/libc.so"))
PRE: Final[Stack] = (("main", _APP), ("convertYuv", _APP))
POST: Final[Stack] = (("main", _APP), ("drawBoxes", _APP))
GEMM: Final[Stack] = (
    ("main", _APP),
    ("tflite::Subgraph::Invoke()", _TFLITE),
    ("xnn_run_operator_with_index", _TFLITE),
    ("xnn_f32_gemm_minmax_ukernel_6x8__neonfma", _TFLITE),
)
BUILTIN: Final[Stack] = (
    ("main", _APP),
    ("tflite::Subgraph::Invoke()", _TFLITE),
    ("tflite::ops::builtin::resize_bilinear::Eval(TfLiteContext*, TfLiteNode*)", _TFLITE),
)
POOL: Final[Stack] = (("thread_main", _TFLITE), ("xnn_f32_gemm_minmax_ukernel_6x8__neonfma", _TFLITE))
STRIPPED: Final[Stack] = (("main", _APP), ("[unknown]", _TFLITE))

Samples = list[tuple[int, int, Stack]]
"""(tid, time in µs, stack); each stands for a millisecond."""


def session(frames: int = 10) -> Samples:
    """5 ms of loading, then frames of 2 ms before, 6 in and 1 after the model, with a helper beside it."""
    found: Samples = [(WORKER, 1_000_000 + 1_000 * step, LOAD) for step in range(5)]
    clock = 1_005_000
    for _ in range(frames):
        for stack in (PRE, PRE, GEMM, GEMM, GEMM, GEMM, BUILTIN, BUILTIN, POST):
            found.append((WORKER, clock, stack))
            if stack is GEMM:
                found.append((WORKER + 1, clock, POOL))
            clock += 1_000
    return found


def perf_script(samples: Samples) -> str:
    """As `perf script` prints samples of the cycles counter, whose periods are no time."""
    lines = []
    for tid, time_us, stack in samples:
        lines.append(f"camera {PID}/{tid} [002] {time_us // 10**6:>6}.{time_us % 10**6:06}:     250000 cycles:u: ")
        lines += [f"\t{0x7F00:>16x} {name}+0x10 ({module})" for name, module in reversed(stack)]
        lines.append("")
    return "\n".join(lines) + "\n"


def folded(samples: Samples) -> str:
    """Stacks with their counts."""
    counts: dict[str, int] = {}
    for _, _, stack in samples:
        key = ";".join(f"{name} ({module})" for name, module in stack)
        counts[key] = counts.get(key, 0) + 1
    return "".join(f"{stack} {count}\n" for stack, count in counts.items())


def speedscope_evented(samples: Samples) -> str:
    """Events that open and close frames, in milliseconds."""
    names: dict[tuple[str, str], int] = {}
    events: list[dict[str, object]] = []
    opened: list[int] = []
    end = 0.0
    for tid, time_us, stack in samples:
        if tid != WORKER:
            continue
        numbers = [names.setdefault(frame, len(names)) for frame in stack]
        at = time_us / 1e3
        while opened and opened != numbers[: len(opened)]:
            events.append({"type": "C", "frame": opened.pop(), "at": at})
        for number in numbers[len(opened) :]:
            events.append({"type": "O", "frame": number, "at": at})
            opened.append(number)
        end = at + 1.0
    events += [{"type": "C", "frame": number, "at": end} for number in reversed(opened)]
    profile = {
        "type": "evented",
        "name": "camera",
        "unit": "milliseconds",
        "startValue": 1000,
        "endValue": end,
        "events": events,
    }
    frames = [{"name": name, "file": module} for name, module in names]
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "profiles": [profile],
            "shared": {"frames": frames},
        }
    )


def perfetto_samples(samples: Samples) -> bytes:
    """Perfetto's sampling profiler: functions, mappings, frames and stacks are each sent once."""
    trace = pb.Trace()
    known: dict[object, int] = {}
    for tid, time_us, stack in samples:
        packet = trace.packet.add(trusted_packet_sequence_id=9, timestamp=time_us * 1000)
        if not known:
            packet.sequence_flags = 1
        interned = packet.interned_data
        frames = []
        for name, module in stack:
            if (path := ("path", module)) not in known:
                known[path] = len(known) + 1
                interned.mapping_paths.add(iid=known[path], str=module.encode())
                interned.mappings.add(iid=known[path], path_string_ids=[known[path]])
            if (frame := ("frame", name, module)) not in known:
                known[frame] = len(known) + 1
                interned.function_names.add(iid=known[frame], str=name.encode())
                interned.frames.add(iid=known[frame], function_name_id=known[frame], mapping_id=known[path])
            frames.append(known[frame])
        if (key := ("stack", stack)) not in known:
            known[key] = len(known) + 1
            interned.callstacks.add(iid=known[key], frame_ids=frames)
        packet.perf_sample.pid, packet.perf_sample.tid = PID, tid
        packet.perf_sample.callstack_iid = known[key]
    return bytes(trace.SerializeToString())


def instruments_profile(samples: Samples) -> str:
    """`time-profile`: backtraces innermost first, frames and binaries by reference."""
    export = Export()
    rows = []
    known: dict[str, int] = {}
    for tid, time_us, stack in samples:
        rows.append(
            export.cell("sample-time", f"t{time_us}{tid}", str(time_us * 1000))
            + export.thread(tid, "worker" if tid != MAIN else "main")
            + "<sentinel/>"
            + export.cell("core", "CPU 0", "0")
            + export.cell("thread-state", "Running", "Running")
            + export.cell("weight", "1.00 ms", "1000000")
            + _backtrace(known, stack)
        )
    columns = ("time", "thread", "process", "core", "thread-state", "weight", "stack")
    return _table("time-profile", columns, rows)


def _backtrace(known: dict[str, int], stack: Stack) -> str:
    def cell(tag: str, name: str, inside: str = "") -> str:
        key = f"{tag}|{name}|{inside if tag != 'frame' else ''}"
        if key in known:
            return f'<{tag} ref="{known[key]}"/>'
        known[key] = 100_000 + len(known)
        shown = name.replace("&", "&amp;").replace("<", "&lt;")
        return f'<{tag} id="{known[key]}" name="{shown}">{inside}</{tag}>'

    key = f"stack|{stack}"
    if key in known:
        return f'<tagged-backtrace ref="{known[key]}"/>'
    known[key] = 100_000 + len(known)
    frames = "".join(cell("frame", name, cell("binary", module)) for name, module in reversed(stack))
    return f'<tagged-backtrace id="{known[key]}" fmt="main"><backtrace>{frames}</backtrace></tagged-backtrace>'

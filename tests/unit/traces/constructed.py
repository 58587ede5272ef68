"""Traces in each format, built from a timeline by the format's own definition; of Perfetto by its own classes."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from timelines import MAIN, OTHER, PID, PROCESS, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNNING, _SLEEPING, _PREEMPTED = 0, 1, 256


def switches(life: Timeline) -> Iterator[tuple[int, int, int, int]]:
    """(time in µs, from, state of it, to) for each time off the core; another process takes it meanwhile."""
    for tid, begin_us, end_us, ready in sorted(life.off_core, key=lambda entry: entry[1]):
        yield begin_us, tid, _PREEMPTED if ready else _SLEEPING, OTHER
        yield end_us, OTHER, _PREEMPTED, tid


def atrace(life: Timeline) -> str:
    """What `atrace` prints."""
    rows: list[tuple[int, str]] = []
    names = {**life.names, OTHER: "surfaceflinger"}
    for time_us, tid, name in life.edges():
        mark = f"B|{PID}|{name}" if name is not None else f"E|{PID}"
        rows.append((time_us, _line(names, tid, time_us, f"tracing_mark_write: {mark}")))
    for time_us, before, state, after in switches(life):
        letter = {_SLEEPING: "S", _PREEMPTED: "R+"}[state]
        words = (
            f"sched_switch: prev_comm={names[before]} prev_pid={before} prev_prio=120 prev_state={letter} ==> "
            f"next_comm={names[after]} next_pid={after} next_prio=120"
        )
        rows.append((time_us, _line(names, before, time_us, words)))
    rows.sort(key=lambda row: row[0])
    return "# tracer: nop\n#\n" + "\n".join(line for _, line in rows) + "\n"


def _line(names: dict[int, str], tid: int, time_us: int, words: str) -> str:
    pid = 700 if tid == OTHER else PID
    return f"{names[tid][:15]:>16}-{tid:<5} ({pid:>5}) [001] d..3 {time_us // 10**6:>6}.{time_us % 10**6:06}: {words}"


def systrace(life: Timeline) -> str:
    """The page that `systrace` writes around it."""
    return (
        "<!DOCTYPE html>\n<html>\n<head><script>var a-1 = [000];</script></head>\n<body>\n"
        f'<script class="trace-data" type="application/text">\n{atrace(life)}</script>\n</body></html>\n'
    )


def systrace_old(life: Timeline) -> str:
    """The page of years ago, with the trace as a string of JavaScript."""
    lines = "".join(f"{line}\\n\\\n" for line in atrace(life).splitlines())
    return (
        "<!DOCTYPE HTML>\n<html>\n<head><title>Android System Trace</title></head>\n<body>\n<script>\n"
        f'var linuxPerfData = "\\\n{lines}         \\n";\n</script>\n</body></html>\n'
    )


def perfetto(life: Timeline, *, compact: bool = False, compressed: bool = False) -> bytes:
    """What Android's System Tracing writes: marks and switches from the kernel, in bundles of two cores."""
    trace = pb.Trace()
    tree = trace.packet.add().process_tree
    tree.processes.add(pid=PID, cmdline=[PROCESS])
    tree.processes.add(pid=700, cmdline=["/system/bin/surfaceflinger"])
    tree.threads.add(tid=OTHER, tgid=700, name="surfaceflinger")
    for tid, thread in life.names.items():
        tree.threads.add(tid=tid, tgid=PID, name=thread)
    bundles = []
    for number, (time_us, tid, name) in enumerate(life.edges()):
        if number % 20 == 0:
            bundles = [trace.packet.add().ftrace_events, trace.packet.add().ftrace_events]
            bundles[0].cpu, bundles[1].cpu = 0, 1
        # Each core writes its own events: what one thread did is spread over both.
        event = bundles[number % 2].event.add(timestamp=time_us * 1000, pid=tid)
        event.print.buf = (f"B|{PID}|{name}" if name is not None else f"E|{PID}") + "\n"
    if compact:
        _add_compact(bundles[0].compact_sched, life)
    else:
        for time_us, before, state, after in switches(life):
            switch = bundles[0].event.add(timestamp=time_us * 1000, pid=before).sched_switch
            switch.prev_pid, switch.prev_state, switch.next_pid = before, state, after
            switch.prev_comm, switch.next_comm = "a", "b"
    data: bytes = trace.SerializeToString()
    if compressed:
        around = pb.Trace()
        around.packet.add().compressed_packets = zlib.compress(data)
        data = around.SerializeToString()
    return data


def _add_compact(columns: Any, life: Timeline) -> None:
    columns.intern_table.append("surfaceflinger")
    columns.intern_table.append("inference")
    last_us = 0
    # The first switch says only what came onto the core: that of the first pair's thread.
    rows = [(0, 0, 0, life.off_core[0][0])] if life.off_core else []
    for time_us, before, state, after in [*rows, *switches(life)]:
        del before
        columns.switch_timestamp.append((time_us - last_us) * 1000)
        columns.switch_prev_state.append(state)
        columns.switch_next_pid.append(after)
        columns.switch_next_prio.append(120)
        columns.switch_next_comm_index.append(0 if after == OTHER else 1)
        last_us = time_us


def perfetto_track_events(life: Timeline) -> bytes:
    """What an application writes through Perfetto's library: names sent once, times as differences in µs."""
    trace = pb.Trace()
    first = trace.packet.add(trusted_packet_sequence_id=3, sequence_flags=1)
    begin_us = life.edges()[0][0]
    first.clock_snapshot.clocks.add(clock_id=6, timestamp=begin_us * 1000)
    first.clock_snapshot.clocks.add(clock_id=64, timestamp=0, is_incremental=True, unit_multiplier_ns=1000)
    defaults = trace.packet.add(trusted_packet_sequence_id=3)
    defaults.trace_packet_defaults.timestamp_clock_id = 64
    defaults.trace_packet_defaults.track_event_defaults.track_uuid = 1000 + MAIN
    process = trace.packet.add(trusted_packet_sequence_id=3).track_descriptor
    process.uuid = 1
    process.process.pid, process.process.process_name = PID, PROCESS
    for tid, thread in life.names.items():
        track = trace.packet.add(trusted_packet_sequence_id=3).track_descriptor
        track.uuid, track.parent_uuid = 1000 + tid, 1
        track.thread.pid, track.thread.tid, track.thread.thread_name = PID, tid, thread
    known: dict[str, int] = {}
    last_us = begin_us
    for time_us, tid, name in life.edges():
        packet = trace.packet.add(trusted_packet_sequence_id=3, timestamp=time_us - last_us)
        last_us = time_us
        packet.track_event.type = pb.TrackEvent.TYPE_SLICE_END if name is None else pb.TrackEvent.TYPE_SLICE_BEGIN
        if tid != MAIN:
            packet.track_event.track_uuid = 1000 + tid
        if name is not None:
            if name not in known:
                known[name] = len(known) + 1
                packet.interned_data.event_names.add(iid=known[name], name=name)
            packet.track_event.name_iid = known[name]
    return bytes(trace.SerializeToString())


def chrome(life: Timeline) -> str:
    """Chrome's events, begin and end apart."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": PID, "name": "process_name", "args": {"name": PROCESS}},
        *(
            {"ph": "M", "pid": PID, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in life.names.items()
        ),
    ]
    for time_us, tid, name in life.edges():
        event = {"pid": PID, "tid": tid, "ts": time_us, "ph": "E" if name is None else "B"}
        events.append(event if name is None else {**event, "name": name, "cat": "app"})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


class Export:
    """An export of Instruments: a value stands once, and is referred to afterwards."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def cell(self, tag: str, shown: str, value: str = "", inside: str = "") -> str:
        """A cell, or a reference to it."""
        key = f"{tag}|{shown}|{value}|{inside}"
        if key in self._known:
            return f'<{tag} ref="{self._known[key]}"/>'
        self._known[key] = len(self._known) + 1
        return f"<{tag} id={quoteattr(str(self._known[key]))} fmt={quoteattr(shown)}>{value}{inside}</{tag}>"

    def thread(self, tid: int, name: str) -> str:
        """A thread with its process."""
        process = self.cell("process", f"Camera ({PID})", inside=self.cell("pid", str(PID), str(PID)))
        shown = f"{'Main Thread' if tid == MAIN else name} {tid:#x} (Camera, pid: {PID})"
        return self.cell("thread", shown, inside=self.cell("tid", f"{tid:#x}", str(tid)) + process)


def _table(schema: str, columns: tuple[str, ...], rows: list[str]) -> str:
    heads = "".join(f"<col><mnemonic>{name}</mnemonic><name>{name}</name></col>" for name in columns)
    body = "\n".join(f"<row>{row}</row>" for row in rows)
    return (
        f'<?xml version="1.0"?>\n<trace-query-result>\n<node xpath="//trace-toc[1]/run[1]/data[1]/table[1]">'
        f'<schema name="{schema}">{heads}</schema>\n{body}</node></trace-query-result>\n'
    )


def instruments_intervals(life: Timeline) -> str:
    """`os-signpost-interval`: TFLite's signposts say what they are in their message."""
    export = Export()
    columns = (
        "start",
        "duration",
        "layout-qualifier",
        "name",
        "category",
        "subsystem",
        "identifier",
        "start-process",
        "end-process",
        "start-thread",
        "end-thread",
        "start-message",
    )
    rows = []
    for number, section in enumerate(life.sections):
        ours = "@" in section.name
        process = export.cell("process", f"Camera ({PID})", inside=export.cell("pid", str(PID), str(PID)))
        thread = export.thread(section.tid, life.names[section.tid])
        length_ns = (section.end_us - section.begin_us) * 1000
        rows.append(
            export.cell("start-time", f"t{section.begin_us}", str(section.begin_us * 1000))
            + export.cell("duration", f"{length_ns} ns", str(length_ns))
            + "<sentinel/>"
            + export.cell("string", *[_signpost_name(section.name)] * 2)
            + export.cell("category", *["Tracing" if ours else "PointsOfInterest"] * 2)
            + export.cell("subsystem", *["org.tensorflow.lite" if ours else "com.example.camera"] * 2)
            + export.cell("os-signpost-identifier", str(number), str(number))
            + process
            + process
            + thread
            + thread
            + (export.cell("os-log-metadata", section.name) if ours else "<sentinel/>")
        )
    return _table("os-signpost-interval", columns, rows)


def instruments_events(life: Timeline) -> str:
    """`os-signpost`: begin and end in rows of their own, paired by identifier."""
    export = Export()
    columns = (
        "time",
        "thread",
        "process",
        "event-type",
        "scope",
        "identifier",
        "name",
        "format-string",
        "backtrace",
        "subsystem",
        "category",
        "message",
    )
    rows: list[tuple[int, int, str]] = []
    for number, section in enumerate(life.sections):
        ours = "@" in section.name
        for time_us, kind in ((section.begin_us, "Begin"), (section.end_us, "End")):
            cells = (
                export.cell("event-time", f"t{time_us}", str(time_us * 1000))
                + export.thread(section.tid, life.names[section.tid])
                + export.cell("process", f"Camera ({PID})", inside=export.cell("pid", str(PID), str(PID)))
                + export.cell("event-type", kind, kind)
                + "<sentinel/>"
                + export.cell("os-signpost-identifier", str(number + 1), str(number + 1))
                + export.cell("signpost-name", *[_signpost_name(section.name)] * 2)
                + "<sentinel/><sentinel/>"
                + export.cell("subsystem", *["org.tensorflow.lite" if ours else "com.example.camera"] * 2)
                + export.cell("category", *["Tracing" if ours else "PointsOfInterest"] * 2)
                + (export.cell("os-log-metadata", section.name) if ours and kind == "Begin" else "<sentinel/>")
            )
            rows.append((time_us, number, cells))
    # Refs point backwards, so the rows stand as they were made.
    return _table("os-signpost", columns, [cells for _, _, cells in rows])


def _signpost_name(name: str) -> str:
    if "@" not in name:
        return name
    return "default" if name.startswith(("Invoke", "Allocate", "Modify")) else "operator invoke"

"""Record the traces in tests/data/platform_traces again: python scripts/record_platform_traces.py MODEL.

Needs py-spy (in the development group), Linux's perf, root and a mounted tracefs. Names of folders on this machine are
taken out of what they write, as test data has no use for them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "platform_traces"
PROGRAM: Final = FOLDER / "recorded_app.py"
_INSTANCE: Final = Path("/sys/kernel/tracing/instances/hasten")
_SECONDS: Final = "1.5"
_MOST_EVENTS: Final = 210
_PLACES: Final = (
    (re.compile(r"[^\s(\"]*/site-packages/"), "/usr/lib/python3/dist-packages/"),
    (re.compile(r"[^\s(\"]*/(lib/)?(?=libpython3)"), "/usr/lib/"),
    (re.compile(r"[^\s(\"]*/lib/python3\.\d+/"), "/usr/lib/python3.11/"),
    (re.compile(r"[^\s(\"]*/(?=recorded_app\.py)"), "/home/user/app/"),
    (re.compile(r"[^\s(\"]*/(?=digits\.tflite)"), "/home/user/app/"),
)


def main(model: str) -> None:
    """Record with each tool; hasten's own trace is of its embedded model, which keeps it small."""
    program = [sys.executable, str(PROGRAM), model, _SECONDS]
    spy = [str(Path(sys.executable).with_name("py-spy")), "record", "--rate"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run([*spy, "200", "--format", "speedscope", "-o", str(folder / "spy.json"), "--", *program])
        _keep(folder / "spy.json", "pyspy.speedscope.json")
        _run([*spy, "80", "--threads", "--format", "raw", "-o", str(folder / "spy.txt"), "--", *program])
        _keep(folder / "spy.txt", "pyspy.folded.txt")
        data = str(folder / "perf.data")
        _run(["perf", "record", "-F", "299", "-e", "cpu-clock", "--call-graph", "fp", "-o", data, "--", *program])
        fields = "comm,pid,tid,time,period,event,ip,sym,dso"
        text = subprocess.run(["perf", "script", "-i", data, "-F", fields], check=True, capture_output=True).stdout
        (folder / "perf.txt").write_bytes(text)
        _keep(folder / "perf.txt", "perf.script.txt")
        _run([sys.executable, "-m", "hasten", "trace", "demo", "-o", str(folder / "trace.json"), "--seconds", "0.5"])
        trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
        trace["traceEvents"] = trace["traceEvents"][:_MOST_EVENTS]
        (folder / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
        _keep(folder / "trace.json", "hasten.trace.json")
    _record_kernel(model)


def _record_kernel(model: str) -> None:
    """The kernel's own text, from an instance of its tracer that is ours alone; needs root and tracefs."""
    _INSTANCE.mkdir()
    try:
        marker = str(_INSTANCE / "trace_marker")
        program = subprocess.Popen([sys.executable, str(FOLDER / "recorded_marks.py"), model, "25", marker])
        pid = program.pid
        conditions = {"sched_switch": f"prev_pid=={pid}||next_pid=={pid}", "sched_waking": f"pid=={pid}"}
        for event, condition in conditions.items():
            (_INSTANCE / "events" / "sched" / event / "filter").write_text(condition)
            (_INSTANCE / "events" / "sched" / event / "enable").write_text("1")
        program.wait()
        (_INSTANCE / "tracing_on").write_text("0")
        text = (_INSTANCE / "trace").read_text()
    finally:
        for event in ("sched_switch", "sched_waking"):
            (_INSTANCE / "events" / "sched" / event / "enable").write_text("0")
        _INSTANCE.rmdir()
    text = re.sub(rf"(?m)^ *\S+-(?!{pid}\b)(\d+) ", r"           other-\1 ", text)
    text = re.sub(rf"(prev|next)_comm=.{{1,16}}? (prev|next)_pid=(?!{pid}\b)", r"\1_comm=other \2_pid=", text)
    (FOLDER / "kernel.ftrace.txt").write_text(text, encoding="utf-8")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


def _keep(recorded: Path, name: str) -> None:
    text = recorded.read_text(encoding="utf-8")
    for pattern, instead in _PLACES:
        text = pattern.sub(instead, text)
    (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])

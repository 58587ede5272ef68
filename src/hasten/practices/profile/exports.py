"""Profiles as files for other programs: CSV, node data for Model Explorer, a timeline for Perfetto and Chrome."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.doubts import DOUBTS
from hasten.core.printable import cell_text
from hasten.core.units import count
from hasten.show.model_explorer import NodeValue, node_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hasten.core.block import ProfiledRun
    from hasten.core.profile import OperatorTime, Profile
    from hasten.measure.profiling import RawProfile
    from hasten.targets.client import LoadReport

MOST_RUNS: Final = 50
_PROCESS: Final = 1
_ENGINE, _START = 1, 2
_COLUMNS: Final = (
    "index",
    "op",
    "kernel",
    "location",
    "shapes",
    "ms",
    "share",
    "macs",
    "flops",
    "bytes",
    "gflops",
    "bound",
    "headroom_ms",
    "mapped",
    "partition",
    "fused",
)


@dataclass(frozen=True, slots=True)
class ProfileTimeline:
    """Profiled runs, and the operators behind their events."""

    profile: Profile
    raw: RawProfile

    @property
    def runs(self) -> int:
        """How many runs the timeline shows."""
        return min(len(self.raw.runs), MOST_RUNS)

    def trace_json(self) -> str:
        """The start-up and the first profiled runs, with every operator where and when it ran.

        The format is Chrome's, which Perfetto and chrome://tracing open.
        """
        profile, raw = self.profile, self.raw
        owners = {position: operator for operator in profile.operators for position in operator.events}
        events = [*_names(profile), *_start_events(raw.load)]
        origin = _begin_us(raw.runs[0])
        for number, run in enumerate(raw.runs[:MOST_RUNS]):
            events.extend(_run_events(number, run, owners, origin))
        other: dict[str, Any] = {
            "model": profile.model.path,
            "sha256": profile.model.sha256,
            "plan": profile.plan.describe(),
            "doubts": DOUBTS.sentences(profile.doubts),
        }
        return json.dumps({"displayTimeUnit": "ms", "traceEvents": events, "otherData": other})


def profile_csv(profile: Profile) -> str:
    """All operators in execution order, a row each. An unknown value is an empty field.

    Names are one line, and none is a formula to a spreadsheet: a quotation mark stands before one that would be.
    """
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for operator in profile.operators:
        joined = {"kernel": operator.kernel, "fused": "; ".join(operator.fused)}
        row = {**to_data(operator), **joined}
        writer.writerow({key: cell_text(value) if isinstance(value, str) else value for key, value in row.items()})
    return stream.getvalue()


def profile_node_data(profile: Profile) -> str:
    """Milliseconds of each operator as node data for Google's Model Explorer.

    Operators without a time of their own (fused ones) are left uncolored.
    """
    operators = [operator for operator in profile.operators if operator.index >= 0]
    values = [NodeValue(operator.index, operator.location, operator.ms) for operator in operators]
    return node_data(f"hasten: ms on {profile.plan.describe()}", values)


FORMS: Final[dict[str, Callable[[Profile], str]]] = {"csv": profile_csv, "model-explorer": profile_node_data}
"""What a profile can be exported as, beside a timeline."""


def _names(profile: Profile) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": f"hasten: {profile.model.path}"}}
    yield {"ph": "M", "pid": _PROCESS, "tid": _ENGINE, "name": "thread_name", "args": {"name": "engine"}}
    yield {"ph": "M", "pid": _PROCESS, "tid": _START, "name": "thread_name", "args": {"name": "start-up (own clock)"}}


def _start_events(load: LoadReport) -> Iterator[dict[str, Any]]:
    cursor = 0.0
    steps = {name.removesuffix("_ms"): ms for name, ms in load.load_times.items()}
    for name, ms in {**steps, "first run": load.first_run_ms}.items():
        yield _event(name, "start-up", cursor, ms * 1e3, _START, {})
        cursor += ms * 1e3


def _run_events(
    number: int, run: ProfiledRun, owners: dict[int, OperatorTime], origin: int
) -> Iterator[dict[str, Any]]:
    """One run. Kernels inside a delegate come without a start, so they are laid end to end after what came before.

    Bodies of loops and branches are subgraphs with an Invoke of their own; they lie inside their operator's event.
    """
    begin = float(_begin_us(run) - origin)
    cursors: dict[int, float] = {}
    for position, event in enumerate(run.events):
        start = float(event.start_us - origin) if event.start_us else cursors.get(event.subgraph, begin)
        if event.kind == "invoke":
            name = f"subgraph {event.subgraph}" if cursors else f"Invoke {number}"
            cursors[event.subgraph] = start
            yield _event(name, "run", start, event.elapsed_us, _ENGINE, {"run": number})
            continue
        operator = owners.get(position)
        name = operator.op if operator else event.tag
        yield _event(name, event.kind, start, event.elapsed_us, _ENGINE, _arguments(operator, event.tag))
        cursors[event.subgraph] = start + event.elapsed_us


def _begin_us(run: ProfiledRun) -> int:
    starts = [event.start_us for event in run.events if event.kind == "invoke"]
    return starts[0] if starts else min((event.start_us for event in run.events if event.start_us), default=0)


def _arguments(operator: OperatorTime | None, tag: str) -> dict[str, Any]:
    if operator is None:
        return {"tag": tag}
    return {
        "node": operator.index,
        "kernel": tag,
        "location": operator.location,
        "shapes": operator.shapes,
        "MACs": count(operator.macs),
        "mapped": operator.mapped,
        "fused": list(operator.fused),
    }


def _event(
    name: str, category: str, start: float, duration: float, thread: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start,
        "dur": duration,
        "pid": _PROCESS,
        "tid": thread,
        "args": arguments,
    }

"""The activity of a thread, from the sections of a trace: split, calls of LiteRT, operators, the application's code."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.platform_trace import RUNNABLE, WAITING
from hasten.practices.app.recorded.names import NOTHING, PART_OF_KIND, Meaning, section_meaning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from hasten.core.platform_trace import PlatformTrace, Slice, ThreadTrace

OperatorKey = tuple[str, int, int, bool]
"""Operator, node, subgraph, delegated."""
CodeKey = tuple[str, str, str, int]
"""Part, name, file, line."""
UNMARKED = "(no section)"


@dataclass(frozen=True, slots=True)
class Call:
    """A call into TFLite, or several of a kind one right after the other where a sampler saw them."""

    kind: str
    begin_ns: int
    end_ns: int
    name: str
    file: str = ""
    line: int = 0

    @property
    def ms(self) -> float:
        """How long it took."""
        return (self.end_ns - self.begin_ns) / 1e6


@dataclass
class ThreadActivity:
    """What was found on one thread; times in nanoseconds."""

    thread: ThreadTrace
    sampled: bool = False
    wall_ns: float = 0.0
    split: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: list[Call] = field(default_factory=list)
    operators: dict[OperatorKey, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    """[how often, nanoseconds]"""
    code: dict[CodeKey, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    """The application's own: [how often, nanoseconds]"""
    nameless_ns: float = 0.0
    """TFLite's time of which no symbol tells the kernel."""

    def loadings(self) -> list[list[Call]]:
        """Calls that load a model, those together that no run comes between."""
        found: list[list[Call]] = []
        goes_on = False
        for call in self.calls:
            if call.kind in ("load", "delegate"):
                found = found if goes_on else [*found, []]
                found[-1].append(call)
                goes_on = True
            elif call.kind == "invoke":
                goes_on = False
        return found

    def of_kind(self, *kinds: str) -> list[Call]:
        """Calls of these kinds."""
        return [call for call in self.calls if call.kind in kinds]

    def scheduled(self) -> NDArray[np.int64]:
        """Nanoseconds running, runnable and waiting inside each run; nothing where the scheduler was not recorded."""
        runs = self.of_kind("invoke") if len(self.thread.states) else []
        return self.thread.states.within([run.begin_ns for run in runs], [run.end_ns for run in runs])

    @property
    def tflite_ns(self) -> float:
        """All of TFLite's time."""
        return sum(self.split[part] for part in ("load", "copy_in", "inference", "copy_out"))


def how_often(loading: list[Call]) -> int:
    """How many models were loaded one after the other: each leaves a call of each name once."""
    return max(Counter(call.name for call in loading).values())


@dataclass(slots=True)
class _Node:
    meaning: Meaning
    parent: _Node | None
    begin_ns: int
    end_ns: int
    self_ns: int
    name: str
    args: Mapping[str, Any]
    part: str = ""
    owner: str = ""
    """The outermost kind of TFLite's that it lies in, or is."""
    first_invoke_ns: int = -1
    last_invoke_ns: int = -1


def activity_of_sections(trace: PlatformTrace, thread: ThreadTrace) -> ThreadActivity:
    """A thread with sections."""
    activity = ThreadActivity(thread)
    roots: list[tuple[int, int]] = []
    for tree in _trees(trace, thread):
        roots.append((tree[0].begin_ns, tree[0].end_ns))
        for node in tree:
            _place(node)
            _add(activity, node)
    _add_gaps(activity, roots)
    return activity


def _add(activity: ThreadActivity, node: _Node) -> None:
    activity.split[node.part] += node.self_ns
    _add_call(activity, node)
    meaning = node.meaning
    if meaning.kind == "operator":
        entry = activity.operators[(meaning.op, meaning.node, meaning.subgraph, meaning.delegate)]
    elif not node.owner:
        entry = activity.code[(node.part, node.name, str(node.args.get("file", "")), _line(node.args))]
    else:
        return
    entry[0], entry[1] = entry[0] + 1, entry[1] + node.self_ns


def _trees(trace: PlatformTrace, thread: ThreadTrace) -> Iterator[list[_Node]]:
    """Sections that lie in no other, each with all that lie in it, outer ones first."""
    found: list[_Node] = []
    opened: list[_Node] = []
    for piece in trace.slices(thread):
        while opened and opened[-1].end_ns <= piece.begin_ns:
            opened.pop()
        parent = opened[-1] if opened else None
        if parent is None and found:
            yield found
            found = []
        # What seems to outlast what it lies in was cut or is damaged: no time is counted twice.
        end_ns = min(piece.end_ns, parent.end_ns) if parent else piece.end_ns
        node = _Node(_meaning(piece), parent, piece.begin_ns, end_ns, end_ns - piece.begin_ns, piece.name, piece.args)
        if parent:
            parent.self_ns -= end_ns - piece.begin_ns
        node.owner = parent.owner if parent and parent.owner else node.meaning.kind if node.meaning.is_tflite else ""
        if node.meaning.kind == "invoke":
            _tell_parents(node)
        found.append(node)
        opened.append(node)
    if found:
        yield found


def _meaning(piece: Slice) -> Meaning:
    if not piece.args:
        return section_meaning(piece.name)
    return section_meaning(piece.name, str(piece.args.get("cat", "")), _node_of(piece.args))


def _node_of(args: Mapping[str, Any]) -> int | None:
    """The node that `hasten trace` gives an operator beside its kernel."""
    node = args.get("node")
    return node if "kernel" in args and isinstance(node, int) else None


def _tell_parents(invoke: _Node) -> None:
    above = invoke.parent
    while above:
        above.first_invoke_ns = invoke.begin_ns if above.first_invoke_ns < 0 else above.first_invoke_ns
        above.last_invoke_ns = max(above.last_invoke_ns, invoke.end_ns)
        above = above.parent


def _place(node: _Node) -> None:
    """To which part a section counts: TFLite's own by what it is, others by their words, then by where they stand."""
    kind, parent = node.meaning.kind, node.parent
    if node.owner:
        inner = kind if kind in ("copy_in", "copy_out") else node.owner
        node.part = PART_OF_KIND[inner]
    elif kind:
        node.part = PART_OF_KIND[kind]
    elif parent and parent.part in ("pre", "post"):
        node.part = parent.part
    elif parent and parent.first_invoke_ns >= 0 and node.first_invoke_ns < 0:
        before, after = node.end_ns <= parent.first_invoke_ns, node.begin_ns >= parent.last_invoke_ns
        node.part = "pre" if before else "post" if after else "other"
    else:
        node.part = "other"
    if node.first_invoke_ns >= 0 and not node.owner:
        node.part = "other"  # a frame around everything, whatever its name


def _add_call(activity: ThreadActivity, node: _Node) -> None:
    meaning, parent = node.meaning, node.parent
    inside = parent.owner if parent else ""
    outermost = not inside or (meaning.kind in ("copy_in", "copy_out", "buffer") and inside == "invoke")
    if meaning.is_tflite and meaning.kind != "operator" and outermost:
        place = str(node.args.get("file", "")), _line(node.args)
        activity.calls.append(Call(meaning.kind, node.begin_ns, node.end_ns, node.name, *place))


def _line(args: Mapping[str, Any]) -> int:
    line = args.get("line", 0)
    return line if isinstance(line, int) else 0


def _add_gaps(activity: ThreadActivity, roots: list[tuple[int, int]]) -> None:
    """Time between sections: waiting where the scheduler says so, and the rest of the program where it does not."""
    if not roots:
        return
    begins, ends = np.array(roots, np.int64).T
    last = np.maximum.accumulate(ends)
    activity.wall_ns = int(last[-1] - begins[0])
    busy_ns = int((ends - begins).sum())
    before, after = last[:-1], begins[1:]
    gaps = activity.thread.states.within(before[after > before], after[after > before])
    waiting_ns = int(gaps[:, RUNNABLE].sum() + gaps[:, WAITING].sum())
    unmarked_ns = max(0.0, activity.wall_ns - busy_ns - waiting_ns)
    activity.split["waiting"] += waiting_ns
    activity.split["other"] += unmarked_ns
    if unmarked_ns:
        activity.code[("other", UNMARKED, "", 0)] = [0.0, unmarked_ns]


def has_tflite(trace: PlatformTrace, thread: ThreadTrace, known: dict[int, bool]) -> bool:
    """Whether a thread has a section of TFLite's; `known` remembers names from thread to thread."""
    for name in np.unique(thread.slices.name).tolist():
        if name not in known:
            known[name] = section_meaning(trace.names[name]).is_tflite
        if known[name]:
            return True
    return any(
        section_meaning("", str(args.get("cat", "")), _node_of(args)) != NOTHING for args in thread.slices.args.values()
    )

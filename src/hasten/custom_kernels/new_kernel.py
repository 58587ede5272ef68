"""A starting point for a kernel: C source for nodes of a model, with its shapes, types, constants and a test filled in.

Chains of elementwise float operators come out complete, as one loop; others have a loop to write.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import DataError, UsageError
from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.core.whole_file import write_whole
from hasten.custom_kernels.build import build_lines, shipped_files
from hasten.custom_kernels.cases import index_limit, values_for
from hasten.custom_kernels.elementwise import loop_for
from hasten.custom_kernels.user import TOLERANCE, group_tensors, groups_named, option_values, packed
from hasten.engine import abi
from hasten.model.edit.cut import cut_out
from hasten.model.edit.model import EditedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from hasten.model.edit.graph import EditedGraph, Operator
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, RunnerClient

_CASES: Final = ("normal", "wide", "nonzero", "index", "not-finite")
_C_TYPES: Final = {
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
# Other files of the folder have these names.
_TAKEN: Final = ("test", "hasten_glue")
_COMPLETE: Final = "It computes what the chain computes, in one loop."
_TO_WRITE: Final = "Its `run` is yours to write; until then it refuses to run."


@dataclass(frozen=True, slots=True)
class _Subject:
    """What the kernel is for."""

    name: str
    model: Path
    replaces: str
    graph: EditedGraph
    operators: Sequence[Operator]
    read: Sequence[int]
    written: Sequence[int]

    @property
    def nodes(self) -> str:
        numbers = sorted(node for operator in self.operators for node in operator.nodes)
        return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}:{numbers[-1]}"

    @property
    def fits(self) -> str:
        """What to replace by it: all nodes that were named, if they have the shapes that it is written for."""
        forms = [_forms(self.graph, group) for group in groups_named(self.graph, self.replaces)]
        return self.replaces if all(form == forms[0] for form in forms) else self.nodes

    @property
    def command(self) -> str:
        words = ("operators", self.model.name, "--kernel-file", f"{self.name}.c", "--for", self.fits)
        return f"hasten {shlex.join(words)}"

    def is_constant(self, index: int) -> bool:
        return index not in self.graph.inputs and self.graph.producer(index) is None


def _forms(graph: EditedGraph, group: Sequence[Operator]) -> list[tuple[str, tuple[int, ...]]]:
    """Types and shapes of what a group of operators reads and writes."""
    read, written = group_tensors(graph, group)
    return [(graph.dtype(index), tuple(graph.shape(index))) for index in (*read, *written)]


def fitting_nodes(model: Path, replaces: str) -> str:
    """What a kernel that `write_kernel` has begun for these nodes can replace, as `--for` takes it."""
    return _subject("kernel", model, replaces).fits


def write_kernel(folder: Path, model: Path, replaces: str, target: Target) -> list[Path]:
    """Write a starting point into a new or empty folder; `replaces` as `user_offers` takes it (the first place of it).

    The target runs the original nodes, for the outputs that the test expects.
    """
    subject = _subject(_identifier(folder.name), model, replaces)
    _refuse_unknown(subject)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(
                f"{folder} exists and is not an empty folder.", "Choose another name. Nothing was changed."
            )
        texts = {**_sources(subject), **shipped_files(), **_test_data(subject, target)}
        (folder / "data").mkdir(parents=True, exist_ok=True)
        for name, content in texts.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise DataError(f"The kernel cannot be written to {folder}: {error.strerror}.") from error
    return [folder / name for name in texts if not name.startswith("data/")]


def _subject(name: str, model: Path, replaces: str) -> _Subject:
    graph = EditedModel.read(model).main
    groups = groups_named(graph, replaces)
    if not groups:
        raise UsageError(f"{model.name} has no nodes {replaces}.", "List its nodes with hasten profile.")
    operators = groups[0]
    numbers = [node for operator in operators for node in operator.nodes]
    if max(numbers) - min(numbers) + 1 != len(numbers):
        raise UsageError(
            f"Other nodes stand between those that {replaces!r} names.",
            f"Name a range without gaps, such as {min(numbers)}:{max(numbers)}.",
        )
    read, written = group_tensors(graph, operators)
    return _Subject(name, model, replaces, graph, operators, read, written)


def _sources(subject: _Subject) -> dict[str, bytes]:
    loop = loop_for(subject.graph, subject.operators, subject.read, subject.written)
    common = {
        "name": subject.name,
        "model": _comment(subject.model.name),
        "nodes": subject.nodes,
        "replaces": _replaced(subject),
        "command": _comment(subject.command),
        "state": _TO_WRITE if loop is None else _COMPLETE,
    }
    lines = build_lines(subject.name, [f"{subject.name}.c", "hasten_glue.c"])
    files = {
        f"{subject.name}.c": ("kernel.c", {**common, **_kernel_parts(subject, loop)}),
        "test.c": ("test.c", _test_parts(subject)),
        "Makefile": ("Makefile", common),
        "README.md": ("README.md", {**common, "builds": "\n".join(f"    # {k}\n    {v}" for k, v in lines.items())}),
    }
    folder = resources.files("hasten.custom_kernels") / "template"
    return {
        file: Template((folder / f"{template}.template").read_text(encoding="utf-8")).substitute(parts).encode()
        for file, (template, parts) in files.items()
    }


def _kernel_parts(subject: _Subject, loop: str | None) -> dict[str, str]:
    graph = subject.graph
    return {
        "inputs": "\n".join(_tensor_line(subject, place, index) for place, index in enumerate(subject.read)),
        "outputs": "\n".join(_tensor_line(subject, place, index) for place, index in enumerate(subject.written)),
        "input_count": str(len(subject.read)),
        "output_count": str(len(subject.written)),
        "attributes": _attributes(subject),
        "shape_tables": _shape_tables(graph, "INPUT", subject.read) + _shape_tables(graph, "OUTPUT", subject.written),
        "run": loop if loop is not None else _open_loop(subject),
    }


def _test_parts(subject: _Subject) -> dict[str, str]:
    attributes = _attribute_bytes(subject)
    return {
        "input_count": str(len(subject.read)),
        "output_count": str(len(subject.written)),
        "samples": str(len(_CASES)),
        "tolerance": repr(TOLERANCE),
        "input_tensors": "".join(_tensor_literal(subject.graph, index) for index in subject.read),
        "output_tensors": "".join(_tensor_literal(subject.graph, index) for index in subject.written),
        "constants": ", ".join(str(int(subject.is_constant(index))) for index in subject.read),
        "attributes": ", ".join(map(str, attributes or b"\0")),
        "attributes_size": str(len(attributes)),
    }


def _test_data(subject: _Subject, target: Target) -> dict[str, bytes]:
    """Inputs and LiteRT's outputs, as raw bytes by their places."""
    found: dict[str, bytes] = {}
    for place, index in enumerate(subject.read):
        values = subject.graph.constant(index)
        if subject.is_constant(index) and values is not None:
            found[f"data/constant_{place}.bin"] = values.tobytes()
    numbers = [node for operator in subject.operators for node in operator.nodes]
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        part = Path(folder) / "part.tflite"
        cut_out(subject.model, min(numbers), max(numbers)).write(part)
        try:
            with target.start(Plan()) as runner:
                return found | _recorded(subject, runner, runner.load(part, Workload()))
        except RunnerFailed as failed:
            raise failed.failure.error(Plan()) from failed


def _recorded(subject: _Subject, runner: RunnerClient, load: LoadReport) -> dict[str, bytes]:
    """What the original nodes answer on each case."""
    places = {subject.graph.name(index): place for place, index in enumerate(subject.read)}
    limit = index_limit({info.name: info.shape for info in load.inputs})
    found: dict[str, bytes] = {}
    for sample, case in enumerate(_CASES):
        given = [
            values_for(case, info.dtype, info.shape, sample + 7919 * at, limit) for at, info in enumerate(load.inputs)
        ]
        outputs = _evaluated(runner, given)
        for at, (info, values) in enumerate(zip(load.inputs, given, strict=True)):
            found[f"data/input_{sample}_{places.get(info.name, at)}.bin"] = values.tobytes()
        for at, frame in enumerate(outputs):
            found[f"data/expected_{sample}_{at}.bin"] = frame
    return found


def _evaluated(runner: RunnerClient, given: Sequence[np.ndarray[Any, Any]]) -> tuple[bytes, ...]:
    """LiteRT's outputs; on plain zeros where it refuses the values (an index out of range, say)."""
    try:
        return tuple(bytes(frame) for frame in runner.evaluate([values.tobytes() for values in given]))
    except RunnerFailed as failed:
        if failed.failure.kind in ("crash", "hang"):
            raise
        for values in given:
            values[...] = 0
        return tuple(bytes(frame) for frame in runner.evaluate([values.tobytes() for values in given]))


def _refuse_unknown(subject: _Subject) -> None:
    graph = subject.graph
    for index in (*subject.read, *subject.written):
        if graph.dtype(index) not in _C_TYPES:
            raise UsageError(
                f"Tensor {graph.name(index)!r} has the type {graph.dtype(index)}, which C has no type for.",
                "Choose other nodes.",
            )
        if not graph.is_fixed(index):
            raise UsageError(
                f"Tensor {graph.name(index)!r} has no fixed shape.", "Give the model's inputs a fixed shape first."
            )


def _open_loop(subject: _Subject) -> str:
    """A `run` that has every pointer, and refuses until its loop is written."""
    lines = []
    for side, indices in (("input", subject.read), ("output", subject.written)):
        for place, index in enumerate(indices):
            kind = _C_TYPES[subject.graph.dtype(index)]
            constness = "const " if side == "input" else ""
            lines.append(f"  {constness}{kind}* restrict {side}{place} = call->{side}s[{place}].data;")
            lines.append(f"  (void){side}{place};")
    lines.append("  /* Write the loop here, and return 0. */")
    lines.append('  return hasten_refuse(call, "its run function is not written yet");')
    return "\n".join(lines) + "\n"


def _attributes(subject: _Subject) -> str:
    """The operator's options as a structure: what call->attributes points to."""
    options = option_values(subject.operators[0]) if len(subject.operators) == 1 else {}
    if not options:
        return ""
    fields = "".join(
        f"  {'float' if isinstance(value, float) else 'int32_t'} {name}; /* {value} in the model */\n"
        for name, value in options.items()
    )
    head = "\n/* What call->attributes points to: the options of the original operator. */\n"
    return f"{head}typedef struct {{\n{fields}}} Attributes;\n"


def _attribute_bytes(subject: _Subject) -> bytes:
    return packed(option_values(subject.operators[0])) if len(subject.operators) == 1 else b""


def _tensor_line(subject: _Subject, place: int, index: int) -> str:
    graph = subject.graph
    shape = "x".join(map(str, graph.shape(index))) or "scalar"
    constant = ", constant" if subject.is_constant(index) else ""
    return f"     {place}: {graph.dtype(index)} {shape}{constant} ({_comment(graph.name(index))})"


def _shape_tables(graph: EditedGraph, side: str, indices: Sequence[int]) -> str:
    ranks = ", ".join(str(len(graph.shape(index))) for index in indices)
    shapes = ", ".join("{" + (", ".join(map(str, graph.shape(index))) or "0") + "}" for index in indices)
    count = len(indices)
    return (
        f"static const int32_t {side}_RANKS[{count}] = {{{ranks}}};\n"
        f"static const int32_t {side}_SHAPES[{count}][HASTEN_MAX_RANK] = {{{shapes}}};\n"
    )


def _tensor_literal(graph: EditedGraph, index: int) -> str:
    shape = graph.shape(index)
    sizes = ", ".join(map(str, shape)) or "0"
    return f"    {{{abi.ELEMENT_CODES[graph.dtype(index)]}, {len(shape)}, {{{sizes}}}, NULL}},\n"


def _replaced(subject: _Subject) -> str:
    return ", ".join(subject.graph.op(operator) for operator in subject.operators)


def _comment(text: str) -> str:
    """A tensor's name without what could end a comment."""
    return "".join(letter if letter.isprintable() and letter not in "*\\" else "_" for letter in text)


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    is_usable = bool(name) and not name[0].isdigit() and name not in _TAKEN
    return name if is_usable else f"kernel_{name}".rstrip("_")

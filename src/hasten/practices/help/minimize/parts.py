"""Parts of a model as files that can be run, with the values that their inputs have inside of the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hasten.core.errors import ModelError, UsageError
from hasten.core.failure import RunnerFailed
from hasten.core.measurement import Model
from hasten.core.plan import Workload
from hasten.explanation.recorded_inputs import stored_values
from hasten.measure.seeded_inputs import seeded_inputs
from hasten.model.edit.cut import cut_nodes, inputs_of_cut
from hasten.model.reader import read_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hasten.explanation.inner_tensors import Subject
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.practices.help.minimize.reduction import Nodes
    from hasten.targets.base import Target
    from hasten.targets.client import RunnerClient, TensorInfo


@dataclass(frozen=True, slots=True)
class Part:
    """Some nodes as a model of their own, on the plan in question and on the one that does it right."""

    nodes: Nodes
    candidate: Candidate
    other: Candidate


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts the same nodes out of a model and of the one that it is held against."""

    candidate: Candidate
    other: Candidate
    total: int
    folder: Path

    def part(self, nodes: Nodes) -> Part | None:
        """The part with these nodes; None where they make no model. All of them are the whole file, unchanged."""
        if len(nodes) == self.total:
            return Part(nodes, self.candidate, self.other)
        try:
            first = self._cut(self.candidate, nodes, "part")
            same = self.other.path == self.candidate.path
            second = replace(first, plan=self.other.plan) if same else self._cut(self.other, nodes, "other")
        except (ModelError, UsageError):
            return None
        return Part(nodes, first, second)

    def _cut(self, whole: Candidate, nodes: Nodes, name: str) -> Candidate:
        path = self.folder / f"{name}.tflite"
        cut_nodes(whole.path, nodes).write(path)
        graph = read_graph(path)
        told = Model(str(path), graph.size_bytes, graph.sha256)
        workload = Workload(seed=whole.workload.seed)
        return replace(whole, label=name, path=path, model=told, workload=workload, doubts=())


@dataclass(frozen=True, slots=True)
class InnerValues:
    """What the inputs of a part hold while the whole model runs on the plan that does it right."""

    target: Target
    whole: Subject

    def for_part(self, part: Part) -> dict[str, bytes]:
        """Bytes by the name of the part's input; empty where they cannot be read, and noise must do."""
        if len(part.nodes) == len(self.whole.graph.main.nodes):
            return {}
        tensors = inputs_of_cut(self.whole.candidate.path, part.nodes)
        try:
            (found,) = stored_values(self.target, self.whole, tensors)
        except (RunnerFailed, ModelError, UsageError):
            return {}
        names = _input_names(read_graph(part.candidate.path))
        if len(names) != len(tensors):
            return {}
        return {name: found[index][0] for name, index in zip(names, tensors, strict=True) if index in found}


def _input_names(graph: Graph) -> list[str]:
    """The names of a part's inputs in the order of the file."""
    signature = graph.signature()
    named = {} if signature is None else {index: name for name, index in signature.inputs.items()}
    return [named.get(index, "") for index in graph.main.inputs]


def fed(runner: RunnerClient, tensors: Sequence[TensorInfo], values: Mapping[str, bytes]) -> list[bytes]:
    """Run once on these values, on seeded ones where there are none, and return the outputs' bytes."""
    noise = seeded_inputs(tensors)
    inputs = [
        known if (known := values.get(tensor.name)) is not None and len(known) == tensor.bytes else made
        for tensor, made in zip(tensors, noise, strict=True)
    ]
    return [bytes(output) for output in runner.evaluate(inputs)]

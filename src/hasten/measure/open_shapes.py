"""Inputs whose shape the file leaves open: what the runs use, and usual sizes to try where that does not run.

An engine closes an open dimension with 1. That is right for a batch. For an image or a sound it gives a model that
cannot run, or a latency that no application will see.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from hasten.core import doubts
from hasten.core.failure import SHAPES, Failure, RunnerFailed
from hasten.core.remark import Remark, remark
from hasten.engine.shapes import Shape, closed_shape, shape_text
from hasten.measure.schedule import now
from hasten.model.reader import read_graph
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.plan import Workload
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph, Tensor
    from hasten.targets.base import Target

# Sizes that published models take, the most frequent first.
_IMAGE_SIDES: Final = (224, 256, 192, 128, 320, 299, 300, 512, 640, 96, 64, 32)
_SOUND_LENGTHS: Final = (16000, 15600, 48000, 44100, 32000, 1024, 512, 128)
_TEXT_LENGTHS: Final = (128, 64, 256, 384, 512, 77, 32)
_SEQUENCE_LENGTHS: Final = (128, 100, 96, 64, 256, 512, 1000, 16000)
_FRAMES: Final = 16
_COLORS: Final = 3
_IMAGE_RANK: Final = 4
_MOST_SECONDS: Final = 10.0
"""For trying sizes, after a command has failed already."""


@dataclass(frozen=True, slots=True)
class OpenInput:
    """An input with an open dimension beyond the batch. `shape` is that of the file, with -1 for what is open."""

    name: str
    shape: Shape
    used: Shape
    dtype: str

    @property
    def usual(self) -> tuple[Shape, ...]:
        """Shapes that models with such an input take."""
        return tuple(self._filled(size) for size in self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        if len(self.shape) >= _IMAGE_RANK:
            return _IMAGE_SIDES
        if "float" not in self.dtype:
            return _TEXT_LENGTHS
        return _SEQUENCE_LENGTHS if len(self.shape) == _IMAGE_RANK - 1 else _SOUND_LENGTHS

    def _filled(self, size: int) -> Shape:
        rank = len(self.shape)
        sizes = [size] * rank
        if rank > 1:
            sizes[0] = 1
        if rank >= _IMAGE_RANK and self.shape[1] != _COLORS:
            sizes[-1] = _COLORS
        if rank > _IMAGE_RANK:
            sizes[1] = _FRAMES
        return tuple(usual if own < 0 else own for own, usual in zip(self.shape, sizes, strict=True))


def open_inputs(graph: Graph, workload: Workload) -> tuple[OpenInput, ...]:
    """The inputs that the file leaves open beyond the batch, whether or not the workload closes them."""
    return tuple(
        OpenInput(name, shape, workload.shape_of(name) or closed_shape(tensor.shape), tensor.dtype)
        for name, tensor in _named_inputs(graph, workload.signature)
        if -1 in (shape := _shape_in_file(tensor))[1 if len(shape) > 1 else 0 :]
    )


def inputs_without_size(graph: Graph) -> list[tuple[str, str]]:
    """Inputs with -1 in the shape itself, which LiteRT takes for a size, and their shapes as people write them."""
    return [(tensor.name, shape_text(tensor.shape)) for tensor in graph.inputs if -1 in tensor.shape]


def open_shape_doubts(graph: Graph, workload: Workload) -> tuple[Remark, ...]:
    """A doubt for each input of which neither the file nor the workload tells the size."""
    return tuple(
        remark(
            doubts.OPEN_SHAPE,
            input=entry.name,
            in_file=shape_text(entry.shape),
            used=shape_text(entry.used),
            usual=shape_text(entry.usual[0]),
        )
        for entry in open_inputs(graph, workload)
        if workload.shape_of(entry.name) is None
    )


def with_shape_hint(failure: Failure, candidate: Candidate, target: Target) -> Failure:
    """The failure with the shapes to give, if the model leaves some open and that may be why it does not run."""
    if failure.code != SHAPES and (failure.code or failure.kind not in {"engine", "crash"}):
        return failure
    found = open_inputs(read_graph(candidate.path), candidate.workload)
    if not found:
        return failure
    works, tried = _first_that_runs(found, candidate, target)
    given = any(candidate.workload.shape_of(entry.name) for entry in found)
    if works is None:
        options = _options([(entry.name, entry.shape) for entry in found])
        hint = f"Put the sizes of your application in place of each ? in {options}; {', '.join(tried)} did not run."
        return replace(failure, hint=hint)
    hint = f"Set the shape: {_options(works)}. The model was tested and runs with it."
    if given:
        return replace(failure, hint=hint)
    used = " and ".join(
        f"{shape_text(entry.used)} for input {entry.name!r}, whose shape in the file is {shape_text(entry.shape)}"
        for entry in found
    )
    return replace(failure, kind="model", message=f"The model does not run with a shape of {used}.", hint=hint, log=())


def _first_that_runs(
    found: Sequence[OpenInput], candidate: Candidate, target: Target
) -> tuple[list[tuple[str, Shape]] | None, list[str]]:
    """Usual shapes with which the model runs, or None; and those that were tried."""
    others = tuple(pair for pair in candidate.workload.shapes if pair[0] not in {entry.name for entry in found})
    end, tried = now() + _MOST_SECONDS, []
    for place in range(max(len(entry.usual) for entry in found)):
        if now() > end:
            break
        shapes = [(entry.name, entry.usual[min(place, len(entry.usual) - 1)]) for entry in found]
        workload = replace(candidate.workload, shapes=(*others, *shapes))
        try:
            with_connection(partial(_load, target, candidate, workload))
        except RunnerFailed:
            tried.append(" and ".join(shape_text(shape) for _, shape in shapes))
        else:
            return shapes, tried
    return None, tried


def _load(target: Target, candidate: Candidate, workload: Workload) -> None:
    with target.start(candidate.plan) as runner:
        runner.load(candidate.path, workload)


def _named_inputs(graph: Graph, key: str) -> list[tuple[str, Tensor]]:
    """The inputs by the names that --shape takes. None of a signature that is not there: the runner refuses it."""
    signatures = [entry for entry in graph.signatures if not key or entry.key == key]
    if not signatures:
        return [] if key else [(tensor.name, tensor) for tensor in graph.inputs]
    tensors = graph.subgraphs[signatures[0].subgraph].tensors
    return [(name, tensors[index]) for name, index in signatures[0].inputs.items()]


def _shape_in_file(tensor: Tensor) -> Shape:
    same_rank = len(tensor.shape_signature) == len(tensor.shape)
    return tensor.shape_signature if same_rank else tensor.shape


def _options(shapes: Sequence[tuple[str, Shape]]) -> str:
    """Options to paste into a shell: the names come from the file, which may be a stranger's."""
    return " ".join(f"--shape {shlex.quote(name)}={shape_text(shape)}" for name, shape in shapes)

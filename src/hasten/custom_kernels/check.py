"""Checks a kernel against the operators that it replaces: on many inputs and shapes, and on the device that runs it.

The operators are cut out of the model as they are; beside them runs the same part with the kernel in their place.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.plan import Plan, Workload
from hasten.core.remark import Remark, remark
from hasten.core.whole_file import whole_file
from hasten.custom_kernels.cases import (
    EXACT_CASES,
    TOLERANT_CASES,
    Judgement,
    element_text,
    index_limit,
    place_text,
    values_for,
)
from hasten.custom_kernels.rewrite import put_kernel
from hasten.custom_kernels.words import REFUSES, SHAPE, WRONG
from hasten.model.edit.cut import cut_out
from hasten.model.edit.model import EditedModel
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.custom_kernels.offer import Offer
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport, RunnerClient, TensorInfo

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]
    Shapes = Mapping[str, tuple[int, ...]]
    Loaded = tuple[RunnerClient, LoadReport]

_SEEDS: Final = 2
_COMPARABLE: Final = frozenset(
    {"float16", "float32", "float64", "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Where to check."""

    target: Target
    folder: Path
    """For the input that shows a wrong kernel; made only for one."""
    plan: Plan = Plan()
    """How the original runs: what it answers is right."""


@dataclass(slots=True)
class KernelCheck:
    """What became of a check."""

    cases: int = 0
    """Inputs on which the outputs were compared; the original refused the others."""
    shapes: int = 0
    """Sets of input shapes among them, that of the file included."""
    refused_shapes: int = 0
    """Other shapes that the original takes and the kernel does not."""
    largest_error: float = 0.0
    """As a share of the largest output."""
    wrong: Remark | None = None

    @property
    def passed(self) -> bool:
        """Whether no input showed a fault, and there was one that could have."""
        return self.wrong is None and self.cases > 0


def check_kernel(model: Path, offer: Offer, library: str, request: CheckRequest) -> KernelCheck | Failure:
    """Compare a kernel (`library` is what a plan names) with the operators that it replaces.

    A Failure where nothing could be compared: the original does not run, or the kernel does not load.
    """
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        try:
            parts = _cut_parts(model, offer, Path(folder))
            return with_connection(lambda: _Check(parts, offer, library, request).run())
        except RunnerFailed as failed:
            return failed.failure


def _cut_parts(model: Path, offer: Offer, folder: Path) -> tuple[Path, Path]:
    """The part of the model that an offer is about, as it is and with the kernel in it."""
    first, last = min(offer.nodes), max(offer.nodes)
    original, changed, whole = (folder / f"{name}.tflite" for name in ("original", "kernel", "whole"))
    cut_out(model, first, last).write(original)
    edited = EditedModel.read(model)
    put_kernel(edited.main, offer)
    edited.write(whole)  # as it is: cleaning would move the nodes
    cut_out(whole, first, last - len(offer.nodes) + 1).write(changed)
    return original, changed


class _Check:
    def __init__(self, parts: tuple[Path, Path], offer: Offer, library: str, request: CheckRequest) -> None:
        self._parts, self._offer, self._request = parts, offer, request
        self._plans = (request.plan, replace(request.plan, kernels=(*request.plan.kernels, library)))
        self._judgement = Judgement(offer.tolerance)
        self._found = KernelCheck()

    def run(self) -> KernelCheck | Failure:
        found = self._found
        for shapes in _other_shapes(self._compare({})):
            if found.wrong is None:
                self._compare(shapes)
        if found.cases == 0 and found.wrong is None:
            message = f"The original operators of {self._offer.kernel} ran on none of the inputs."
            return Failure("evaluate", "model", message, "Give data with --data: they may need real inputs.")
        found.largest_error = self._judgement.largest_error
        return found

    def _compare(self, shapes: Shapes) -> tuple[TensorInfo, ...]:
        """All cases on inputs of these shapes (none: the file's), in one process for each part; the part's inputs."""
        workload = Workload(shapes=tuple(sorted(shapes.items())))
        with ExitStack() as stack:
            original = stack.enter_context(self._request.target.start(self._plans[0]))
            try:
                expected = original.load(self._parts[0], workload)
            except RunnerFailed:
                if shapes:
                    return ()  # the operators have no such shape
                raise
            if unknown := sorted({info.dtype for info in (*expected.inputs, *expected.outputs)} - _COMPARABLE):
                message = f"Tensors of type {unknown[0]} cannot be compared."
                raise RunnerFailed(Failure("evaluate", "model", message))
            changed = stack.enter_context(self._request.target.start(self._plans[1]))
            try:
                load = changed.load(self._parts[1], workload)
            except RunnerFailed:
                if shapes:
                    self._found.refused_shapes += 1
                    return ()
                raise
            self._found.shapes += 1
            self._found.wrong = self._wrong_shape(expected, load)
            for name, inputs in self._inputs(expected, 1 if shapes else _SEEDS):
                if self._found.wrong is None:
                    self._found.wrong = self._wrong_on(name, inputs, (original, expected), (changed, load))
        return expected.inputs

    def _wrong_shape(self, expected: LoadReport, found: LoadReport) -> Remark | None:
        kinds = {info.name: (info.dtype, info.shape) for info in found.outputs}
        for info in expected.outputs:
            if kinds.get(info.name) != (info.dtype, info.shape):
                got = kinds.get(info.name, ("", ()))[1]
                shapes = {"expected": list(info.shape), "got": list(got)}
                return remark(SHAPE, kernel=self._offer.kernel, output=info.name, **shapes)
        return None

    def _inputs(self, load: LoadReport, seeds: int) -> Iterator[tuple[str, Arrays]]:
        limit = index_limit({info.name: info.shape for info in load.inputs})
        for seed in range(seeds):
            for case in EXACT_CASES if self._offer.tolerance == 0 else TOLERANT_CASES:
                values = {
                    info.name: values_for(case, info.dtype, info.shape, seed + 7919 * place, limit)
                    for place, info in enumerate(load.inputs)
                }
                yield f"{case} {seed}", values

    def _wrong_on(self, name: str, inputs: Arrays, original: Loaded, changed: Loaded) -> Remark | None:
        """What the outputs on these inputs show; None where nothing is wrong, or the original refuses them too."""
        try:
            expected = _outputs(*original, inputs)
        except RunnerFailed as failed:
            if failed.failure.kind in ("crash", "hang"):
                raise
            return None
        facts: dict[str, Any] = {"kernel": self._offer.kernel, "case": name}
        try:
            got = _outputs(*changed, inputs)
        except RunnerFailed as failed:
            return remark(REFUSES, **facts, why=failed.failure.message, file=self._save(inputs, expected, {}))
        self._found.cases += 1
        for output, values in expected.items():
            element = self._judgement.first_wrong(values, got[output])
            if element is not None:
                facts["expected"], facts["got"] = (element_text(array, element) for array in (values, got[output]))
                facts["place"] = place_text(values.shape, element)
                return remark(WRONG, **facts, output=output, file=self._save(inputs, expected, got))
        return None

    def _save(self, inputs: Arrays, expected: Arrays, got: Arrays) -> str:
        """The input that shows the fault, with what should come out and what did."""
        self._request.folder.mkdir(parents=True, exist_ok=True)
        path = self._request.folder / "wrong.npz"
        named = {
            f"{side}_{place}": values
            for side, arrays in (("input", inputs), ("expected", expected), ("got", got))
            for place, values in enumerate(arrays.values())
        }
        with whole_file(path) as stream:
            np.savez(stream, **named)  # type: ignore[arg-type]  # a keyword of NumPy's own is not among the names
        return str(path)


def _outputs(runner: RunnerClient, load: LoadReport, inputs: Arrays) -> dict[str, Array]:
    frames = runner.evaluate([np.ascontiguousarray(inputs[info.name]).tobytes() for info in load.inputs])
    return {
        info.name: np.frombuffer(bytes(frame), np.dtype(info.dtype)).reshape(info.shape)
        for info, frame in zip(load.outputs, frames, strict=True)
    }


def _other_shapes(inputs: Sequence[TensorInfo]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Shapes that operators may take as well: more and fewer rows, and every dimension another one."""
    own = {info.name: info.shape for info in inputs if info.shape}
    if not own:
        return
    changes: tuple[Callable[[int, int], int], ...] = (
        lambda axis, size: 2 * size + 1 if axis == 0 else size,
        lambda axis, size: size + 1 if axis == 1 else size,
        lambda axis, size: size + 3,
        lambda axis, size: max(1, size // 2),
    )
    seen = [own]
    for change in changes:
        changed = {name: tuple(change(axis, size) for axis, size in enumerate(shape)) for name, shape in own.items()}
        if changed not in seen:
            seen.append(changed)
            yield changed

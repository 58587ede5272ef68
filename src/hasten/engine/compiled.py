"""A model loaded through LiteRT's compiled-model interface: every accelerator, no copies, a profile on request."""

from __future__ import annotations

import ctypes as c
import functools
import itertools
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.errors import ModelError, UsageError
from hasten.engine import abi, library
from hasten.engine.cache import open_cache, seal_cache
from hasten.engine.delegates import ExternalDelegate
from hasten.engine.kernel_libraries import KernelLibraries
from hasten.engine.library import EngineError
from hasten.engine.options import create_environment, create_options
from hasten.engine.placement import PlacementObserver
from hasten.engine.registry import Registry
from hasten.engine.shapes import check_shapes, closed_shape, refusal_of_shapes
from hasten.engine.tensors import Tensor
from hasten.engine.timing import LoadTimes, time_calls

if TYPE_CHECKING:
    from array import array
    from pathlib import Path

    from hasten.core.placement import Placement
    from hasten.core.plan import Plan, Workload


class CompiledModel:
    """A model ready to run. One a process: that is what a runner is for."""

    api: Final = "CompiledModel"

    def __init__(self, path: Path, plan: Plan, workload: Workload, *, profiling: bool = False) -> None:
        self._library = library.load()
        if plan.cache:
            plan = replace(plan, cache=open_cache(plan.cache, path))
        clock = time.perf_counter
        marks = [clock()]
        self._delegate = ExternalDelegate(plan.delegate) if plan.delegate else None
        self._kernels = KernelLibraries(plan.kernels) if plan.kernels else None
        self._environment = create_environment(self._library, plan)
        self._observer = PlacementObserver()
        self._registry = self._register_accelerators()
        marks.append(clock())
        self._model = self._library.create("LiteRtCreateModelFromFile", self._environment, os.fsencode(path))
        self._signature_index, self._signature = self._find_signature(workload.signature)
        marks.append(clock())
        self.compiled = self._compile(plan, profiling=profiling)
        marks.append(clock())
        self.inputs = self._create_inputs(workload)
        self.outputs = self._create_outputs()
        self._check_kernels()  # what does not fit the shapes comes out here, before a kernel runs
        marks.append(clock())
        self.load_times = LoadTimes(*((b - a) * 1e3 for a, b in itertools.pairwise(marks)))
        if plan.cache:
            seal_cache(plan.cache)
        self._bind_run()
        for position, tensor in enumerate(self.inputs):
            tensor.fill(workload.seed + position)

    def run(self) -> None:
        """One inference."""
        self.time_runs(0.0, 1)

    def run_releasing_lock(self) -> None:
        """One inference, during which Python's other threads go on; costs a microsecond more."""
        status = self._call_releasing_lock()
        self._check_kernels()
        if status:
            raise EngineError("LiteRtRunCompiledModel", status)

    def quantization(self, side: str, position: int) -> tuple[float, int]:
        """Scale and zero point of an "Input" or "Output"; a scale of 0 where stored values are real."""
        handle = self._library.create(f"LiteRtGetSignature{side}TensorByIndex", self._signature, position)
        if self._library.integer("LiteRtGetQuantizationTypeId", handle) != abi.PER_TENSOR:
            return 0.0, 0
        found = abi.PerTensorQuantization()
        self._library.call("LiteRtGetPerTensorQuantization", handle, c.byref(found))
        return found.scale, found.zero_point

    def time_runs(self, seconds: float, most: int) -> array[int]:
        """Nanoseconds of each of many runs."""
        try:
            return time_calls(self._call, seconds, most)
        finally:
            self._check_kernels()

    def settle_outputs(self) -> None:
        """Give outputs whose size only a run can tell (detections, say) buffers of the size that the first run told."""
        layouts = self._output_layouts(len(self.outputs), update=False)
        if all(tensor.shape == layout.shape() for tensor, layout in zip(self.outputs, layouts, strict=True)):
            return
        for tensor in self.outputs:
            tensor.close()
        self.outputs = self._create_outputs()
        self._bind_run()

    def is_fully_accelerated(self) -> bool:
        """Whether the engine says that no operator was left to its built-in kernels."""
        return self._library.flag("LiteRtCompiledModelIsFullyAccelerated", self.compiled)

    def runs_without_cpu(self) -> bool:
        """Whether a GPU, NPU or external delegate took every operator. The engine takes the last one for a CPU's."""
        if self._delegate is not None:
            placement = self.placement()
            return placement is not None and placement.accelerated == placement.total
        return self._library.flag("LiteRtCompiledModelIsNonCpuFullyAccelerated", self.compiled)

    def placement(self) -> Placement | None:
        """Which operators each delegate took, where that can be seen."""
        return self._observer.placement()

    def close(self) -> None:
        """Give everything back to the engine, in the order that it wants."""
        for tensor in (*self.inputs, *self.outputs):
            tensor.close()
        self._library.function("LiteRtDestroyCompiledModel")(self.compiled)
        self._library.function("LiteRtDestroyModel")(self._model)
        self._library.function("LiteRtDestroyEnvironment")(self._environment)

    def _register_accelerators(self) -> Registry:
        """The external delegate comes first: the CPU would take all operators that it can, and leave none to it."""
        registry = Registry(self._library, self._environment, self._observer)
        if self._delegate is not None:
            registry.add_delegate(self._delegate.name, self._delegate.create, self._delegate.destructor)
        registry.add_cpu()
        return registry

    def _compile(self, plan: Plan, *, profiling: bool) -> c.c_void_p:
        options = create_options(self._library, plan, profiling=profiling)
        if self._kernels is not None:
            self._kernels.register(self._library, options, self._model)
        try:
            return self._library.create("LiteRtCreateCompiledModel", self._environment, self._model, options)
        except EngineError as error:
            if self._delegate is not None and self._delegate.was_refused:
                raise self._delegate.refusal() from None
            self._check_kernels()
            if plan.options and error.status == abi.STATUS_INVALID_ARGUMENT:
                given = ", ".join(f"{key} = {value}" for key, value in plan.options)
                raise UsageError(
                    f"LiteRT rejects the options: {given}.", 'Write their values as TOML: 2, true, or "text" in quotes.'
                ) from error
            raise

    def _check_kernels(self) -> None:
        if self._kernels is not None:
            self._kernels.check()

    def _find_signature(self, wanted: str) -> tuple[int, c.c_void_p]:
        keys = []
        for index in range(self._library.number("LiteRtGetNumModelSignatures", self._model)):
            signature = self._library.create("LiteRtGetModelSignature", self._model, index)
            keys.append(self._library.text("LiteRtGetSignatureKey", signature))
            if not wanted or keys[-1] == wanted:
                return index, signature
        if not keys:
            raise ModelError("The model has no signature and no main graph that can be run.")
        raise UsageError(f"The model has no signature {wanted!r}.", f"Choose one of: {', '.join(keys)}.")

    def _create_inputs(self, workload: Workload) -> tuple[Tensor, ...]:
        names = self._tensor_names("Input")
        kinds = [self._tensor_kind("Input", position) for position in range(len(names))]
        check_shapes(workload, dict(zip(names, (kind.layout.shape() for kind in kinds), strict=True)))
        try:
            named = enumerate(zip(names, kinds, strict=True))
            resized = [self._resize(position, kind, workload.shape_of(name)) for position, (name, kind) in named]
            if any(resized):
                # Lays the graph out anew, so a shape that its operators do not take comes out here.
                self._output_layouts(len(self._tensor_names("Output")), update=True)
        except EngineError as error:
            if workload.shapes:
                raise refusal_of_shapes(workload) from error
            raise
        named = enumerate(zip(names, kinds, strict=True))
        return tuple(self._create_tensor("Input", position, name, kind) for position, (name, kind) in named)

    def _create_outputs(self) -> tuple[Tensor, ...]:
        names = self._tensor_names("Output")
        layouts = self._output_layouts(len(names), update=False)
        tensors = []
        for position, name in enumerate(names):
            kind = self._tensor_kind("Output", position)
            kind.layout = layouts[position]
            tensors.append(self._create_tensor("Output", position, name, kind))
        return tuple(tensors)

    def _resize(self, position: int, kind: abi.RankedTensorType, wanted: tuple[int, ...] | None) -> bool:
        """Give an input its shape; whether that was another one than it had."""
        shape = kind.layout.shape()
        chosen = closed_shape(shape) if wanted is None else wanted
        if chosen == shape:
            return False
        dimensions = (c.c_int * len(chosen))(*chosen)
        self._library.call(
            "LiteRtCompiledModelResizeInputTensorNonStrict",
            self.compiled,
            self._signature_index,
            position,
            dimensions,
            len(chosen),
        )
        kind.layout.rank = len(chosen)
        kind.layout.dimensions[: len(chosen)] = list(chosen)
        return True

    def _output_layouts(self, count: int, *, update: bool) -> c.Array[abi.Layout]:
        layouts = (abi.Layout * count)()
        self._library.call(
            "LiteRtGetCompiledModelOutputTensorLayouts", self.compiled, self._signature_index, count, layouts, update
        )
        return layouts

    def _tensor_names(self, side: str) -> list[str]:
        count = self._library.number(f"LiteRtGetNumSignature{side}s", self._signature)
        return [self._library.text(f"LiteRtGetSignature{side}Name", self._signature, i) for i in range(count)]

    def _tensor_kind(self, side: str, position: int) -> abi.RankedTensorType:
        handle = self._library.create(f"LiteRtGetSignature{side}TensorByIndex", self._signature, position)
        kind = abi.RankedTensorType()
        self._library.call("LiteRtGetRankedTensorType", handle, c.byref(kind))
        return kind

    def _create_tensor(self, side: str, position: int, name: str, kind: abi.RankedTensorType) -> Tensor:
        requirements = self._library.create(
            f"LiteRtGetCompiledModel{side}BufferRequirements", self.compiled, self._signature_index, position
        )
        return Tensor(self._library, self._environment, name, kind, requirements)

    def _bind_run(self) -> None:
        """Convert the arguments of a run once: converting them in each call would be booked on the model."""
        self._input_handles = (c.c_void_p * max(len(self.inputs), 1))(*(tensor.handle for tensor in self.inputs))
        self._output_handles = (c.c_void_p * max(len(self.outputs), 1))(*(tensor.handle for tensor in self.outputs))
        arguments = (
            self.compiled,
            c.c_size_t(self._signature_index),
            c.c_size_t(len(self.inputs)),
            c.cast(self._input_handles, c.c_void_p),
            c.c_size_t(len(self.outputs)),
            c.cast(self._output_handles, c.c_void_p),
        )
        run = functools.partial(self._library.thin_function("LiteRtRunCompiledModel"), *arguments)
        # Whoever reads an output waits for it.
        self._call_releasing_lock = functools.partial(self._library.function("LiteRtRunCompiledModel"), *arguments)
        distant = [tensor for tensor in self.outputs if not tensor.is_shared]
        self._call = functools.partial(_run_and_wait, run, distant) if distant else run


def _run_and_wait(run: functools.partial[int], outputs: list[Tensor]) -> int:
    """Run, and wait until the outputs can be read: a GPU's call returns when the work is handed in, not done."""
    status = run()
    if not status:
        for output in outputs:
            output.wait()
    return status

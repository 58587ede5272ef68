"""hasten.Runner: a model in the application's own process, with NumPy views of the memory that the engine works in."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
import weakref
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.folder import is_bundle, read_bundle
from hasten.bundle.trust import code_descriptions
from hasten.core.checks import check_kind, path_text
from hasten.core.cores import cores_text
from hasten.core.errors import AcceleratorError, HastenError, ModelError, UsageError
from hasten.core.plan import Plan, Workload
from hasten.core.units import several
from hasten.deploy.buffers import Buffer, Buffers
from hasten.engine.accelerators import process_environment
from hasten.engine.classic import ClassicModel
from hasten.engine.compiled import CompiledModel
from hasten.engine.library import EngineError
from hasten.engine.loading import load_model
from hasten.engine.model_file import check_model_file, has_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from numpy.typing import NDArray

    from hasten.bundle.record import Bundle

    Array = NDArray[Any]

_LOG: Final = logging.getLogger("hasten")
_FOLDERS: Final = "LD_LIBRARY_PATH"
# What each accelerator's plugin asks for by name, dependencies first.
_LIBRARIES: Final = {"npu": ("libtbb.so.*", "libopenvino.so.*"), "gpu": ("libvulkan.so.1",)}


class Runner:
    """A model, or a bundle of `hasten tune`, ready to run.

    Write into `runner.inputs[name]`, call `runner.run()`, read `runner.outputs[name]`. On the CPU these arrays are the
    engine's own buffers, and a run copies nothing; a GPU or NPU has memory of its own, and each run copies once
    (`zero_copy` tells which). `runner(x)` is simpler: it copies, and returns arrays that later runs do not change.

    Threads: one run at a time; a second call waits. Call `runner(x)` from any thread. Threads that share the buffers
    use them inside `with runner.exclusive():`. Other Python threads continue during a run. After a fork, use the Runner
    in one of the two processes only.

    A bundle that loads a delegate or kernel library is refused unless `trust_bundle` is set: it can run any code.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        plan: Plan | None = None,
        workload: Workload | None = None,
        *,
        trust_bundle: bool = False,
    ) -> None:
        path = Path(path_text("model", model))
        check_kind("plan", plan, (Plan, NoneType), "plan=hasten.Plan(threads=2)")
        check_kind("workload", workload, (Workload, NoneType), 'workload=hasten.Workload(signature="…")')
        # A plan that is given takes the place of the bundle's, which then asks for nothing.
        is_trusted = trust_bundle or plan is not None
        self.bundle: Bundle | None = read_bundle(path, trust_bundle=is_trusted) if is_bundle(path) else None
        if self.bundle is not None:
            for description in () if plan is not None else code_descriptions(self.bundle.plan):
                _LOG.info("Loading the %s.", description)
            path, plan, workload = self.bundle.model_path, plan or self.bundle.plan, workload or self.bundle.workload
        self.plan, self.workload = plan or Plan(), workload or Workload()
        self._lock = threading.RLock()
        self._is_closed = False
        self._model = _load(path, self.plan, self.workload)
        self._finalizer = weakref.finalize(self, self._model.close)
        self._finalizer.atexit = False  # unloading native libraries can crash; the end of the process frees everything
        self.inputs = Buffers(_buffers(self._model, "Input"), "input")
        self.outputs = Buffers(_buffers(self._model, "Output"), "output")
        self._note_distant()

    @property
    def zero_copy(self) -> bool:
        """Whether the engine works directly in the memory of `inputs` and `outputs`."""
        return all(buffer.is_view for buffer in (*self.inputs.all(), *self.outputs.all()))

    def run(self) -> None:
        """Run one inference on the values in `inputs`."""
        with self._lock:
            if self._is_closed:
                self._refuse_closed()
            for buffer in self._distant_inputs:
                buffer.push()
            self._invoke()
            for buffer in self._distant_outputs:
                buffer.pull()

    def __call__(self, *values: Array | Mapping[str, Array], **named: Array) -> Any:
        """Run on these arrays; return a copy of the output, or a dictionary where there are several.

        `runner(x)` for one input, `runner(x, y)` in the model's order, `runner(x=…, y=…)` or `runner({"x": …})`.
        """
        given = self._by_name(values, named)
        with self.exclusive():
            for name, value in given.items():
                self.inputs[name] = value
            self.run()
            found = {name: array.copy() for name, array in self.outputs.items()}
        return next(iter(found.values())) if len(found) == 1 else found

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Runner]:
        """Reserve the buffers for this thread during a `with` block."""
        with self._lock:
            self._refuse_closed()
            yield self

    def quantize(self, name: str, values: Array) -> None:
        """Write real values into a quantized input."""
        buffer = self.inputs.buffer(name)
        self.inputs[name] = buffer.quantized(values)

    def dequantize(self, name: str) -> Array:
        """Return a copy of an output as real values."""
        return self.outputs.buffer(name).real()

    def close(self) -> None:
        """Free the model, after a run that is in progress. Views that the application still holds keep their memory."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self.inputs.close()
                self.outputs.close()
                self._finalizer()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _invoke(self) -> None:
        try:
            if isinstance(self._model, ClassicModel):
                self._model.run()
                self._settle_sizes(self._model)
            else:
                self._model.run_releasing_lock()
        except EngineError as error:
            raise _trouble(error, self.plan) from error

    def _settle_sizes(self, model: ClassicModel) -> None:
        """Give outputs whose size depends on the data arrays of the size of this run."""
        before = [tensor.shape for tensor in model.outputs]
        model.settle_outputs()
        if before != [tensor.shape for tensor in model.outputs]:
            self.outputs.replace(_buffers(model, "Output"))
            self._note_distant()

    def _note_distant(self) -> None:
        """Remember which buffers a run must copy."""
        self._distant_inputs = [buffer for buffer in self.inputs.all() if not buffer.is_view]
        self._distant_outputs = [buffer for buffer in self.outputs.all() if not buffer.is_view]

    def _by_name(self, values: tuple[Array | Mapping[str, Array], ...], named: dict[str, Array]) -> dict[str, Any]:
        names = list(self.inputs)
        given: dict[str, Any] = dict(named)
        if len(values) == 1 and isinstance(values[0], dict):
            given.update(values[0])
        else:
            if len(values) > len(names):
                raise UsageError(
                    f"The model takes {several(len(names), 'input')}, not {len(values)}.", f"Pass: {', '.join(names)}."
                )
            given.update(zip(names, values, strict=False))
        for name in given:
            self.inputs.buffer(name)  # refuses an unknown name
        if missing := [name for name in names if name not in given]:
            raise UsageError(f"Input {missing[0]!r} has no value.", f"Pass all of: {', '.join(names)}.")
        return given

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise UsageError("This Runner is closed.", "Create another Runner.")


def _load(path: Path, plan: Plan, workload: Workload) -> CompiledModel | ClassicModel:
    check_model_file(path)
    prepare_process(plan)
    try:
        with _on_cores(plan.cores):
            model = load_model(path, plan, workload, profiling=False).model
    except EngineError as error:
        raise _trouble(error, plan) from error
    placement = model.placement()
    if not plan.runs_on_cpu and placement is not None and not placement.accelerated:
        model.close()
        raise AcceleratorError(
            f"The plan's accelerator runs none of the model's {several(placement.total, 'operator')}.",
            "Use a plan for the CPU, where the whole model would run anyway.",
        )
    return _at_its_start(model, path, plan, workload)


def prepare_process(plan: Plan) -> None:
    """Load the accelerator's libraries, and set the variables that its driver reads when it starts.

    A runner's process restarts itself with LD_LIBRARY_PATH set. An application cannot, so the libraries are loaded by
    their full path first: the dynamic linker then gives a plugin that asks for one by name the loaded one.
    """
    needed = process_environment(plan)
    for name, value in needed.items():
        if name != _FOLDERS:
            os.environ.setdefault(name, value)
    folder = Path(needed.get(_FOLDERS, "").partition(":")[0])
    if not needed.get(_FOLDERS):
        return
    for pattern in _LIBRARIES[plan.accelerator]:
        for path in sorted(folder.glob(pattern)):
            _load_library(path, plan.accelerator)


def _load_library(path: Path, accelerator: str) -> None:
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise AcceleratorError(
            f"The {accelerator.upper()} library {path} cannot be loaded into this process: {error}.",
            f"Start the program with {_FOLDERS}={path.parent}.",
        ) from error


def _at_its_start(
    model: CompiledModel | ClassicModel, path: Path, plan: Plan, workload: Workload
) -> CompiledModel | ClassicModel:
    """Reset the model: loading ran it on test values, and some models keep state."""
    if isinstance(model, ClassicModel):
        model.forget()
    elif has_variables(path):
        model.close()
        return CompiledModel(path, plan, workload)
    return model


@contextlib.contextmanager
def _on_cores(cores: tuple[int, ...]) -> Iterator[None]:
    """Pin the threads that the engine starts to these cores; the calling thread stays free."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise UsageError(
            f"The plan's cores {cores_text(cores)} cannot be used on this machine: {error.strerror}.",
            "Pass a plan without cores.",
        ) from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _buffers(model: CompiledModel | ClassicModel, side: str) -> tuple[Buffer, ...]:
    is_input = side == "Input"
    if isinstance(model, ClassicModel):
        names = model.signature_names()  # this interface has other names for tensors
        return tuple(
            Buffer(tensor, tensor.quantization(), is_input=is_input, name=names.get(tensor.name, ""))
            for tensor in (model.inputs if is_input else model.outputs)
        )
    return tuple(
        Buffer(tensor, model.quantization(side, position), is_input=is_input)
        for position, tensor in enumerate(model.inputs if is_input else model.outputs)
    )


def _trouble(error: EngineError, plan: Plan) -> HastenError:
    on_cpu = plan.runs_on_cpu
    kind = ModelError if on_cpu else AcceleratorError
    return kind(f"LiteRT cannot run this model on {plan.describe()}: {error}.", "Run hasten bench for the reason.")

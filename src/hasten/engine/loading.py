"""Loads a model through the interface of LiteRT that can run it, and proves it by running it."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import AcceleratorError, ModelError, UsageError
from hasten.core.failure import UNSUPPORTED
from hasten.engine import abi
from hasten.engine.classic import ClassicModel, import_interpreter
from hasten.engine.compiled import CompiledModel
from hasten.engine.library import EngineError
from hasten.engine.tensors import whole_bytes

if TYPE_CHECKING:
    from hasten.core.plan import Plan, Workload

_ONE_NUMBER: Final = (1, 0)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that has been run once, and what was seen meanwhile."""

    model: CompiledModel | ClassicModel
    first_run_ms: float
    extra_threads: int
    """Threads that the engine started: how the thread setting is seen to take effect."""


def load_model(path: Path, plan: Plan, workload: Workload, *, profiling: bool) -> LoadedModel:
    """Load through the compiled-model interface, or the classic one where LiteRT 2.3 leaves no choice.

    That is so for variable tensors and some element types, which the newer interface refuses; for outputs whose size
    changes with the data, which it can compute only once; and for the reference kernels, in whose place it silently
    runs the built-in ones.
    """
    if plan.kernel == "reference" and plan.runs_on_cpu:
        if profiling:
            raise UsageError(
                "LiteRT 2.3 cannot profile its reference kernels.", "Use --kernel builtin or --kernel delegate."
            )
        return _load_classic(path, plan, workload)
    threads_before = count_threads()
    try:
        model = CompiledModel(path, plan, workload, profiling=profiling)
    except EngineError as error:
        if (error.function, error.status) != ("LiteRtCreateModelFromFile", abi.STATUS_UNSUPPORTED):
            raise
        return _load_classic(path, plan, workload)
    first_run_ms = _first_run_ms(model)
    model.settle_outputs()
    try:
        model.run()
    except EngineError:
        model.close()
        return _load_classic(path, plan, workload)
    return LoadedModel(model, first_run_ms, count_threads() - threads_before)


def _load_classic(path: Path, plan: Plan, workload: Workload) -> LoadedModel:
    if plan.kernels:
        raise AcceleratorError(
            "LiteRT 2.3 runs this model only through its classic interface, which takes no custom kernels. The model "
            "has variable tensors or outputs of changing size, or the plan asks for the reference kernels.",
            "Use --kernel delegate or --kernel builtin, or run the original model without the kernels.",
            code=UNSUPPORTED,
        )
    import_interpreter()  # it brings NumPy, whose own threads must not be counted as the engine's
    threads_before = count_threads()
    model = ClassicModel(path, plan, workload)
    first_run_ms = _first_run_ms(model)
    model.settle_outputs()
    return LoadedModel(model, first_run_ms, count_threads() - threads_before)


def _first_run_ms(model: CompiledModel | ClassicModel) -> float:
    """Milliseconds of a run that succeeds.

    Whole numbers were made up as 0 and 1. A model that divides by them takes no 0; one that indexes a single row with
    them takes no 1. So they are made up as one number, if nothing else works.
    """
    try:
        return model.time_runs(0.0, 1)[0] / 1e6
    except (EngineError, ModelError):
        for number in _ONE_NUMBER:
            if _make_whole(model, number):
                with contextlib.suppress(EngineError, ModelError):
                    return model.time_runs(0.0, 1)[0] / 1e6
        raise


def _make_whole(model: CompiledModel | ClassicModel, number: int) -> bool:
    """Fill all inputs of whole numbers with this one; whether there are any."""
    filled = False
    for tensor in model.inputs:
        data = whole_bytes(tensor.dtype, tensor.byte_count, number)
        if data is not None:
            tensor.write(data)
            filled = True
    return filled


def count_threads() -> int:
    """The native threads of this process."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    return threading.active_count()

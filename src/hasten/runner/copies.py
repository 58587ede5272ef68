"""Times the ways to feed and read a model, inside the runner, as an application would go them from Python.

A way is three calls: feed, run, read. All of them work on one set of inputs, and each must give the same outputs
before it is timed. Imported late: it brings NumPy and LiteRT's own Python classes along.
"""

from __future__ import annotations

import gc
import time
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import HastenError
from hasten.core.remark import Remark, remark, said
from hasten.engine.abi import HOST_ALIGNMENT
from hasten.engine.compiled import CompiledModel
from hasten.engine.library import EngineError
from hasten.runner.copy_engines import ClassicEngine, PythonCompiledEngine, Refused
from hasten.runner.copy_ways import FAMILIES, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.plan import Plan, Workload
    from hasten.engine.classic import ClassicModel

    Step = Callable[[], Any]

# Outputs of one model through other interfaces of one engine: the same kernels, perhaps in another order.
_CLOSE: Final = 1e-3
_TROUBLES: Final = (Refused, HastenError, EngineError, RuntimeError, ValueError, TypeError, ImportError)
_ORDINARY_OFFSET: Final = 16  # what malloc promises, and no more


@dataclass(frozen=True, slots=True)
class Cycle:
    """One way: what to call, and how to get at the outputs for the check."""

    feed: Step
    run: Step
    read: Step
    outputs: Callable[[], list[Any]]


class CopyWays:
    """All ways of one loaded model."""

    def __init__(self, model: CompiledModel | ClassicModel, path: Path, plan: Plan, workload: Workload) -> None:
        self._model, self._path, self._plan, self._workload = model, path, plan, workload
        self._cycles: dict[str, Cycle] = {}
        self.reasons: dict[str, Remark] = {}
        """Why a way cannot be gone, by its key."""
        self._expected: list[Any] | None = None
        self._is_repeatable = True
        try:
            self._values = [_values(tensor) for tensor in model.inputs]
        except TypeError as error:
            self.reasons = dict.fromkeys((way.key for way in WAYS), remark("copies.no-type", error=str(error)))

    def open(self, family: str) -> None:
        """Make the ways of one family ready: those that work, and agree with the ones before."""
        if all(key in self.reasons for key in FAMILIES[family]):
            return
        makers = {
            "engine": {("host", "unaligned"): self._host_cycles, ("locked",): self._locked_cycles},
            "classic": {FAMILIES["classic"]: self._classic_cycles},
            "buffers": {FAMILIES["buffers"]: self._buffer_cycles},
        }
        fresh: dict[str, Cycle] = {}
        for keys, make in makers[family].items():
            try:
                fresh.update(make())
            except _TROUBLES as error:  # noqa: PERF203 - one interface's trouble must not stop the others
                self.reasons.update(dict.fromkeys(keys, _reason(error)))
        for key, cycle in fresh.items():
            self._check(key, cycle)

    @property
    def available(self) -> list[str]:
        """The ways that work, in their order."""
        return [way.key for way in WAYS if way.key in self._cycles]

    def time(self, key: str, seconds: float, most: int) -> tuple[array[int], array[int], array[int]]:
        """Nanoseconds of each step of many cycles: feed, run, read."""
        cycle, clock = self._cycles[key], time.perf_counter_ns
        feed, run, read = cycle.feed, cycle.run, cycle.read
        steps = array("q"), array("q"), array("q")
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            feed(), run(), read()  # the first cycle after another way's block finds cold caches
            deadline = clock() + int(seconds * 1e9)
            while len(steps[0]) < most:
                t0 = clock()
                feed()
                t1 = clock()
                run()
                t2 = clock()
                kept = read()
                t3 = clock()
                for durations, taken in zip(steps, (t1 - t0, t2 - t1, t3 - t2), strict=True):
                    durations.append(taken)
                del kept
                if t3 >= deadline:
                    break
        finally:
            if was_enabled:
                gc.enable()
        return steps

    def _host_cycles(self) -> dict[str, Cycle]:
        model = self._model
        if not isinstance(model, CompiledModel):
            raise Refused("classic-only")
        arrays = [_view(tensor) for tensor in model.inputs]
        results = [_view(tensor) for tensor in model.outputs]
        if any(view is None for view in (*arrays, *results)):
            raise Refused("own-memory", accelerator=self._plan.accelerator)
        outside = [_at_offset(values) for values in self._values]
        results_outside = [_at_offset(result) for result in results]
        for view, values in zip(arrays, self._values, strict=True):
            np.copyto(view, values)

        def copy_in() -> None:
            for view, values in zip(arrays, outside, strict=True):
                np.copyto(view, values)

        def copy_out() -> None:
            for result, view in zip(results_outside, results, strict=True):
                np.copyto(result, view)

        def touch_in() -> Any:
            return [view[...] for view in arrays]

        def touch_out() -> Any:
            return [view[...] for view in results]

        return {
            "host": Cycle(touch_in, model.run_releasing_lock, touch_out, lambda: [view.copy() for view in results]),
            "unaligned": Cycle(copy_in, model.run_releasing_lock, copy_out, lambda: results_outside),
        }

    def _locked_cycles(self) -> dict[str, Cycle]:
        """Memory of a device is locked, copied to or from, and unlocked; a run is over when its outputs can be read."""
        model = self._model
        if not isinstance(model, CompiledModel):
            raise Refused("classic-only")
        if all(tensor.is_shared for tensor in (*model.inputs, *model.outputs)):
            raise Refused("host-memory")
        pairs = [
            (tensor, memoryview(values).cast("B")) for tensor, values in zip(model.inputs, self._values, strict=True)
        ]

        def write() -> None:
            for tensor, data in pairs:
                tensor.write(data)

        def read() -> Any:
            return [tensor.read() for tensor in model.outputs]

        def outputs() -> list[Any]:
            return [np.frombuffer(tensor.read(), np.dtype(tensor.dtype)) for tensor in model.outputs]

        return {"locked": Cycle(write, model.run, read, outputs)}

    def _classic_cycles(self) -> dict[str, Cycle]:
        engine = ClassicEngine(self._path, self._plan, self._workload, self._values)
        cycles = {}
        for key, make in engine.makers().items():
            try:
                feed, run, read = make()
                if key == "signature":  # one call does it all, and returns what it read
                    cycles[key] = Cycle(feed, run, feed, read)
                else:
                    cycles[key] = Cycle(feed, run, read, engine.read_copies)
            except _TROUBLES as error:  # noqa: PERF203 - one way's trouble must not stop the others
                self.reasons[key] = _reason(error)
        return cycles

    def _buffer_cycles(self) -> dict[str, Cycle]:
        sizes = [tensor.byte_count for tensor in self._model.outputs]
        engine = PythonCompiledEngine(self._path, self._plan, self._workload, self._values, sizes)
        return {"buffers": Cycle(engine.write, engine.run, engine.read, engine.read)}

    def _check(self, key: str, cycle: Cycle) -> None:
        """Reject a method whose outputs differ, unless the model is nondeterministic."""
        try:
            found = _outputs_of(cycle)
            if self._expected is None:
                self._is_repeatable = all(map(_alike, _outputs_of(cycle), found))
                self._expected = found
        except _TROUBLES as error:
            self.reasons[key] = _reason(error)
            return
        if self._is_repeatable and not all(map(_alike, found, self._expected)):
            self.reasons[key] = remark("copies.other-outputs")
            return
        self._cycles[key] = cycle


def _outputs_of(cycle: Cycle) -> list[Any]:
    cycle.feed(), cycle.run(), cycle.read()
    return [np.array(output) for output in cycle.outputs()]


def _values(tensor: Any) -> Any:
    """What the model's own buffer holds now, plausible and seeded, as an array of ours."""
    return np.frombuffer(bytes(_bytes(tensor)), dtype=np.dtype(tensor.dtype)).reshape(tensor.shape).copy()


def _bytes(tensor: Any) -> bytes:
    data: bytes = tensor.read()
    return data


def _view(tensor: Any) -> Any:
    memory = tensor.shared_memory()
    if memory is None:
        return None
    kind = np.dtype(tensor.dtype)
    return np.frombuffer(memory, dtype=kind).reshape(tensor.shape) if len(memory) else np.empty(tensor.shape, kind)


def _at_offset(values: Any) -> Any:
    """A copy that begins where ordinary allocation may begin, and the engine's alignment does not."""
    room = np.empty(values.nbytes + 2 * HOST_ALIGNMENT, np.uint8)
    start = -room.ctypes.data % HOST_ALIGNMENT + _ORDINARY_OFFSET
    moved = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


def _alike(found: Any, expected: Any) -> bool:
    if found.size != expected.size:
        return False
    if found.dtype.kind not in "fc":
        return bool(np.mean(found.ravel() == expected.ravel()) > 1 - _CLOSE) if found.size else True
    scale = float(np.max(np.abs(expected))) if expected.size else 0.0
    return bool(np.allclose(found.ravel(), expected.ravel(), rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True))


def _reason(error: Exception) -> Remark:
    """Why a way cannot be gone: known beforehand, or what the engine says about it."""
    return error.reason if isinstance(error, Refused) else said(" ".join(str(error).split())[:200])

"""A model loaded through LiteRT's classic Interpreter: for models with variable tensors, which the newer interface of
LiteRT 2.3 refuses. On the CPU only, without a profile, and with a copy of each input and output."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import AcceleratorError, ModelError, UsageError
from hasten.engine.tensors import plausible_bytes
from hasten.engine.timing import LoadTimes, time_calls

if TYPE_CHECKING:
    from array import array
    from pathlib import Path

    from hasten.core.plan import Plan, Workload

# kernel mode → the resolver that the interpreter has for it
_RESOLVERS: Final = {"delegate": "AUTO", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}


class ClassicTensor:
    """One input or output of an interpreter."""

    is_shared: Final = False

    def __init__(self, interpreter: Any, details: dict[str, Any], name: str) -> None:
        import numpy as np

        self._interpreter, self._details, self._numpy = interpreter, details, np
        self.name = name
        self.dtype = np.dtype(details["dtype"]).name
        self.shape = tuple(int(size) for size in details["shape"])
        self.byte_count = int(np.prod(self.shape, dtype=np.int64)) * np.dtype(details["dtype"]).itemsize

    def write(self, data: bytes | memoryview) -> None:
        """Fill the tensor; the data must have its size."""
        if len(data) != self.byte_count:
            raise ModelError(f"tensor {self.name!r} takes {self.byte_count} bytes, not {len(data)}")
        values = self._numpy.frombuffer(data, dtype=self._details["dtype"]).reshape(self.shape)
        self._interpreter.set_tensor(self._details["index"], values)

    def read(self) -> bytes:
        """A copy of the tensor's bytes."""
        return bytes(self._interpreter.get_tensor(self._details["index"]).tobytes())


class ClassicModel:
    """A model ready to run, behind the same face as `CompiledModel`."""

    api: Final = "Interpreter"

    def __init__(self, path: Path, plan: Plan, workload: Workload) -> None:
        from ai_edge_litert import interpreter as classic

        if plan.accelerator != "cpu" or plan.delegate:
            raise AcceleratorError(
                "this model has variable tensors, which LiteRT 2.3 runs on the CPU only", "Use --accelerator cpu."
            )
        marks = [time.perf_counter()]
        resolver = getattr(classic.OpResolverType, _RESOLVERS[plan.kernel])
        try:
            self._interpreter = classic.Interpreter(
                model_path=str(path), num_threads=plan.threads, experimental_op_resolver_type=resolver
            )
            marks.append(time.perf_counter())
            self._resize(workload)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelError(f"LiteRT will not load this model: {str(error).strip()}") from error
        marks.append(time.perf_counter())
        self.inputs = tuple(ClassicTensor(self._interpreter, d, d["name"]) for d in self._interpreter.get_input_details())
        self.outputs = tuple(ClassicTensor(self._interpreter, d, d["name"]) for d in self._interpreter.get_output_details())
        self.load_times = LoadTimes(0.0, (marks[1] - marks[0]) * 1e3, (marks[2] - marks[1]) * 1e3, 0.0)
        for position, tensor in enumerate(self.inputs):
            tensor.write(plausible_bytes(tensor.dtype, tensor.byte_count, workload.seed + position))

    def time_runs(self, seconds: float, most: int) -> array[int]:
        """Nanoseconds of each of many runs. The state goes on from run to run, as it does in an application."""
        return time_calls(self._interpreter.invoke, seconds, most)

    def run(self) -> None:
        """One inference."""
        self._interpreter.invoke()

    def settle_outputs(self) -> None:
        """The interpreter keeps its own buffers, which follow the outputs' size."""

    def is_fully_accelerated(self) -> None:
        """The classic interface does not say."""

    def runs_without_cpu(self) -> bool:
        """Never: this interface is used on the CPU only."""
        return False

    def close(self) -> None:
        """Let the interpreter go."""
        self._interpreter = None

    def _resize(self, workload: Workload) -> None:
        if workload.signature:
            raise UsageError("signatures of a model with variable tensors cannot be chosen", "Leave out --signature.")
        details = {d["name"]: d for d in self._interpreter.get_input_details()}
        for name, shape in workload.shapes:
            if name not in details:
                raise UsageError(f"the model has no input {name!r}", f"Its inputs are: {', '.join(details)}.")
            self._interpreter.resize_tensor_input(details[name]["index"], shape)

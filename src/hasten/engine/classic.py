"""A model loaded through LiteRT's classic Interpreter: for models with variable tensors or with outputs of changing
size, which the newer interface of LiteRT 2.3 cannot run. CPU only, no profile, a copy of each input and output."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import AcceleratorError, DataError, ModelError, UsageError
from hasten.core.failure import SHAPES
from hasten.engine.shapes import check_shapes, refusal_of_shapes
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
        if np.dtype(details["dtype"]).hasobject or np.dtype(details["dtype"]).itemsize == 0:
            raise ModelError(
                f"Tensor {name!r} has a type that hasten cannot feed.",
                "String, resource and variant tensors have no fixed size.",
            )
        self.dtype = np.dtype(details["dtype"]).name
        self.shape = tuple(int(size) for size in details["shape"])
        self.byte_count = int(np.prod(self.shape, dtype=np.int64)) * np.dtype(details["dtype"]).itemsize

    def quantization(self) -> tuple[float, int]:
        """Scale and zero point; a scale of 0 where stored values are real, or have several scales."""
        found = self._details["quantization_parameters"]
        single = len(found["scales"]) == 1
        return (float(found["scales"][0]), int(found["zero_points"][0])) if single else (0.0, 0)

    def write(self, data: bytes | memoryview) -> None:
        """Fill the tensor; the data must have its size."""
        if len(data) != self.byte_count:
            raise DataError(f"Tensor {self.name!r} takes {self.byte_count} bytes, not {len(data)}.")
        values = self._numpy.frombuffer(data, dtype=self._details["dtype"]).reshape(self.shape)
        self._interpreter.set_tensor(self._details["index"], values)

    def read(self) -> bytes:
        """A copy of the tensor's bytes."""
        try:
            return bytes(self._interpreter.get_tensor(self._details["index"]).tobytes())
        except ValueError:
            return b""  # the interpreter hands out no tensor without elements


class ClassicModel:
    """A model ready to run, behind the same face as `CompiledModel`."""

    api: Final = "Interpreter"

    def __init__(self, path: Path, plan: Plan, workload: Workload) -> None:
        classic = import_interpreter()
        if not plan.runs_on_cpu:
            raise AcceleratorError(
                "LiteRT 2.3 runs this model only through its classic interface, on the CPU. The model has variable "
                "tensors, outputs of changing size, or element types that the newer interface does not support.",
                "Use --accelerator cpu.",
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
            if workload.shapes:
                raise refusal_of_shapes(workload) from error
            raise ModelError(f"LiteRT does not load this model: {_one_line(error)}.", code=SHAPES) from error
        marks.append(time.perf_counter())
        self.inputs = self._tensors(self._interpreter.get_input_details())
        self.outputs = self._tensors(self._interpreter.get_output_details())
        self.load_times = LoadTimes(0.0, (marks[1] - marks[0]) * 1e3, (marks[2] - marks[1]) * 1e3, 0.0)
        for position, tensor in enumerate(self.inputs):
            tensor.write(plausible_bytes(tensor.dtype, tensor.byte_count, workload.seed + position))

    def time_runs(self, seconds: float, most: int) -> array[int]:
        """Nanoseconds of each of many runs. The state goes on from run to run, as it does in an application."""
        try:
            return time_calls(self._interpreter.invoke, seconds, most)
        except RuntimeError as error:
            raise ModelError(f"LiteRT cannot run this model: {_one_line(error)}.", code=SHAPES) from error

    def run(self) -> None:
        """One inference."""
        self.time_runs(0.0, 1)

    def signature_names(self) -> dict[str, str]:
        """The names that the model's first signature has for its tensors, by the tensors' own names."""
        for key in self._interpreter.get_signature_list():
            signature = self._interpreter.get_signature_runner(key)
            sides = (signature.get_input_details(), signature.get_output_details())
            return {entry["name"]: name for side in sides for name, entry in side.items()}
        return {}

    def forget(self) -> None:
        """Put the variable tensors back to their start."""
        self._interpreter.reset_all_variables()

    def placement(self) -> None:
        """The classic interface does not say."""

    def settle_outputs(self) -> None:
        """Take note of the outputs' sizes after a run, which for some operators only a run can tell."""
        self.outputs = self._tensors(self._interpreter.get_output_details())

    def is_fully_accelerated(self) -> None:
        """The classic interface does not say."""

    def runs_without_cpu(self) -> bool:
        """Never: this interface is used on the CPU only."""
        return False

    def close(self) -> None:
        """Let the interpreter go."""
        self._interpreter = None

    def _tensors(self, details: list[dict[str, Any]]) -> tuple[ClassicTensor, ...]:
        return tuple(ClassicTensor(self._interpreter, entry, entry["name"]) for entry in details)

    def _resize(self, workload: Workload) -> None:
        if workload.signature and list(self._interpreter.get_signature_list()) != [workload.signature]:
            raise UsageError(
                "LiteRT 2.3 runs this model only through its classic interface, which has no choice of signatures.",
                "Leave out --signature.",
            )
        signature_names = self.signature_names()
        inputs = self._interpreter.get_input_details()
        details = {signature_names.get(d["name"], d["name"]): d for d in inputs}
        check_shapes(workload, {name: tuple(int(size) for size in d["shape"]) for name, d in details.items()})
        for name, shape in workload.shapes:
            self._interpreter.resize_tensor_input(details[name]["index"], shape)


def import_interpreter() -> Any:
    """LiteRT's module for the classic interface: imported late, as it brings NumPy along."""
    from ai_edge_litert import interpreter

    return interpreter


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")

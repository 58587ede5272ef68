"""LiteRT's own Python classes, driven as applications drive them: the classic Interpreter and CompiledModel."""

from __future__ import annotations

import contextlib
import functools
import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.remark import remark
from hasten.engine.classic import import_interpreter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.plan import Plan, Workload

    Steps = tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]

_LONGEST_LIST: Final = 10_000_000  # a list takes ten times the memory of an array
_RESOLVERS: Final = {"delegate": "AUTO", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}


class Refused(Exception):
    """A way that cannot be gone with this model and plan, and why."""

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(code)
        self.reason = remark(f"copies.{code}", **facts)


class ClassicEngine:
    """An Interpreter on the same inputs, and the ways that it offers."""

    def __init__(self, path: Path, plan: Plan, workload: Workload, values: list[Any]) -> None:
        if not plan.runs_on_cpu:
            raise Refused("classic-on-cpu")
        if plan.kernels:
            raise Refused("custom-kernels")
        self._open = functools.partial(_interpreter, path, plan)
        self._interpreter = interpreter = self._open()
        self._signature = next(iter(interpreter.get_signature_list()), "")
        if workload.signature and workload.signature != self._signature:
            raise Refused("first-signature")
        self._inputs, self._outputs, self._names = self._indices()
        for index, value in zip(self._inputs, values, strict=True):
            interpreter.resize_tensor_input(index, value.shape)
        interpreter.allocate_tensors()
        self._values = values

    def read_copies(self) -> list[Any]:
        """The outputs, copied."""
        return [self._interpreter.get_tensor(index) for index in self._outputs]

    def makers(self) -> dict[str, Callable[[], Steps]]:
        """Each way's steps, to be made when it is its turn: one that cannot be gone must not stop the others."""
        return {
            "copying": self._copying,
            "views": self._views,
            "filled": self._filled,
            "wrong type": self._wrong_type,
            "strided": self._strided,
            "list": self._list,
            "resize": self._resize,
            "reshape": self._reshape,
            "signature": self._signature_runner,
        }

    def _set(self, values: list[Any]) -> Callable[[], None]:
        pairs, set_tensor = list(zip(self._inputs, values, strict=True)), self._interpreter.set_tensor

        def feed() -> None:
            for index, value in pairs:
                set_tensor(index, value)

        return feed

    def _copying(self) -> Steps:
        return self._set(self._values), self._interpreter.invoke, self.read_copies

    def _views(self) -> Steps:
        """Views are taken and let go: what an application writes or reads in place is its own work."""
        inputs = [self._interpreter.tensor(index) for index in self._inputs]
        outputs = [self._interpreter.tensor(index) for index in self._outputs]
        self._set(self._values)()

        def take(views: list[Callable[[], Any]]) -> Callable[[], None]:
            def step() -> None:
                for view in views:
                    view()

            return step

        return take(inputs), self._interpreter.invoke, take(outputs)

    def _filled(self) -> Steps:
        pairs = [(self._interpreter.tensor(i), value) for i, value in zip(self._inputs, self._values, strict=True)]

        def feed() -> None:
            for view, value in pairs:
                view()[...] = value

        return feed, self._interpreter.invoke, self._views()[2]

    def _wrong_type(self) -> Steps:
        """NumPy's own default types, which set_tensor refuses: so they are converted in each call."""
        wrong = [value.astype(np.float64 if value.dtype.kind == "f" else np.int64) for value in self._values]
        if all(a.dtype == b.dtype for a, b in zip(wrong, self._values, strict=True)):
            raise Refused("default-types")
        kinds, set_tensor = [value.dtype for value in self._values], self._interpreter.set_tensor
        triples = list(zip(self._inputs, wrong, kinds, strict=True))

        def feed() -> None:
            for index, value, kind in triples:
                set_tensor(index, value.astype(kind))

        return feed, self._interpreter.invoke, self.read_copies

    def _strided(self) -> Steps:
        """The same values with their memory in the order of a transposed array."""
        turned = [np.asfortranarray(value) for value in self._values]
        if all(value.flags.c_contiguous for value in turned):
            raise Refused("always-contiguous")
        return self._set(turned), self._interpreter.invoke, self.read_copies

    def _list(self) -> Steps:
        if sum(value.size for value in self._values) > _LONGEST_LIST:
            raise Refused("long-list", values=_LONGEST_LIST)
        lists, set_tensor = [value.tolist() for value in self._values], self._interpreter.set_tensor
        kinds = [value.dtype for value in self._values]
        triples = list(zip(self._inputs, lists, kinds, strict=True))

        def feed() -> None:
            for index, value, kind in triples:
                set_tensor(index, np.array(value, dtype=kind))

        return feed, self._interpreter.invoke, self.read_copies

    def _resize(self) -> Steps:
        interpreter, feed_plainly = self._interpreter, self._set(self._values)
        shapes = [(index, value.shape) for index, value in zip(self._inputs, self._values, strict=True)]

        def feed() -> None:
            for index, shape in shapes:
                interpreter.resize_tensor_input(index, shape)
            interpreter.allocate_tensors()
            feed_plainly()

        return feed, interpreter.invoke, self.read_copies

    def _reshape(self) -> Steps:
        """To twice the batch and back, so that each run is the same one; the parent counts one of the two."""
        interpreter, feed_plainly = self._interpreter, self._set(self._values)
        own = [(index, value.shape) for index, value in zip(self._inputs, self._values, strict=True)]
        if any(not shape for _, shape in own):
            raise Refused("no-dimension")
        twice = [(index, (2 * shape[0], *shape[1:])) for index, shape in own]

        def resize(shapes: list[tuple[int, tuple[int, ...]]]) -> None:
            for index, shape in shapes:
                interpreter.resize_tensor_input(index, shape)
            interpreter.allocate_tensors()

        def feed() -> None:
            resize(twice)
            resize(own)
            feed_plainly()

        try:
            feed()
        except (RuntimeError, ValueError):
            resize(own)
            raise Refused("other-batch") from None
        return feed, interpreter.invoke, self.read_copies

    def _signature_runner(self) -> Steps:
        """On an Interpreter of its own: while a signature runner is there, the other ways are refused."""
        if not self._signature:
            raise Refused("no-signature")
        runner = self._open().get_signature_runner(self._signature)
        given = dict(zip(self._names, self._values, strict=True))
        return (lambda: None), (lambda: runner(**given)), (lambda: list(runner(**given).values()))

    def _indices(self) -> tuple[list[int], list[int], list[str]]:
        """The tensors' numbers in the order of the compiled-model interface: that of the signature, or of the graph."""
        if not self._signature:
            sides = self._interpreter.get_input_details(), self._interpreter.get_output_details()
            inputs, outputs = ([entry["index"] for entry in side] for side in sides)
            return inputs, outputs, [entry["name"] for entry in sides[0]]
        runner = self._interpreter.get_signature_runner(self._signature)
        sides = runner.get_input_details(), runner.get_output_details()
        inputs, outputs = ([entry["index"] for entry in side.values()] for side in sides)
        return inputs, outputs, list(sides[0])


def _interpreter(path: Path, plan: Plan) -> Any:
    classic = import_interpreter()
    resolver = getattr(classic.OpResolverType, _RESOLVERS[plan.kernel])
    return classic.Interpreter(model_path=str(path), num_threads=plan.threads, experimental_op_resolver_type=resolver)


class PythonCompiledEngine:
    """LiteRT's CompiledModel for Python, with buffers that it made itself."""

    def __init__(self, path: Path, plan: Plan, workload: Workload, values: list[Any], output_sizes: list[int]) -> None:
        if plan.accelerator == "npu" or plan.delegate:
            raise Refused("compiled-on-cpu-gpu")
        if plan.kernels:
            raise Refused("custom-kernels")
        with contextlib.redirect_stdout(io.StringIO()):
            from ai_edge_litert import compiled_model as package
        bits = package.HardwareAccelerator.CPU
        if plan.accelerator == "gpu":
            bits = package.HardwareAccelerator.GPU
        options = package.Options(hardware_accelerators=bits, cpu_options=package.CpuOptions(num_threads=plan.threads))
        self._model = model = package.CompiledModel.from_file(str(path), options=options)
        self._index = max(0, model.get_signature_index(workload.signature)) if workload.signature else 0
        for position, _ in enumerate(values):
            if workload.shapes:
                model.resize_input_tensor(position, values[position].shape, self._index, strict=False)
        self._inputs = model.create_input_buffers(self._index)
        self._outputs = model.create_output_buffers(self._index)
        self._pairs = list(zip(self._inputs, values, strict=True))
        details = [buffer.get_tensor_details() for buffer in self._outputs]
        self._results = [
            (buffer, int(np.prod(entry["shape"], dtype=np.int64)), np.dtype(entry["dtype"]), tuple(entry["shape"]))
            for buffer, entry in zip(self._outputs, details, strict=True)
        ]
        if [count * kind.itemsize for _, count, kind, _ in self._results] != output_sizes:
            # A run would write past their end.
            raise Refused("unknown-outputs")

    def write(self) -> None:
        """Feed every input."""
        for buffer, value in self._pairs:
            buffer.write(value)

    def run(self) -> None:
        """One inference."""
        self._model.run_by_index(self._index, self._inputs, self._outputs)

    def read(self) -> list[Any]:
        """Every output, copied."""
        return [buffer.read(count, kind).reshape(shape) for buffer, count, kind, shape in self._results]

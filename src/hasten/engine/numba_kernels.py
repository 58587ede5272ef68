"""Kernels in Python for numba (`@hasten.kernel`): compiled in the process that runs the model, called as native code.

Good for trying: the process needs numba and compiles for about a second. A kernel that ships is written in C.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hasten.core.checks import FROM_ONE, check_callable, check_number, text_of
from hasten.core.errors import AcceleratorError, UsageError
from hasten.core.failure import NOT_INSTALLED
from hasten.engine import abi, abi_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Shape = tuple[int, ...]
    ShapesOf = Callable[..., Any]

F = TypeVar("F", bound="Callable[..., Any]")

INSTALL: Final = "pip install 'hasten[numba]'"
_MARK: Final = "hasten_kernel"
_TYPE: Final = re.compile(r"\s*(?P<dtype>[a-z]+[0-9]*)\s*\[\s*(?P<axes>:(?:\s*,\s*:)*)\s*\]\s*")
_INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_DTYPES: Final = ("float32", "float64", "bool", *_INTEGERS)
# Places in a KernelTensor, counted in 32-bit and in 64-bit words.
_WORDS32, _SHAPE32 = 12, 2
_WORDS64, _DATA64 = 6, 5
# Places in a KernelCall, counted in 64-bit words.
_INPUTS64, _OUTPUTS64, _CALL64 = 1, 3, 8


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of a kernel: `float32[:,:]`."""

    dtype: str
    rank: int


@dataclass(frozen=True, slots=True)
class PythonKernel:
    """A function that was marked with `@hasten.kernel`."""

    name: str
    replaces: str
    function: Callable[..., Any]
    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]
    output_shape: ShapesOf | None


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel as the glue takes it."""

    name: str
    shapes: Any
    """A C function."""
    run_address: int
    compiled: Any


def kernel(replaces: str, types: str, *, outputs: int = 1, output_shape: ShapesOf | None = None) -> Callable[[F], F]:
    """Mark a function as a kernel for numba.

    `replaces` names operators as --for does: an operator (`HARD_SWISH`), a chain (`MUL,ADD`) or nodes (`12:15`).
    `types` lists the function's arrays, inputs first: `"float32[:,:], float32[:,:]"`; the last `outputs` of them are
    filled by the function. Each output has the shape of the first input, unless `output_shape` is given: it takes the
    shapes of the inputs, and returns that of the output, or a list of shapes where there are several.
    """
    what = text_of("replaces", replaces)
    arrays = _array_types(text_of("types", types))
    check_number("outputs", outputs, FROM_ONE)
    if output_shape is not None:
        check_callable("output_shape", output_shape)
    split = len(arrays) - outputs
    if split < 1:
        raise UsageError(
            f"A kernel with the types {types!r} cannot have {outputs} outputs.",
            "List inputs and outputs, for example float32[:,:], float32[:,:].",
        )

    def mark(function: F) -> F:
        made = PythonKernel(function.__name__, what, function, arrays[:split], arrays[split:], output_shape)
        setattr(function, _MARK, made)
        return function

    return mark


def kernels_in(path: Path) -> tuple[PythonKernel, ...]:
    """Run a Python file of the user's own, and find the kernels in it."""
    spec = importlib.util.spec_from_file_location("hasten_user_kernels", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"There is no Python file at {path}.", "Give a file with @hasten.kernel functions.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"{path.name} cannot be run: {type(error).__name__}: {error}.", "Run it with Python alone to see where."
        ) from error
    found = [value.hasten_kernel for value in vars(module).values() if isinstance(_marked(value), PythonKernel)]
    if not found:
        raise UsageError(f"{path.name} has no kernel.", "Mark a function with @hasten.kernel.")
    return tuple(found)


@functools.cache
def compiled_kernels(path: Path) -> tuple[CompiledKernel, ...]:
    """The kernels of a Python file, as native code; once a process, and kept: a library has their addresses."""
    try:
        import numba
    except ImportError:
        raise AcceleratorError(
            "Kernels in Python need numba, which is not installed.", f"Run {INSTALL}.", code=NOT_INSTALLED
        ) from None
    return tuple(_compiled(numba, found) for found in kernels_in(path))


def output_shapes(found: PythonKernel, inputs: Sequence[Shape]) -> tuple[Shape, ...]:
    """The shapes of a kernel's outputs; a UsageError where its own function answers something else."""
    if found.output_shape is None:
        return (tuple(inputs[0]),) * len(found.outputs)
    answer = found.output_shape(*inputs)
    several = [answer] if len(found.outputs) == 1 and all(isinstance(size, int) for size in answer) else list(answer)
    shapes = tuple(tuple(int(size) for size in shape) for shape in several)
    if [len(shape) for shape in shapes] != [array.rank for array in found.outputs]:
        raise UsageError(
            f"The output_shape of {found.name} returned {answer!r}.", "Return a shape for each output of the kernel."
        )
    return shapes


def _marked(value: object) -> object:
    return getattr(value, _MARK, None) if callable(value) else None


def _array_types(text: str) -> tuple[ArrayType, ...]:
    found, position = [], 0
    while match := _TYPE.match(text, position):
        found.append(ArrayType(match["dtype"], match["axes"].count(":")))
        position = match.end()
        if position < len(text) and text[position] == ",":
            position += 1
        else:
            break
    if position != len(text) or any(array.dtype not in _DTYPES or array.rank > abi.MAX_RANK for array in found):
        raise UsageError(
            f"The types {text!r} cannot be read.",
            f"Write them as numba does, for example float32[:,:], float32[:,:]; types: {', '.join(_DTYPES)}.",
        )
    return tuple(found)


def _compiled(numba: Any, found: PythonKernel) -> CompiledKernel:
    source = _run_source(found)
    names: dict[str, Any] = {
        "carray": numba.carray,
        "pointer": _pointer_from_integer(numba),
        "int32": numba.int32,
        "int64": numba.int64,
        "intp": numba.intp,
        "kernel": numba.njit(nogil=True, error_model="numpy")(found.function),
    }
    arrays = (*found.inputs, *found.outputs)
    for i, array in enumerate(arrays):
        names[f"dtype{i}"] = getattr(numba, "boolean" if array.dtype == "bool" else array.dtype)
    exec(compile(source, f"<kernel {found.name}>", "exec"), names)
    try:
        compiled = numba.cfunc(numba.int32(numba.types.CPointer(numba.int64)), nopython=True)(names["run"])
    except numba.core.errors.NumbaError as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"numba cannot compile the kernel {found.name}: {reason}.", "Use only what numba supports without Python."
        ) from error
    return CompiledKernel(found.name, _shapes_callback(found), int(compiled.address), compiled)


def _run_source(found: PythonKernel) -> str:
    """A function that finds the arrays behind a KernelCall, checks their types and calls the kernel."""
    lines = ["def run(call):", f"    words = carray(call, {_CALL64})"]
    arguments = []
    sides = (("x", _INPUTS64, found.inputs, 0), ("y", _OUTPUTS64, found.outputs, len(found.inputs)))
    for side, place, arrays, first in sides:
        lines += [
            f"    {side}32 = carray(pointer(words[{place}]), {_WORDS32 * len(arrays)}, int32)",
            f"    {side}64 = carray(pointer(words[{place}]), {_WORDS64 * len(arrays)}, int64)",
        ]
        for i, array in enumerate(arrays):
            start, code = _WORDS32 * i, abi.ELEMENT_CODES[array.dtype]
            lines.append(f"    if {side}32[{start}] != {code} or {side}32[{start + 1}] != {array.rank}:")
            lines.append("        return 1")
            shape = "".join(f"intp({side}32[{start + _SHAPE32 + axis}]), " for axis in range(array.rank))
            address = f"pointer({side}64[{_WORDS64 * i + _DATA64}])"
            lines.append(f"    {side}{i} = carray({address}, ({shape}), dtype{first + i})")
            arguments.append(f"{side}{i}")
    return "\n".join([*lines, f"    kernel({', '.join(arguments)})", "    return 0", ""])


def _pointer_from_integer(numba: Any) -> Any:
    """A function for compiled code that makes an address a pointer, which numba has no word for."""

    @numba.extending.intrinsic  # type: ignore[untyped-decorator]
    def pointer(_context: Any, address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], numba.core.cgutils.voidptr_t)

        return numba.types.voidptr(address), generate

    return pointer


def _shapes_callback(found: PythonKernel) -> Any:
    """A C function that calls the kernel's Python function for shapes: when shapes change, not in a run."""

    def work_out(address: Any) -> int:
        call = address.contents
        inputs = [tuple(call.inputs[i].shape[: call.inputs[i].rank]) for i in range(call.input_count)]
        if [len(shape) for shape in inputs] != [array.rank for array in found.inputs]:
            call.error = b"its inputs are not those that it was declared for"
            return 1
        try:
            shapes = output_shapes(found, inputs)
        except Exception as error:  # noqa: BLE001 - an exception cannot pass through native code
            call.error = kept["error"] = str(error).rstrip(".").encode()
            return 1
        for i, shape in enumerate(shapes):
            call.outputs[i].rank = len(shape)
            call.outputs[i].shape[: len(shape)] = list(shape)
        return 0

    kept: dict[str, bytes] = {}
    return abi_kernel.Shapes(work_out)

"""Patches of the classic API: the class Interpreter of ai_edge_litert, tflite_runtime or tensorflow, and its runners.

Every wrapped call costs about half a microsecond: two clock readings, a look-up of the place, four integers in a list.
The three that a loop makes spell out what rows.py names (kinds 4, 5 and 6, shifts by 4, 8 and 24): names take time.
"""

from __future__ import annotations

import functools
import sys
import time
from _thread import get_ident
from types import SimpleNamespace
from typing import Any, Final

from . import rows
from .c_calls import LOOKED_AT_ROUNDS
from .copy_probe import look_at_input, look_at_output, note_run
from .event_loops import in_event_loop
from .models import describe_model
from .patches import Patches
from .recorder import NUMBER, PATCHED

_CALIBRATION_ROUNDS: Final = 4
_CALIBRATION_CALLS: Final = 100


def patch_interpreter_module(module: Any, patches: Patches) -> None:
    """Wrap the methods of the classes of such a module; those that a release lacks are left out."""
    interpreter = getattr(module, "Interpreter", None)
    if interpreter is None or PATCHED in vars(interpreter):
        return
    for name, wrap in _WRAPPERS.items():
        if callable(original := vars(interpreter).get(name)):
            patches.replace(interpreter, name, wrap(original, patches))
    runner = getattr(module, "SignatureRunner", None)
    if runner is not None and callable(call := vars(runner).get("__call__")):
        patches.replace(runner, "__call__", _signature(call, patches))
    patches.replace(interpreter, PATCHED, True)
    patches.on_litert()


def _init(original: Any, patches: Patches) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807 (it replaces the class's own)
        place = patches.recorder.place(sys._getframe(1))
        start = time.perf_counter_ns()
        original(self, *arguments, **options)
        end = time.perf_counter_ns()
        setattr(self, NUMBER, patches.recorder.new_object(describe_model(self, arguments, options, patches.recorder)))
        patches.recorder.add_call(rows.LOAD, getattr(self, NUMBER), place.number, start, end)
        patches.recorder.flush()  # its first run may be what crashes

    return __init__


def _del(original: Any, patches: Patches) -> Any:
    @functools.wraps(original)
    def __del__(self: Any) -> None:  # noqa: N807 (it replaces the class's own)
        start = time.perf_counter_ns()
        original(self)
        end = time.perf_counter_ns()
        if not sys.is_finalizing() and NUMBER in self.__dict__:
            place = patches.recorder.place(sys._getframe(1))
            patches.recorder.add_call(rows.FREE, self.__dict__[NUMBER], place.number, start, end)

    return __del__


def _allocate_tensors(original: Any, patches: Patches) -> Any:
    recorder = patches.recorder

    @functools.wraps(original)
    def allocate_tensors(self: Any) -> Any:
        place = recorder.place(sys._getframe(1))
        start = time.perf_counter_ns()
        try:
            return original(self)
        finally:
            patches.recorder.add_call(
                rows.ALLOCATE, patches.recorder.number_of(self), place.number, start, time.perf_counter_ns()
            )

    return allocate_tensors


def _resize_tensor_input(original: Any, patches: Patches) -> Any:
    recorder = patches.recorder

    @functools.wraps(original)
    def resize_tensor_input(self: Any, input_index: Any, tensor_size: Any, strict: bool = False) -> Any:
        place = recorder.place(sys._getframe(1))
        flag = rows.CHANGED if _is_another_shape(self, input_index, tensor_size) else 0
        start = time.perf_counter_ns()
        try:
            return original(self, input_index, tensor_size, strict)
        finally:
            end = time.perf_counter_ns()
            patches.recorder.add_call(
                rows.RESIZE | flag << rows.FLAG_SHIFT, patches.recorder.number_of(self), place.number, start, end
            )

    return resize_tensor_input


def _set_tensor(original: Any, patches: Patches) -> Any:
    recorder, ident, clock, getframe = patches.recorder, get_ident, time.perf_counter_ns, sys._getframe
    places, extend = recorder.places, recorder.rows.extend

    @functools.wraps(original)
    def set_tensor(self: Any, tensor_index: Any, value: Any) -> Any:
        frame = getframe(1)
        place = places.get((id(frame.f_code), frame.f_lasti)) or recorder.place(frame)
        try:
            odd = 0 if value.flags.c_contiguous else 16
        except AttributeError:
            odd = 16
        start = clock()
        try:
            result = original(self, tensor_index, value)
        finally:
            end = clock()
            number = self.__dict__.get(NUMBER) or recorder.number_of(self)
            extend((4 | odd | number << 8 | place.number << 24, ident(), start, end))
        if odd and place.left:
            look_at_input(functools.partial(original, self, tensor_index), value, place, patches)
        return result

    return set_tensor


def _invoke(original: Any, patches: Patches) -> Any:
    calls = patches.calls
    recorder, ident, clock, getframe = patches.recorder, get_ident, time.perf_counter_ns, sys._getframe
    places, extend = recorder.places, recorder.rows.extend

    @functools.wraps(original)
    def invoke(self: Any) -> Any:
        frame = getframe(1)
        place = places.get((id(frame.f_code), frame.f_lasti)) or recorder.place(frame)
        flags = note_run(self, place, patches) if patches.outputs or calls.looking else 0
        if patches.has_loops:
            flags |= in_event_loop(place, frame)
        start = clock()
        try:
            return original(self)
        finally:
            end = clock()
            number = self.__dict__.get(NUMBER) or recorder.number_of(self)
            extend((5 | flags << 4 | number << 8 | place.number << 24, ident(), start, end))
            place.runs += 1
            if place.runs in LOOKED_AT_ROUNDS:
                calls.after_run(place)

    return invoke


def _get_tensor(original: Any, patches: Patches) -> Any:
    recorder, ident, clock, getframe = patches.recorder, get_ident, time.perf_counter_ns, sys._getframe
    places, extend = recorder.places, recorder.rows.extend

    @functools.wraps(original)
    def get_tensor(self: Any, tensor_index: Any, subgraph_index: Any = 0) -> Any:
        frame = getframe(1)
        place = places.get((id(frame.f_code), frame.f_lasti)) or recorder.place(frame)
        start = clock()
        try:
            # Early releases know no second argument; it is handed on only where it is used.
            result = original(self, tensor_index, subgraph_index) if subgraph_index else original(self, tensor_index)
        finally:
            end = clock()
            number = self.__dict__.get(NUMBER) or recorder.number_of(self)
            extend((6 | number << 8 | place.number << 24, ident(), start, end))
        if place.left:
            look_at_output(self, tensor_index, result, place, patches)
        return result

    return get_tensor


def _signature(original: Any, patches: Patches) -> Any:
    @functools.wraps(original)
    def __call__(self: Any, **inputs: Any) -> Any:  # noqa: N807 (it replaces the class's own)
        frame = sys._getframe(1)
        place = patches.recorder.place(frame)
        interpreter = self._interpreter
        flags = note_run(interpreter, place, patches) | in_event_loop(place, frame)
        start = time.perf_counter_ns()
        try:
            return original(self, **inputs)
        finally:
            end = time.perf_counter_ns()
            kind = rows.SIGNATURE | flags << rows.FLAG_SHIFT
            patches.recorder.add_call(kind, patches.recorder.number_of(interpreter), place.number, start, end)
            place.runs += 1
            if place.runs in LOOKED_AT_ROUNDS:
                patches.calls.after_run(place)

    return __call__


def _ensure_safe(original: Any, patches: Patches) -> Any:
    """LiteRT refuses to run while someone holds a view of its memory, and counts references to find out.

    A sampler that looks at a frame keeps what is in it alive for an instant; it must be through before the count.
    """

    @functools.wraps(original)
    def _ensure_safe(self: Any) -> Any:
        if not self._safe_to_run():
            with patches.frames_lock:
                pass
        return original(self)

    return _ensure_safe


def _is_another_shape(interpreter: Any, index: Any, shape: Any) -> bool:
    try:
        return [int(size) for size in interpreter._interpreter.TensorSize(int(index), 0)] != [int(s) for s in shape]
    except (TypeError, ValueError, AttributeError):
        return True


_WRAPPERS = {
    "__init__": _init,
    "__del__": _del,
    "allocate_tensors": _allocate_tensors,
    "resize_tensor_input": _resize_tensor_input,
    "set_tensor": _set_tensor,
    "invoke": _invoke,
    "get_tensor": _get_tensor,
    "_ensure_safe": _ensure_safe,
}


def cost_of_a_call_ns() -> float:
    """What a wrapped call costs beyond the plain one, on a class that does nothing: the quickest rounds of each."""

    class Plain:
        def invoke(self) -> None:
            """Nothing."""

    class Interpreter(Plain):
        def invoke(self) -> None:
            """Nothing."""

    patches = Patches("")
    patches.calls.after_run = lambda place: None  # type: ignore[method-assign]
    patch_interpreter_module(SimpleNamespace(Interpreter=Interpreter), patches)
    watched, plain = Interpreter(), Plain()
    setattr(watched, NUMBER, 1)
    quickest = [min(_calls_ns(one.invoke) for _ in range(_CALIBRATION_ROUNDS)) for one in (plain, watched)]
    return max(0.0, (quickest[1] - quickest[0]) / _CALIBRATION_CALLS)


def _calls_ns(call: Any) -> int:
    start = time.perf_counter_ns()
    for _ in range(_CALIBRATION_CALLS):
        call()
    return time.perf_counter_ns() - start

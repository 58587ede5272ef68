"""Patches of the classic API: the class Interpreter of ai_edge_litert, tflite_runtime or tensorflow, and its runners.

Every wrapped call costs about half a microsecond: two clock readings, a look-up of the place, four integers in a list.
The three that a loop makes spell out what rows.py names (kinds 4, 5 and 6, shifts by 4, 8 and 24): names take time.
"""

from __future__ import annotations

import functools
import sys
import time
from _thread import get_ident
from typing import TYPE_CHECKING, Any

from . import rows
from .c_calls import LOOKED_AT_ROUNDS
from .close_look import look_at_input, look_at_output, note_run
from .event_loops import in_event_loop
from .models import describe_model
from .recorder import NUMBER, PATCHED

if TYPE_CHECKING:
    from .instrumentation import Instrumentation


def patch_interpreter_module(module: Any, watch: Instrumentation) -> None:
    """Wrap the methods of the classes of such a module; those that a release lacks are left out."""
    interpreter = getattr(module, "Interpreter", None)
    if interpreter is None or PATCHED in vars(interpreter):
        return
    for name, wrap in _WRAPPERS.items():
        if callable(original := vars(interpreter).get(name)):
            watch.replace(interpreter, name, wrap(original, watch))
    runner = getattr(module, "SignatureRunner", None)
    if runner is not None and callable(call := vars(runner).get("__call__")):
        watch.replace(runner, "__call__", _signature(call, watch))
    watch.replace(interpreter, PATCHED, True)
    watch.ready_for_litert()


def _init(original: Any, watch: Instrumentation) -> Any:
    @functools.wraps(original)
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807 (it replaces the class's own)
        place = watch.recorder.place(sys._getframe(1))
        start = time.perf_counter_ns()
        original(self, *arguments, **options)
        end = time.perf_counter_ns()
        setattr(self, NUMBER, watch.recorder.new_object(describe_model(self, arguments, options, watch.recorder)))
        watch.recorder.add_call(rows.LOAD, getattr(self, NUMBER), place.number, start, end)
        watch.recorder.flush()  # its first run may be what crashes

    return __init__


def _del(original: Any, watch: Instrumentation) -> Any:
    @functools.wraps(original)
    def __del__(self: Any) -> None:  # noqa: N807 (it replaces the class's own)
        start = time.perf_counter_ns()
        original(self)
        end = time.perf_counter_ns()
        if not sys.is_finalizing() and NUMBER in self.__dict__:
            place = watch.recorder.place(sys._getframe(1))
            watch.recorder.add_call(rows.FREE, self.__dict__[NUMBER], place.number, start, end)

    return __del__


def _allocate_tensors(original: Any, watch: Instrumentation) -> Any:
    recorder = watch.recorder

    @functools.wraps(original)
    def allocate_tensors(self: Any) -> Any:
        place = recorder.place(sys._getframe(1))
        start = time.perf_counter_ns()
        try:
            return original(self)
        finally:
            watch.recorder.add_call(
                rows.ALLOCATE, watch.recorder.number_of(self), place.number, start, time.perf_counter_ns()
            )

    return allocate_tensors


def _resize_tensor_input(original: Any, watch: Instrumentation) -> Any:
    recorder = watch.recorder

    @functools.wraps(original)
    def resize_tensor_input(self: Any, input_index: Any, tensor_size: Any, strict: bool = False) -> Any:
        place = recorder.place(sys._getframe(1))
        flag = rows.CHANGED if _is_another_shape(self, input_index, tensor_size) else 0
        start = time.perf_counter_ns()
        try:
            return original(self, input_index, tensor_size, strict)
        finally:
            end = time.perf_counter_ns()
            watch.recorder.add_call(
                rows.RESIZE | flag << rows.FLAG_SHIFT, watch.recorder.number_of(self), place.number, start, end
            )

    return resize_tensor_input


def _set_tensor(original: Any, watch: Instrumentation) -> Any:
    recorder, ident, clock, getframe = watch.recorder, get_ident, time.perf_counter_ns, sys._getframe
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
            look_at_input(functools.partial(original, self, tensor_index), value, place, watch)
        return result

    return set_tensor


def _invoke(original: Any, watch: Instrumentation) -> Any:
    calls = watch.calls
    recorder, ident, clock, getframe = watch.recorder, get_ident, time.perf_counter_ns, sys._getframe
    places, extend = recorder.places, recorder.rows.extend

    @functools.wraps(original)
    def invoke(self: Any) -> Any:
        frame = getframe(1)
        place = places.get((id(frame.f_code), frame.f_lasti)) or recorder.place(frame)
        flags = note_run(self, place, watch) if watch.outputs or calls.looking else 0
        if watch.has_loops:
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


def _get_tensor(original: Any, watch: Instrumentation) -> Any:
    recorder, ident, clock, getframe = watch.recorder, get_ident, time.perf_counter_ns, sys._getframe
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
            look_at_output(self, tensor_index, result, place, watch)
        return result

    return get_tensor


def _signature(original: Any, watch: Instrumentation) -> Any:
    @functools.wraps(original)
    def __call__(self: Any, **inputs: Any) -> Any:  # noqa: N807 (it replaces the class's own)
        frame = sys._getframe(1)
        place = watch.recorder.place(frame)
        interpreter = self._interpreter
        flags = note_run(interpreter, place, watch) | in_event_loop(place, frame)
        start = time.perf_counter_ns()
        try:
            return original(self, **inputs)
        finally:
            end = time.perf_counter_ns()
            kind = rows.SIGNATURE | flags << rows.FLAG_SHIFT
            watch.recorder.add_call(kind, watch.recorder.number_of(interpreter), place.number, start, end)
            place.runs += 1
            if place.runs in LOOKED_AT_ROUNDS:
                watch.calls.after_run(place)

    return __call__


def _ensure_safe(original: Any, watch: Instrumentation) -> Any:
    """LiteRT refuses to run while someone holds a view of its memory, and counts references to find out.

    A sampler that looks at a frame keeps what is in it alive for an instant; it must be through before the count.
    """

    @functools.wraps(original)
    def _ensure_safe(self: Any) -> Any:
        if not self._safe_to_run():
            watch.wait_for_sampler()
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

"""Patches of the new API: CompiledModel and TensorBuffer of ai_edge_litert."""

from __future__ import annotations

import functools
import sys
import time
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Final

from . import rows
from .c_calls import LOOKED_AT_ROUNDS
from .copy_probe import look_at_input, note_run
from .event_loops import in_event_loop
from .models import model_in_file, model_in_memory
from .recorder import NUMBER, PATCHED

if TYPE_CHECKING:
    from .patches import Patches

_BUFFERS: Final = (
    "create_input_buffers",
    "create_output_buffers",
    "create_input_buffer_by_name",
    "create_output_buffer_by_name",
)
_RESIZES: Final = ("resize_input_tensor",)


def patch_compiled_module(module: Any, patches: Patches) -> None:
    """Wrap the methods of the classes of such a module."""
    compiled, buffer = getattr(module, "CompiledModel", None), getattr(module, "TensorBuffer", None)
    if compiled is not None and PATCHED not in vars(compiled):
        for name in ("from_file", "from_buffer"):
            patches.replace(compiled, name, classmethod(_load(vars(compiled)[name], patches)))
        for name in ("run_by_index", "run_by_name"):
            patches.replace(compiled, name, _run(vars(compiled)[name], patches))
        for names, kind in ((_BUFFERS, rows.BUFFER), (_RESIZES, rows.RESIZE | rows.CHANGED << rows.FLAG_SHIFT)):
            for name in names:
                if name in vars(compiled):
                    patches.replace(compiled, name, _other(vars(compiled)[name], kind, patches))
        patches.replace(compiled, PATCHED, True)
        patches.on_litert()
    if buffer is not None and PATCHED not in vars(buffer):
        patches.replace(buffer, "write", _write(vars(buffer)["write"], patches))
        patches.replace(buffer, "read", _read(vars(buffer)["read"], patches))
        patches.replace(buffer, PATCHED, True)


def _load(original: Any, patches: Patches) -> Any:
    function = original.__func__

    @functools.wraps(function)
    def load(cls: Any, model: Any, *arguments: Any, **options: Any) -> Any:
        place = patches.recorder.place(sys._getframe(1))
        start = time.perf_counter_ns()
        made = function(cls, model, *arguments, **options)
        end = time.perf_counter_ns()
        which = model_in_file(model) if function.__name__ == "from_file" else model_in_memory(model, patches.recorder)
        given = {**dict(zip(("hardware_accel", "environment", "options"), arguments, strict=False)), **options}
        made.__dict__[NUMBER] = patches.recorder.new_object(
            {
                "type": "CompiledModel",
                "package": cls.__module__,
                "threads": _threads(given.get("options")),
                "delegates": int(_is_accelerated(given)),
                **which,
            }
        )
        patches.recorder.add_call(rows.LOAD, made.__dict__[NUMBER], place.number, start, end)
        patches.recorder.flush()  # its first run may be what crashes
        return made

    return load


def _threads(options: Any) -> int | None:
    threads = getattr(getattr(options, "cpu_options", None), "num_threads", None)
    return int(threads) if threads else None


def _is_accelerated(given: dict[str, Any]) -> bool:
    """Whether something else than the CPU was asked for."""
    asked = given.get("hardware_accel") or getattr(given.get("options"), "hardware_accelerators", None)
    return asked is not None and getattr(asked, "name", "CPU") != "CPU"


def _run(original: Any, patches: Patches) -> Any:
    calls = patches.calls
    recorder, ident, clock, getframe = patches.recorder, get_ident, time.perf_counter_ns, sys._getframe
    places, extend = recorder.places, recorder.rows.extend

    @functools.wraps(original)
    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        frame = getframe(1)
        place = places.get((id(frame.f_code), frame.f_lasti)) or recorder.place(frame)
        flags = note_run(self, place, patches) if patches.outputs or calls.looking else 0
        if patches.has_loops:
            flags |= in_event_loop(place, frame)
        start = clock()
        try:
            return original(self, *arguments, **options)
        finally:
            end = clock()
            number = self.__dict__.get(NUMBER) or recorder.number_of(self)
            extend((rows.INVOKE | flags << 4 | number << 8 | place.number << 24, ident(), start, end))
            place.runs += 1
            if place.runs in LOOKED_AT_ROUNDS:
                calls.after_run(place)

    return run


def _other(original: Any, kind: int, patches: Patches) -> Any:
    """Buffers know which model they were made for."""

    @functools.wraps(original)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        place = patches.recorder.place(sys._getframe(1))
        start = time.perf_counter_ns()
        made = original(self, *arguments, **options)
        end = time.perf_counter_ns()
        number = patches.recorder.number_of(self)
        for buffer in made if isinstance(made, list) else [made]:
            if buffer is not None:
                buffer.__dict__[NUMBER] = number
        patches.recorder.add_call(kind, number, place.number, start, end)
        return made

    return call


def _write(original: Any, patches: Patches) -> Any:
    recorder, ident, clock, getframe = patches.recorder, get_ident, time.perf_counter_ns, sys._getframe
    places, extend = recorder.places, recorder.rows.extend

    @functools.wraps(original)
    def write(self: Any, data_array: Any) -> Any:
        frame = getframe(1)
        place = places.get((id(frame.f_code), frame.f_lasti)) or recorder.place(frame)
        flags = getattr(data_array, "flags", None)
        odd = 0 if flags is not None and flags.c_contiguous else rows.ODD << rows.FLAG_SHIFT
        start = clock()
        try:
            result = original(self, data_array)
        finally:
            end = clock()
            number = self.__dict__.get(NUMBER, 0)
            extend((rows.SET | odd | number << 8 | place.number << 24, ident(), start, end))
        if odd and place.left:
            look_at_input(functools.partial(original, self), data_array, place, patches)
        return result

    return write


def _read(original: Any, patches: Patches) -> Any:
    recorder, ident, clock, getframe = patches.recorder, get_ident, time.perf_counter_ns, sys._getframe
    places, extend = recorder.places, recorder.rows.extend

    @functools.wraps(original)
    def read(self: Any, num_elements: Any, output_dtype: Any) -> Any:
        frame = getframe(1)
        place = places.get((id(frame.f_code), frame.f_lasti)) or recorder.place(frame)
        start = clock()
        try:
            return original(self, num_elements, output_dtype)
        finally:
            end = clock()
            number = self.__dict__.get(NUMBER, 0)
            extend((rows.GET | number << 8 | place.number << 24, ident(), start, end))

    return read

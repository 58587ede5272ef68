"""The engine's per-operator profile: its events, read and cleaned, one list for each profiled run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.block import RawEvent
from hasten.core.errors import AcceleratorError
from hasten.engine import abi
from hasten.engine.library import EngineError

if TYPE_CHECKING:
    from hasten.engine.compiled import CompiledModel
    from hasten.engine.library import Library

_KERNEL: Final = "kernel"
_OPERATOR: Final = "operator"
_INVOKE: Final = "invoke"


class Profiler:
    """Profiles single runs of a model that was compiled with profiling on."""

    def __init__(self, library: Library, model: CompiledModel) -> None:
        self._library, self._model = library, model
        self._handle = library.create("LiteRtCompiledModelGetProfiler", model.compiled)

    def profile_run(self) -> list[RawEvent]:
        """Run once and return what the engine timed, in its order."""
        self._library.call("LiteRtResetProfiler", self._handle)
        self._library.call("LiteRtStartProfiler", self._handle)
        try:
            self._model.run()
        except EngineError as error:
            raise AcceleratorError(
                f"LiteRT cannot profile this plan: {error}.", "Profile it on the CPU, or time it with hasten bench."
            ) from error
        finally:
            self._library.call("LiteRtStopProfiler", self._handle)
        count = self._library.integer("LiteRtGetNumProfilerEvents", self._handle)
        events = (abi.ProfilerEvent * max(count, 1))()
        self._library.call("LiteRtGetProfilerEvents", self._handle, count, events)
        return [found for event in events[:count] if (found := _event_from(event)) is not None]


def _event_from(event: abi.ProfilerEvent) -> RawEvent | None:
    """The event if it is one of ours. Telemetry events (types from 16) repeat others, or carry no duration at all."""
    tag = (event.tag or b"").decode(errors="replace")
    if event.type == abi.EVENT_OPERATOR:
        kind = _OPERATOR
    elif event.type in (abi.EVENT_DELEGATE_OPERATOR, abi.EVENT_DELEGATE_PROFILED_OPERATOR):
        kind = _KERNEL
    elif event.type == abi.EVENT_DEFAULT and tag == "Invoke":
        kind = _INVOKE
    else:
        return None
    return RawEvent(kind, tag, int(event.metadata1), int(event.metadata2), int(event.start_us), int(event.elapsed_us))

"""Why a runner went away without an answer: what its exit status, its log and the system's counters say."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

# What is written when an allocation fails, seen in the logs of LiteRT, XNNPACK, the C++ runtime and Python, whose
# import of a module can lose the MemoryError on its way up.
_OUT_OF_MEMORY_WORDS: Final = (
    "bad_alloc",
    "out of memory",
    "cannot allocate memory",
    "memoryerror",
    "failed to allocate",
    "can't start new thread",
    "returned null without setting an exception",
    "error return without exception set",
)
_MEMORY_HINT: Final = "Close other programs, raise --memory-limit, or use a smaller model."
_LOAD_HINT: Final = "A damaged file can do that, and so can a bug in LiteRT or in a delegate: try another plan."
_STAGE_WORDS: Final = {
    "start": "starting",
    "load": "loading the model",
    "run": "running the model",
    "profile": "profiling the model",
    "evaluate": "running the model on data",
    "make": "making a variant",
}
_VMSTAT: Final = Path("/proc/vmstat")


def memory_kills() -> int | None:
    """How many processes the kernel has killed for want of memory since boot; None where it does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in _VMSTAT.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None


def cause_of_death(stage: str, status: int, log: Sequence[str], kills_before: int | None) -> Failure:
    """The failure of a runner that ended with this status; a negative one is a signal."""
    doing, lines = _STAGE_WORDS[stage], tuple(log)
    if status == -signal.SIGKILL:
        return _killed(stage, doing, lines, kills_before)
    if any(word in line.lower() for line in lines for word in _OUT_OF_MEMORY_WORDS):
        return Failure(stage, "out of memory", f"the runner ran out of memory in {doing}", _MEMORY_HINT, lines)
    hint = _LOAD_HINT if stage == "load" else ""
    if status < 0:
        return Failure(stage, "crash", f"native code crashed with {_signal_name(-status)} in {doing}", hint, lines)
    if stage == "start":
        hint = "The lines above say why. Is hasten installed in the Python that runs it?" if lines else ""
    return Failure(stage, "crash", f"the runner ended with status {status} in {doing}", hint, lines)


def _killed(stage: str, doing: str, log: tuple[str, ...], kills_before: int | None) -> Failure:
    """Nobody can catch SIGKILL, so only the kernel's counter tells its own doing from somebody else's."""
    kills_now = memory_kills()
    if kills_before is None or kills_now is None:
        message = f"the runner was killed in {doing}, most likely for want of memory"
        return Failure(stage, "out of memory", message, _MEMORY_HINT, log)
    if kills_now > kills_before:
        message = f"the system killed the runner in {doing} for want of memory"
        return Failure(stage, "out of memory", message, _MEMORY_HINT, log)
    message = f"the runner was killed from outside (SIGKILL) in {doing}"
    return Failure(
        stage, "crash", message, "Somebody or some service ended it; the system was not short of memory.", log
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""Cause of a process's unexpected exit, from its exit status, its log and the system's counters."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from hasten.core.failure import MEMORY_LIMIT, Failure
from hasten.runner.agent import memory_kills
from hasten.runner.serving import START_FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What is written when an allocation fails, seen in the logs of LiteRT, XNNPACK, the C++ runtime and Python, whose
# import of a module can lose the MemoryError on its way up.
_OUT_OF_MEMORY_WORDS: Final = (
    "bad_alloc",
    "out of memory",
    "cannot allocate memory",
    "failed to map segment",
    "memoryerror",
    "failed to allocate",
    "can't start new thread",
    "returned null without setting an exception",
    "error return without exception set",
)
_MEMORY_HINT: Final = "Close other programs, raise --memory-limit, or use a smaller model."
_START_MEMORY_HINT: Final = "Raise --memory-limit: before it loads a model, a runner needs about 20 MB."
_LOAD_HINT: Final = (
    "Check the file or try another plan: a damaged file or a bug in LiteRT or a delegate can cause this."
)
STAGE_WORDS: Final = {
    "start": "while starting",
    "load": "while loading the model",
    "run": "while running the model",
    "profile": "while profiling the model",
    "evaluate": "while running the model on data",
    "make": "while making a variant",
}


def cause_of_death(
    name: str,
    stage: str,
    status: int,
    log: Sequence[str],
    kills_before: int | None,
    count_kills: Callable[[], int | None] = memory_kills,
) -> Failure:
    """The failure of a process of this name that ended with this status; a negative one is a signal."""
    stage = "start" if status == START_FAILED else stage
    when, lines = STAGE_WORDS[stage], tuple(log)
    if status == -signal.SIGKILL:
        return _killed(name, stage, lines, kills_before, count_kills())
    if any(word in line.lower() for line in lines for word in _OUT_OF_MEMORY_WORDS):
        hint = _START_MEMORY_HINT if stage == "start" else _MEMORY_HINT
        return Failure(stage, "out of memory", f"The {name} ran out of memory {when}.", hint, lines, MEMORY_LIMIT)
    hint = _LOAD_HINT if stage == "load" else ""
    if status < 0:
        message = f"The {name} crashed in native code ({_signal_name(-status)}) {when}."
        return Failure(stage, "crash", message, hint, lines)
    if stage == "start" and lines:
        hint = "Read the lines above. Install hasten in the Python that runs it if it is missing there."
    return Failure(stage, "crash", f"The {name} exited with status {status} {when}.", hint, lines)


def _killed(name: str, stage: str, log: tuple[str, ...], kills_before: int | None, kills_now: int | None) -> Failure:
    """The failure of a process that got SIGKILL: only the kernel's counter shows whether the kernel sent it."""
    when = STAGE_WORDS[stage]
    if kills_before is None or kills_now is None:
        message = f"The {name} was killed {when}, most likely because the memory ran out."
        return Failure(stage, "out of memory", message, _MEMORY_HINT, log)
    if kills_now > kills_before:
        message = f"The system killed the {name} {when} because the memory ran out."
        return Failure(stage, "out of memory", message, _MEMORY_HINT, log)
    message = f"Another process killed the {name} (SIGKILL) {when}."
    return Failure(stage, "crash", message, "Check which program did this: the system was not short of memory.", log)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

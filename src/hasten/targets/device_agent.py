"""hasten's side of the agent on a device (`runner.agent`): its requests as typed calls, and the beat that it needs.

The agent ends everything on the device once it has heard nothing for `patience_s`. A thread here sends a beat several
times in that time. Each one wakes the agent and the ssh server for a moment; runners have no timer of their own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import typed_from_data
from hasten.core.failure import RunnerFailed
from hasten.runner import agent as program_on_device
from hasten.runner.protocol import Message
from hasten.targets.link import ProcessLink, understood

if TYPE_CHECKING:
    import mmap

    from hasten.targets.link import Program

BEATS_A_PATIENCE: Final = 4
# Reads the agent's code, whose length comes first, from standard input without taking a byte more: requests follow it.
# One line, as not every login shell takes several.
BOOTSTRAP: Final = (
    'import os; read = lambda n: (lambda p: p + read(n - len(p)))(os.read(0, n)) if n else b""; '
    'exec(compile(read(int(read(8))), "agent", "exec"))'
)
_SECONDS: Final = 30.0
_SECONDS_TO_TELL: Final = 5.0


class Refused(OSError):
    """The agent refused a request, with a code of `runner.agent` and facts."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.code, self.facts = str(answer["refused"]), answer
        super().__init__(answer.get("why", self.code))

    @property
    def is_full(self) -> bool:
        """Whether the device has no room left."""
        return self.facts.get("errno") in (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What the agent says of its device when a session begins."""

    folder: str
    python: str
    version: tuple[int, ...]
    architecture: str
    bits: int
    engine: str | None
    """The installed release of LiteRT."""
    used_bytes: int | None = None
    """What hasten has stored there; only a session without the lock asks for it."""
    holder: dict[str, Any] | None = None
    """Who has the lock, where that is another session."""


class DeviceAgent:
    """A live agent. Safe to use from several threads."""

    def __init__(self, program: Program) -> None:
        self._link = ProcessLink(program)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._beats: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the connection to it stands, as far as this machine knows."""
        return not self._link.has_ended

    def open(self, folder: str, patience_s: float, holder: dict[str, Any] | None, seconds: float) -> DeviceFacts:
        """Begin a session. With a holder it takes the device's lock; Refused with BUSY where another one has it."""
        answer = self._ask("open", seconds, folder=folder, patience_s=patience_s, holder=holder)
        pause = patience_s / BEATS_A_PATIENCE
        self._beats = threading.Thread(target=self._beat, args=(pause,), name="device beat", daemon=True)
        self._beats.start()
        with understood("start"):
            return typed_from_data(DeviceFacts, answer)

    def has(self, name: str) -> tuple[bool, int]:
        """Whether the device has this file; and how many bytes there is room for."""
        answer = self._ask("has", name=name)
        with understood("start"):
            return bool(answer["has"]), int(answer["free_bytes"])

    def put(self, content: bytes | mmap.mmap, name: str, digest: str, seconds: float) -> None:
        """Write a file there, whole or not at all."""
        self._ask("put", seconds, (memoryview(content),), name=name, sha256=digest)

    def remove(self, name: str) -> None:
        """Remove a file there; nothing if there is none."""
        self._ask("remove", name=name)

    def end(self, pid: int) -> bool:
        """Kill a process there, with all that it started; whether that is known to have worked."""
        try:
            return bool(self._ask("end", _SECONDS_TO_TELL, pid=pid).get("gone"))
        except (RunnerFailed, Refused):  # with the agent, everything ends
            return False

    def lifeline(self) -> tuple[str, int | None]:
        """A pipe that one program there ends with; and the count of `memory_kills` before it starts."""
        answer = self._ask("lifeline")
        with understood("start"):
            return str(answer["lifeline"]), answer["memory_kills"]

    def release(self, lifeline: str) -> None:
        """A program has ended; whatever it has left running there ends now."""
        with contextlib.suppress(RunnerFailed, Refused):  # with the agent, everything ends
            self._ask("release", _SECONDS_TO_TELL, lifeline=lifeline)

    def memory_kills(self) -> int | None:
        """How many processes the device's kernel killed since boot because memory ran out."""
        answer = self._ask("count_memory_kills")
        with understood("start"):
            kills: int | None = answer["memory_kills"]
            return kills

    def clean(self, seconds: float) -> int:
        """Remove everything that hasten has there; how many bytes that were."""
        answer = self._ask("clean", seconds)
        with understood("start"):
            return int(answer["freed_bytes"])

    def close(self) -> None:
        """End the agent, and with it whatever still runs. Safe to call more than once."""
        self._ended.set()
        with self._lock:
            self._link.close()
        if self._beats is not None and self._beats is not threading.current_thread():
            self._beats.join()

    def _beat(self, pause: float) -> None:
        while not self._ended.wait(pause):
            # While a request is under way, its bytes are the sign of life, or the agent is at work and waits for none.
            with self._lock:
                if self._ended.is_set() or not self._link.tell(Message({"request": "beat"}), _SECONDS_TO_TELL):
                    return

    def _ask(
        self, request: str, seconds: float = _SECONDS, frames: tuple[memoryview, ...] = (), **fields: Any
    ) -> dict[str, Any]:
        with self._lock:
            body = self._link.ask(Message({"request": request, **fields}, frames), stage="start", seconds=seconds).body
        if "refused" in body:
            raise Refused(body)
        return body


def agent_preamble() -> bytes:
    """What the agent's interpreter reads first: the length of its program in eight digits, and the program."""
    code = Path(os.fspath(program_on_device.__file__)).read_bytes()
    return b"%08d" % len(code) + code

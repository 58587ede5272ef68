"""The program that keeps a device for one session. hasten sends this file through ssh, and the Python there runs it.

It holds the device's lock, stores files, ends runners when asked, and listens for hasten's beat: when there is none for
too long, or its input ends, it leaves. Every runner has a named pipe open, its lifeline, whose other end this program
holds: when it ends, for whatever reason, the kernel ends them, even inside native code, without a timer in any runner.

Nothing else of hasten is on the device yet: this module needs the standard library only, and a Python that is too old
for the rest of hasten must still run it, to say so. It speaks the frames of `protocol`; a frame goes to the disk as it
arrives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# Why a request was refused: what the system said, another session has the device, the content is another than was
# announced, the name leads out of the folder, the folder has files of somebody else.
SYSTEM = "system"
BUSY = "busy"
CHANGED = "changed"
OUTSIDE = "outside"
FOREIGN = "foreign"
_LENGTH = struct.Struct("<Q")
_PIECE_BYTES = 1 << 16
# Room that must be left on the device: logs and the system need some.
_SPARE_BYTES = 16 << 20
_FIRST_PATIENCE_S = 20.0
_SECONDS_TO_END = 1.0
_LOCK = Path("lock")
# Stands in every folder that is hasten's: only there anything is removed.
_MARKER = Path(".hasten-device")
# The root of a disk has this from the beginning.
_OF_THE_DISK = "lost+found"
_VMSTAT = Path("/proc/vmstat")
_FILES = "files"
SAMPLES = "samples"
"""The folder of samples that evaluations of one session share."""
_ENVIRONMENT = "venv"
_DIGEST_LETTERS = 64
_SECONDS_KEPT = 30 * 24 * 3600.0


class Silence(Exception):
    """No sign of life for too long, or the end of the input."""


class Refusal(Exception):
    """What a request cannot have, as a code and facts."""

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(code)
        self.answer = {"ok": True, "refused": code, **facts}


class Requests:
    """What comes from hasten. Each byte is a sign of life, so that a large file needs no beats in between."""

    def __init__(self, descriptor: int) -> None:
        self.patience_s = _FIRST_PATIENCE_S
        self._descriptor = descriptor

    def piece(self, most: int) -> bytes:
        """Some bytes, this number at most."""
        ready, _, _ = select.select([self._descriptor], [], [], self.patience_s)
        data = os.read(self._descriptor, min(most, _PIECE_BYTES)) if ready else b""
        if not data:
            raise Silence
        return data

    def exactly(self, count: int) -> bytes:
        """Just this number of bytes."""
        pieces = []
        while count:
            pieces.append(self.piece(count))
            count -= len(pieces[-1])
        return b"".join(pieces)

    def next(self) -> dict[str, Any]:
        """The next request. Its frames, whose sizes it lists, have yet to be read."""
        (length,) = _LENGTH.unpack(self.exactly(_LENGTH.size))
        request: dict[str, Any] = json.loads(self.exactly(length))
        return request


class Agent:
    """Answers request after request. All names are relative to hasten's folder, which is the working folder."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lifeline_folder = ""
        self._lifelines: dict[str, int] = {}
        self._lifelines_made = 0
        self._has_lock = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None for a beat, which wants none."""
        if request["request"] == "beat":
            return None
        try:
            return {"ok": True, **getattr(self, "_" + request["request"])(request)}
        except Refusal as refusal:
            return refusal.answer
        except (OSError, ValueError) as error:
            told = getattr(error, "strerror", None) or str(error)
            return {"ok": True, "refused": SYSTEM, "errno": getattr(error, "errno", None), "why": told}

    def close(self) -> None:
        """End what runs here, and leave nothing behind but staged files."""
        for descriptor in self._lifelines.values():
            os.close(descriptor)
        if self._lifeline_folder:
            shutil.rmtree(self._lifeline_folder, ignore_errors=True)
        if self._has_lock:
            shutil.rmtree(SAMPLES, ignore_errors=True)

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Begin a session: the folder; the lock, for a session that has a holder; the lifeline; facts."""
        folder = _enter(request["folder"])
        self._requests.patience_s = request["patience_s"]
        if request["holder"]:
            _take_lock(request["holder"])
            self._has_lock = True
            shutil.rmtree(SAMPLES, ignore_errors=True)  # of a session that broke off
            _forget_old()
        # Not in hasten's own folder: not every file system of a memory card has named pipes.
        self._lifeline_folder = tempfile.mkdtemp(prefix="hasten-")
        return {
            "folder": str(folder),
            "python": sys.executable,
            "version": list(sys.version_info[:3]),
            "architecture": platform.machine(),
            "bits": 64 if sys.maxsize > 2**32 else 32,
            "engine": _engine(),
            "used_bytes": None if request["holder"] else _used_bytes(),
            "holder": None if request["holder"] else _holder(),
        }

    def _lifeline(self, _request: dict[str, Any]) -> dict[str, Any]:
        """A pipe for one program: before Linux 5.6, who left a shared one would have taken all others along."""
        path = str(Path(self._lifeline_folder) / str(self._lifelines_made))
        self._lifelines_made += 1
        os.mkfifo(path, 0o600)
        self._lifelines[path] = os.open(path, os.O_RDWR)  # for reading as well, or it would wait for a reader
        return {"lifeline": path, "memory_kills": memory_kills()}

    def _release(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let go of a program that has ended; what it has left running ends now."""
        descriptor = self._lifelines.pop(request["lifeline"], None)
        if descriptor is not None:
            os.close(descriptor)
            Path(request["lifeline"]).unlink()
        return {}

    def _has(self, request: dict[str, Any]) -> dict[str, Any]:
        path = _inside(request["name"])
        with contextlib.suppress(OSError, ValueError):
            os.utime(path)  # it is in use: see _forget_old
        return {"has": path.is_file(), "free_bytes": _free_bytes()}

    def _remove(self, request: dict[str, Any]) -> dict[str, Any]:
        path = _inside(request["name"])
        with contextlib.suppress(OSError):
            path.unlink()
            path.parent.rmdir()
        return {}

    def _put(self, request: dict[str, Any]) -> dict[str, Any]:
        """Write a file, whole or not at all."""
        (size,) = request["frames"]
        place = _inside(request["name"])
        part = place.with_name(f"{os.getpid()}.part")
        try:
            digest = self._receive(part, size)
            if digest != request["sha256"]:
                raise Refusal(CHANGED)
            part.replace(place)
        finally:
            with contextlib.suppress(OSError, ValueError):
                part.unlink()
        return {}

    def _receive(self, path: Path, left: int) -> str:
        """Write a frame to a file; its SHA-256. On a full disk it is read all the same: the next request follows it."""
        digest = hashlib.sha256()
        trouble: Exception | None = None
        with contextlib.ExitStack() as stack:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file = stack.enter_context(path.open("wb", buffering=0))
            except (OSError, ValueError) as error:  # a zero in a name is no name for Python
                trouble = error
            while left:
                piece = self._requests.piece(left)
                left -= len(piece)
                digest.update(piece)
                try:
                    if trouble is None:
                        _write_all(file.fileno(), piece)
                except OSError as error:
                    trouble = error
            if trouble is not None:
                raise trouble
            os.fsync(file.fileno())  # a device that loses its power must not find an empty file of this name
        return digest.hexdigest()

    def _end(self, request: dict[str, Any]) -> dict[str, Any]:
        """Kill a runner and everything in its process group; whether all of them are gone."""
        deadline = time.monotonic() + _SECONDS_TO_END
        while time.monotonic() < deadline:
            try:
                os.killpg(request["pid"], signal.SIGKILL)
            except ProcessLookupError:
                return {"gone": True}
            except PermissionError:
                break
            time.sleep(0.005)
        return {"gone": False}

    def _count_memory_kills(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"memory_kills": memory_kills()}

    def _clean(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Remove everything that hasten has on this device, and nothing that others have put next to it.

        Next to that, the marker stays: without it the folder would be refused as that of somebody else.
        """
        before = _used_bytes()
        for name in (_FILES, SAMPLES, _ENVIRONMENT):
            shutil.rmtree(name, ignore_errors=True)
        if not {path.name for path in Path().iterdir()} - {_LOCK.name, _MARKER.name}:
            with contextlib.suppress(FileNotFoundError):
                _MARKER.unlink()
        return {"freed_bytes": before - _used_bytes()}


def main() -> None:
    """Serve until told to close, or until hasten is silent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever prints, prints into the log
    os.write(answers, f"\0hasten agent {os.getpid()}\0".encode())
    requests = Requests(0)
    agent = Agent(requests)
    try:
        while True:
            request = requests.next()
            if request["request"] == "close":
                break
            answer = agent.answer(request)
            if answer is not None:
                text = json.dumps({**answer, "frames": []}).encode()
                _write_all(answers, _LENGTH.pack(len(text)) + text)
    except (Silence, OSError):
        pass
    finally:
        agent.close()


def _enter(named: str) -> Path:
    """Make hasten's folder, and work in it; Refusal where that would be a folder of somebody else."""
    folder = _folder(named)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chdir(folder)
    if not _MARKER.is_file():
        foreign = _foreign() if named else ""
        if foreign:
            raise Refusal(FOREIGN, folder=str(folder), name=foreign)
        _MARKER.touch(0o600)
    return folder


def _foreign() -> str:
    """The name of something here that hasten did not make; nothing if the folder is empty, or of an earlier release.

    Such a release left no marker, but files by their digests, and a lock that tells its holder.
    """
    names = sorted(path.name for path in Path().iterdir() if path.name != _OF_THE_DISK)
    files = [path.name for path in Path(_FILES).glob("*")]
    known = (_FILES, SAMPLES, _ENVIRONMENT, _LOCK.name)
    strange = [name for name in names if name not in known]
    strange += [f"{_FILES}/{name}" for name in files if not _is_digest(name)]
    if not files and "session" not in _read_holder():
        strange += names
    return strange[0] if strange else ""


def _is_digest(name: str) -> bool:
    return len(name) == _DIGEST_LETTERS and not set(name) - set("0123456789abcdef")


def _folder(named: str) -> Path:
    if named:
        return Path(named).expanduser().absolute()
    # As core/cache_folder.py has it, which is not on the device.
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hasten" / "device"


def _inside(name: str) -> Path:
    """The file, if it is below the folder."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise Refusal(OUTSIDE, name=name)
    return path


def _engine() -> str | None:
    """The release of LiteRT that this Python has."""
    try:
        import importlib.metadata

        return importlib.metadata.version("ai-edge-litert")
    except ImportError:  # not installed, or a Python before 3.8
        return None


def _free_bytes() -> int:
    status = os.statvfs(".")
    return max(0, status.f_bavail * status.f_frsize - _SPARE_BYTES)


def memory_kills() -> int | None:
    """How many processes the kernel killed since boot because memory ran out; None where it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in _VMSTAT.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None


def _forget_old() -> None:
    """Remove files that no session has used for weeks."""
    oldest = time.time() - _SECONDS_KEPT
    for path in Path(_FILES).glob("*"):
        with contextlib.suppress(OSError):
            if max((entry.stat().st_mtime for entry in path.iterdir()), default=0.0) < oldest:
                shutil.rmtree(path)


def _used_bytes() -> int:
    total = 0
    for folder, _, names in os.walk("."):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(folder) / name).lstat().st_size
    return total


def _take_lock(holder: dict[str, Any]) -> None:
    """One session at a time: two would disturb each other's timings. The lock goes with this process."""
    descriptor = os.open(_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise Refusal(BUSY, holder=_read_holder()) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({**holder, "since": time.time()}).encode(), 0)


def _holder() -> dict[str, Any] | None:
    """Who has the lock; None if nobody has."""
    with contextlib.suppress(OSError):
        descriptor = os.open(_LOCK, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return _read_holder()
        finally:
            os.close(descriptor)
    return None


def _read_holder() -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        holder = json.loads(_LOCK.read_text())
        if isinstance(holder, dict):
            return holder
    return {}


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()

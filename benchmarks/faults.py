"""Faults: planted problems of machine, engine, model, data and session, and faults that must not change an answer.

Wanted: hasten names each planted problem, and none of them on a clean set-up; what it can survive changes no answer;
nothing ends in a traceback or a hang, and no file is overwritten. The faults are real: processes that take the cores
or the memory, full disks, signals, clocks that jump, a delegate that computes wrongly. To add one, add a line to CASES.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tests import example_models
from tests.model_builder import ModelBuilder

from benchmarks.common import ROOT, own_folder, record
from hasten import demo
from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.core.errors import HastenError
from hasten.core.plan import Plan
from hasten.core.session import SessionWriter
from hasten.engine.accelerators import process_environment
from hasten.model.edit.file import read_object, write_object
from hasten.practices import accelerators

if TYPE_CHECKING:
    from collections.abc import Callable

    Plant = Callable[["Setup"], None]
    Test = Callable[["Shown"], bool]

_HANG_SECONDS: Final = 120
_DELEGATE: Final = ROOT / "tests" / "contract" / "planted_delegate.c"
_CLOCK: Final = Path(__file__).with_name("jumping_clock.c")
_HEADERS: Final = Path(accelerators.__file__).parent / "delegate_template"
_GROUP: Final = Path("/sys/fs/cgroup/memory/hasten-faults")
_SIZE: Final = 16
# What a check may come to without a fault.
_NO_FAULT: Final = ("ok", "good", "not applicable")


@dataclass(slots=True)
class Setup:
    """Where a command runs; a fault changes the folder, the environment, or what stands before the command."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    delegate: str = "planted.so"
    during: Callable[[subprocess.Popen[str]], None] | None = None
    """What happens to the command's process while it runs."""
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What ends the fault."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a user has seen."""

    code: int
    output: str
    errors: str

    @property
    def text(self) -> str:
        """All of it, in one line."""
        return " ".join(f"{self.output} {self.errors}".split())

    @property
    def json(self) -> dict[str, Any]:
        """The document; empty if the output is none."""
        with contextlib.suppress(ValueError):
            found = json.loads(self.output)
            return found if isinstance(found, dict) else {}
        return {}

    @property
    def is_sound(self) -> bool:
        """Neither a traceback, nor a hang, nor a bug; and one JSON document where one was asked for."""
        return self.code in (0, 1, 2, 3, 4) and "Traceback" not in self.text and "bug in hasten" not in self.text


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, the command that meets it, and what shows that hasten named or survived it."""

    name: str
    area: str
    command: str
    """With the files of the clean set-up, which the fault may change."""
    test: Test
    plant: Plant
    needs: str = ""
    survives: bool = False
    """Whether the test must hold on the clean set-up as well: the fault changes nothing."""


# --- what shows that a problem was named


def doubt(code: str) -> Test:
    """A figure has this doubt."""
    return lambda shown: shown.code == 0 and code in {entry["code"] for entry in shown.json.get("doubts", ())}


def warns(check: str) -> Test:
    """The doctor has something to say about this."""
    return lambda shown: any(
        entry["name"] == check and entry["status"] not in _NO_FAULT for entry in shown.json.get("checks", ())
    )


def row(status: str, words: str = "") -> Test:
    """The row of the planted delegate has this status, and it is not what is recommended."""

    def test(shown: Shown) -> bool:
        rows = [entry for entry in shown.json.get("rows", ()) if entry["name"].startswith("planted")]
        recommended = str(shown.json.get("recommended", ""))
        return bool(rows) and all(
            entry["status"] == status and words in entry["why"] and not recommended.startswith("planted")
            for entry in rows
        )

    return test


def slow_row(shown: Shown) -> bool:
    """The planted delegate takes the 2 ms that it waits, and is not recommended."""
    rows = [entry for entry in shown.json.get("rows", ()) if entry["name"].startswith("planted")]
    slow = bool(rows) and all((entry["latency"] or {}).get("median_ms", 0) >= 2 for entry in rows)
    return slow and not str(shown.json.get("recommended", "")).startswith("planted")


def says(code: int, pattern: str) -> Test:
    """It ends with this code and a sentence."""
    return lambda shown: shown.code == code and re.search(pattern, shown.text) is not None


def class_is(number: int) -> Test:
    """The prediction is this class."""
    return lambda shown: shown.code == 0 and [entry["index"] for entry in shown.json["top"]][:1] == [number]


def measures(shown: Shown) -> bool:
    """A latency that can be one."""
    latency = shown.json.get("latency", {})
    return shown.code == 0 and 0 < latency.get("min_ms", -1) <= latency.get("median_ms", 0) < 1000


# --- faults


def no_fault(_setup: Setup) -> None:
    """The clean set-up."""


def hogs(setup: Setup) -> None:
    """A busy loop for each core."""
    for _ in range(os.cpu_count() or 1):
        loop = setup.undo.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        setup.undo.callback(loop.kill)


def clock(settings: str) -> Plant:
    """A clock that jumps or is coarse, for hasten and its runners."""

    def plant(setup: Setup) -> None:
        setup.environment |= {"LD_PRELOAD": str(_library(_CLOCK)), "PLANTED_CLOCK": settings}

    return plant


def memory_group(limit_mb: int, taken_mb: int = 0) -> Plant:
    """A control group with a limit, of which another process has taken a part."""

    def plant(setup: Setup) -> None:
        _GROUP.mkdir(exist_ok=True)
        setup.undo.callback(_GROUP.rmdir)
        (_GROUP / "memory.limit_in_bytes").write_text(str(limit_mb * 2**20))
        join = f"echo $$ > {_GROUP}/cgroup.procs; "
        hold = f"memory = bytearray({taken_mb} * 2**20); print(flush=True); input()"
        command = ["sh", "-c", f'{join}exec "$0" -c "$1"', sys.executable, hold]
        hog = setup.undo.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        setup.undo.callback(hog.kill)
        assert hog.stdout is not None
        hog.stdout.readline()
        setup.before = ["sh", "-c", join + 'exec "$0" "$@"']

    return plant


def full_disk(setup: Setup) -> None:
    """A file system without room, where the folder `disk` was."""
    disk = setup.folder / "disk"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], check=True)
    setup.undo.callback(subprocess.run, ["umount", str(disk)], check=True)
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def no_room_for_temporary_files(setup: Setup) -> None:
    """/tmp, /var/tmp and the working folder are full, in a mount namespace of their own."""
    full_disk(setup)
    places = [place for place in ("/tmp", "/var/tmp") if Path(place).is_dir()]
    hide = " && ".join(f"mount --bind {setup.folder}/disk {place}" for place in reversed(places))
    inside = f'PYTHONPATH="{os.pathsep.join(sys.path)}"; export PYTHONPATH; cd {setup.folder}/disk && {hide} && '
    setup.before = ["unshare", "-m", "sh", "-c", inside + 'exec "$0" "$@"']


def environment(**variables: str) -> Plant:
    """Other variables."""

    def plant(setup: Setup) -> None:
        setup.environment |= {name: value.format(folder=setup.folder) for name, value in variables.items()}

    return plant


def through(*words: str) -> Plant:
    """The command as it is started by another."""

    def plant(setup: Setup) -> None:
        setup.before = list(words)

    return plant


def signalled(*signals: signal.Signals, everything: bool = False) -> Plant:
    """The second runner gets these signals, three seconds apart; or all processes of the command do."""

    def during(process: subprocess.Popen[str]) -> None:
        runners = _wait_for_runners(process, 2)
        for place, number in enumerate(signals):
            if place:
                time.sleep(3)
            for pid in [process.pid, *_children(process.pid)] if everything else runners[-1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def plant(setup: Setup) -> None:
        setup.during = during

    return plant


def delegate(**settings: object) -> Plant:
    """The delegate with these options."""

    def plant(setup: Setup) -> None:
        setup.delegate += ":" + ";".join(f"{name}={value}" for name, value in settings.items())

    return plant


def changed(name: str, change: Callable[[bytes], bytes]) -> Plant:
    """A file of the set-up with other content."""

    def plant(setup: Setup) -> None:
        path = setup.folder / name
        path.write_bytes(change(path.read_bytes()))

    return plant


def arrays(**given: Any) -> Plant:
    """Other arrays in the data."""

    def plant(setup: Setup) -> None:
        np.savez(setup.folder / "data.npz", **{**_data(), **given})

    return plant


def model(make: Callable[[Path], object]) -> Plant:
    """Another model in the place of the set-up's."""

    def plant(setup: Setup) -> None:
        make(setup.folder / "model.tflite")

    return plant


def half(content: bytes) -> bytes:
    """What a broken download leaves."""
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """A bit flipped in a digit of the last line: another number."""
    place = [at for at, byte in enumerate(content) if byte in b"23456789"][-20]
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def newer(content: bytes) -> bytes:
    """A session of a later release."""
    return content.replace(b'"hasten_session": 1', b'"hasten_session": 2', 1)


def without_library(setup: Setup) -> None:
    """An engine whose shared library is cut in half."""
    import ai_edge_litert

    package = setup.folder / "engine" / "ai_edge_litert"
    package.mkdir(parents=True)
    for path in Path(ai_edge_litert.__file__).parent.iterdir():
        (package / path.name).symlink_to(path)
    library = package / "libLiteRt.so"
    content = library.read_bytes()
    library.unlink()
    library.write_bytes(half(content))
    environment(PYTHONPATH="{folder}/engine:" + os.pathsep.join(sys.path))(setup)


def damaged_cache(setup: Setup) -> None:
    """Flipped bits in the packed weights that an earlier run has left."""
    shown(_CACHED, setup)
    (weights,) = (setup.folder / "cache").rglob("*.xnnpack_cache")
    content = bytearray(weights.read_bytes())
    for place in range(len(content) // 4, len(content), 997):
        content[place] ^= 0x40
    weights.write_bytes(content)


def other_cache(setup: Setup) -> None:
    """The cache of a model with the same structure and other weights: one that was trained again."""
    found = read_object(demo.MODEL)
    for buffer in found.buffers:
        if buffer.data is not None and len(buffer.data) > 1000:
            values = np.frombuffer(bytes(buffer.data), np.float32)
            buffer.data = np.random.default_rng(0).permutation(values).view(np.uint8)
    write_object(found, setup.folder / "other.tflite", demo.MODEL)
    shown(_CACHED.replace("demo", "other.tflite"), setup)


def damaged_peaks(setup: Setup) -> None:
    """Impossible numbers in the file that keeps what was measured of this machine."""
    shown(_PROFILE, setup)
    for path in (setup.folder / "disk" / "hasten").glob("peaks-*.json"):
        path.write_text(path.read_text().replace('"float_gflops": ', '"float_gflops": -'))


def killed_session(setup: Setup) -> None:
    """A session of a hasten that got SIGKILL while it measured."""
    session = setup.folder / "killed.jsonl"
    session.unlink()
    with _started("threads demo --seconds 20 --session killed.jsonl", setup) as process:
        _wait_for_runners(process, 8)
        process.kill()


def without_labels(_content: bytes) -> bytes:
    """Samples alone."""
    stream = io.BytesIO()
    np.savez(stream, x=_images())
    return stream.getvalue()


def peaks_are_sound(shown: Shown) -> bool:
    """Peaks that a machine can have."""
    return shown.code == 0 and (shown.json.get("peaks") or {}).get("float_gflops", 0) > 0


def _images(nan: int | None = None) -> Any:
    values = np.random.default_rng(0).random((8, _SIZE, _SIZE, 3), np.float32)
    if nan is not None:
        values[nan] = np.nan
    return values


def _data() -> dict[str, Any]:
    return {"x": _images(), "y": np.arange(8) % 3}


def _write_nan(path: Path) -> None:
    found = read_object(path)
    tensor = next(tensor for tensor in found.subgraphs[0].tensors if _has_floats(found, tensor))
    values = np.frombuffer(bytes(found.buffers[tensor.buffer].data), np.float32).copy()
    values[0] = np.nan
    found.buffers[tensor.buffer].data = values.view(np.uint8)
    write_object(found, path, path)


def _write_bad_scale(path: Path) -> None:
    _edit_quantization(path, lambda given: -given)


def _write_clipping(path: Path) -> None:
    _edit_quantization(path, lambda given: given * 64)


def _edit_quantization(path: Path, change: Callable[[float], float]) -> None:
    """Other scales for the largest constant of an int8 model."""
    path.write_bytes(example_models.mobilenet_like(8, 1, _SIZE, dtype="int8"))
    found = read_object(path)
    constants = [tensor for tensor in found.subgraphs[0].tensors if found.buffers[tensor.buffer].data is not None]
    largest = max(constants, key=lambda tensor: len(found.buffers[tensor.buffer].data))
    largest.quantization.scale = [change(scale) for scale in largest.quantization.scale]
    write_object(found, path, path)


def _write_dead_code(path: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.tanh(g.mul(x, x))
    g.output(g.add(x, x), "y")
    path.write_bytes(g.build())


def _write_double_weights(path: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 64))
    weights = np.random.default_rng(0).random((1, 64), np.float32)
    g.output(g.add(g.mul(x, g.constant(weights)), g.constant(weights.copy())), "y")
    path.write_bytes(g.build())


def _has_floats(found: Any, tensor: Any) -> bool:
    data = found.buffers[tensor.buffer].data
    return tensor.type == 0 and data is not None and len(data) > 0


def _write_custom(path: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.custom("NobodysOperator", [x], (1, 4)), "y")
    path.write_bytes(g.build())


_CHECK: Final = "check model.tflite --data data.npz --limit accuracy=0.1% --seconds 0.1 --json"
_ACCELERATORS: Final = "accelerators sums.tflite --delegate {delegate} --seconds 1 --time-limit 5 --json"
_RUN: Final = "run model.tflite --input x.npy --json"
_DOCTOR_MODEL: Final = "doctor model.tflite --seconds 1 --json"
_BENCH: Final = "bench demo --seconds 1 --json"
_LONG: Final = "bench demo --seconds 4 --time-limit 2 --json"
_PROFILE: Final = "profile model.tflite --seconds 0.5 --json"
_CACHED: Final = "run demo@cache=cache --input digit.npy --json"
_REPORT: Final = "report session.jsonl --format md"
_DOCTOR: Final = "doctor --json"
ROOT_USER, COMPILER, GPU = "root", "compiler", "gpu"
CASES: Final = (
    # machine
    Case("CPU hog", "machine", _BENCH, doubt("other-load"), hogs),
    Case("CPU hog that has just begun", "machine", _DOCTOR, warns("other load"), hogs),
    Case("little memory left", "machine", _DOCTOR, warns("memory"), memory_group(2048, 1400), ROOT_USER),
    Case("container with little memory", "machine", _DOCTOR, warns("memory"), memory_group(600), ROOT_USER),
    Case(
        "memory runs out",
        "machine",
        "bench large.tflite --seconds 0.5 --json",
        says(3, "memory"),
        memory_group(150),
        ROOT_USER,
    ),
    Case("coarse clock", "machine", _BENCH, doubt("coarse-timer"), clock("monotonic:0:0:10"), COMPILER),
    Case(
        "clock that goes backwards", "machine", _BENCH, doubt("clock-backwards"), clock("monotonic:37:-50:0"), COMPILER
    ),
    Case(
        "wall clock that jumps", "machine", _BENCH, measures, clock("realtime:5:-86400000:0"), COMPILER, survives=True
    ),
    Case(
        "suspended machine",
        "machine",
        _LONG,
        measures,
        signalled(signal.SIGSTOP, signal.SIGCONT, everything=True),
        survives=True,
    ),
    Case(
        "full disk, session",
        "machine",
        "bench demo --seconds 0.5 --session disk/s.jsonl --json",
        says(3, "s.jsonl cannot be written: No space left"),
        full_disk,
        ROOT_USER,
    ),
    Case(
        "full disk, report",
        "machine",
        "report session.jsonl -o disk/r.html",
        says(3, "r.html cannot be written: No space left"),
        full_disk,
        ROOT_USER,
    ),
    Case(
        "full disk, output",
        "machine",
        _BENCH,
        says(3, "output cannot be written: No space left"),
        through("sh", "-c", 'exec "$0" "$@" > /dev/full'),
    ),
    Case(
        "no room for temporary files",
        "machine",
        _BENCH,
        says(4, "no folder in which it can write temporary files"),
        no_room_for_temporary_files,
        ROOT_USER,
    ),
    Case(
        "too few open files",
        "machine",
        _BENCH,
        says(4, "Too many open files"),
        through("sh", "-c", 'ulimit -n 7; exec "$0" "$@"'),
    ),
    Case("cache folder that is none", "machine", _DOCTOR, warns("cache"), environment(XDG_CACHE_HOME="/dev/null")),
    Case("cache folder without room", "machine", _DOCTOR, warns("cache"), full_disk, ROOT_USER),
    Case(
        "runner killed",
        "machine",
        _LONG,
        says(0, r"Another process killed the runner \(SIGKILL\)"),
        signalled(signal.SIGKILL),
    ),
    Case("runner stopped", "machine", _LONG, says(0, "did not answer within 2"), signalled(signal.SIGSTOP)),
    Case(
        "GPU driver removed",
        "machine",
        _DOCTOR,
        warns("runs on a GPU"),
        environment(VK_ICD_FILENAMES="/nowhere.json"),
        GPU,
    ),
    # engine
    Case("delegate with wrong numbers", "engine", _ACCELERATORS, row("wrong"), delegate(fault="wrong"), COMPILER),
    Case("delegate that computes nothing", "engine", _ACCELERATORS, row("wrong"), delegate(fault="lazy"), COMPILER),
    Case(
        "delegate that stops computing",
        "engine",
        _ACCELERATORS,
        row("wrong", "some hundred runs"),
        delegate(fault="lazy", after=40),
        COMPILER,
    ),
    Case("delegate that is slow", "engine", _ACCELERATORS, slow_row, delegate(fault="slow"), COMPILER),
    Case(
        "delegate that crashes",
        "engine",
        _ACCELERATORS,
        row("failed", "SIGSEGV"),
        delegate(at="invoke", fault="segfault"),
        COMPILER,
    ),
    Case(
        "delegate that hangs",
        "engine",
        _ACCELERATORS,
        row("failed", "did not answer"),
        delegate(at="invoke", fault="hang"),
        COMPILER,
    ),
    Case(
        "delegate that takes nothing",
        "engine",
        _ACCELERATORS,
        row("failed", "took none"),
        delegate(fault="none"),
        COMPILER,
    ),
    Case("delegate cut in half", "engine", _ACCELERATORS, row("failed"), changed("planted.so", half), COMPILER),
    Case("engine cut in half", "engine", _DOCTOR, warns("engine"), without_library),
    Case("damaged cache of weights", "engine", _CACHED, class_is(1), damaged_cache, survives=True),
    Case("weights of another model in the cache", "engine", _CACHED, class_is(1), other_cache, survives=True),
    Case("damaged cache of peaks", "engine", _PROFILE, peaks_are_sound, damaged_peaks, survives=True),
    # model
    Case("model cut in half", "model", _RUN, says(3, "model.tflite is damaged"), changed("model.tflite", half)),
    Case(
        "model that is a page",
        "model",
        _RUN,
        says(3, "not a TensorFlow Lite model"),
        changed("model.tflite", lambda _: b"<html>not found</html>"),
    ),
    Case("model with NaN weights", "model", _RUN, says(0, '"non_finite": [1-9]'), model(_write_nan)),
    Case(
        "model with an unknown operator",
        "model",
        "bench model.tflite --seconds 0.1 --json",
        says(3, "NobodysOperator"),
        model(_write_custom),
    ),
    Case(
        "model with open shapes",
        "model",
        "bench model.tflite --seconds 0.5 --json",
        doubt("open-shape"),
        model(lambda path: path.write_bytes(example_models.open_image())),
    ),
    Case("NaN weights, asked of doctor", "model", _DOCTOR_MODEL, warns("weights"), model(_write_nan)),
    Case("negative scale", "model", _DOCTOR_MODEL, warns("quantization parameters"), model(_write_bad_scale)),
    Case("scales of another layer", "model", _DOCTOR_MODEL, warns("quantization parameters"), model(_write_clipping)),
    Case("operators that nobody needs", "model", _DOCTOR_MODEL, warns("unused operators"), model(_write_dead_code)),
    Case("weights stored twice", "model", _DOCTOR_MODEL, warns("duplicated weights"), model(_write_double_weights)),
    # data
    Case("NaN in the data", "data", _CHECK, says(3, "sample 5"), arrays(x=_images(nan=5))),
    Case(
        "label beyond the classes",
        "data",
        _CHECK,
        says(3, "sample 4"),
        arrays(y=np.array([0, 1, 2, 0, 99999, 1, 2, 0])),
    ),
    Case(
        "samples of another shape",
        "data",
        _CHECK,
        says(3, r"has the shape \[5, 7\]"),
        arrays(x=np.ones((8, 5, 7), np.float32)),
    ),
    Case("data cut in half", "data", _CHECK, says(3, "data.npz"), changed("data.npz", half)),
    Case("data without labels", "data", _CHECK, says(3, "label"), changed("data.npz", without_labels)),
    Case("input cut in half", "data", _RUN, says(3, "x.npy cannot be read"), changed("x.npy", half)),
    # session
    Case(
        "session cut off",
        "session",
        _REPORT,
        says(0, "1 line of the session file could not be read"),
        changed("session.jsonl", lambda content: content[:-40]),
    ),
    Case(
        "session with a flipped bit",
        "session",
        _REPORT,
        says(0, "1 line of the session file could not be read"),
        changed("session.jsonl", flipped),
    ),
    Case("session of a later release", "session", _REPORT, says(3, "Update hasten"), changed("session.jsonl", newer)),
    Case(
        "session without its beginning",
        "session",
        _REPORT,
        says(3, "not a session file"),
        changed("session.jsonl", lambda content: content[30:]),
    ),
    Case(
        "foreign file as session",
        "session",
        "bench demo --seconds 0.2 --session notes.txt --json",
        says(2, "Nothing was changed"),
        changed("notes.txt", lambda _: b"my notes"),
    ),
    Case(
        "bundle with another model",
        "session",
        "bench bundle --seconds 0.2 --json",
        says(3, "is not the model of this bundle"),
        changed("bundle/model.tflite", lambda content: content + b"0"),
    ),
    Case(
        "bundle with a damaged plan",
        "session",
        "bench bundle --seconds 0.2 --json",
        says(3, "plan.json is damaged"),
        changed("bundle/plan.json", half),
    ),
    Case("hasten killed", "session", "report killed.jsonl --format md", says(0, "ms"), killed_session, survives=True),
)


# --- running


@functools.cache
def _clean_folder() -> Path:
    """A clean set-up: models, data, a session, a bundle, a delegate."""
    folder = own_folder()
    (folder / "disk").mkdir()
    (folder / "model.tflite").write_bytes(example_models.mobilenet_like(8, 1, _SIZE))
    large = own_folder() / "large.tflite"
    large.write_bytes(example_models.matmul_chain(8, 2048, 8))
    (folder / "large.tflite").symlink_to(large)
    g = ModelBuilder()
    x = g.input("x", (1, 4))
    g.output(g.add(g.mul(g.add(g.add(x, x), x), x), x), "y")
    (folder / "sums.tflite").write_bytes(g.build())
    np.savez(folder / "data.npz", **_data())
    np.save(folder / "x.npy", _images()[:1])
    digits = np.load(demo.DATA)
    np.save(folder / "digit.npy", digits["x"][digits["y"] == 1][:1].astype(np.float32))
    write_bundle(folder / "model.tflite", Bundle(folder / "bundle"))
    shown("bench demo --seconds 1 --session session.jsonl", Setup(folder))
    shutil.copy(folder / "session.jsonl", folder / "killed.jsonl")
    with contextlib.closing(SessionWriter(folder / "notes.txt")) as writer:
        writer.begin()
    if _has(COMPILER):
        shutil.copy(_library(_DELEGATE), folder / "planted.so")
    return folder


def shown(command: str, setup: Setup) -> Shown:
    """Run a command to its end."""
    with _started(command, setup) as process:
        if setup.during is not None:
            threading.Thread(target=setup.during, args=(process,), daemon=True).start()
        try:
            output, errors = process.communicate(timeout=_HANG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return Shown(-1, "", f"no end after {_HANG_SECONDS} s")
    return Shown(process.returncode, output, errors)


def problem(case: Case) -> str:
    """What is wrong with how hasten met this fault; empty if nothing is."""
    clean, planted = on_clean_setup(case.command, case.needs == GPU), _met(case.command, case.plant, case.needs == GPU)
    for seen, where in ((clean, "the clean set-up"), (planted, "the fault")):
        if isinstance(seen, str):
            return seen
        if not seen.is_sound or case.test(seen) is not (case.survives or seen is planted):
            return f"{where}: {seen.code}: {seen.text[-600:]}"
    return ""


@functools.cache
def on_clean_setup(command: str, has_gpu: bool) -> Shown | str:
    """What a command shows where nothing is wrong."""
    return _met(command, no_fault, has_gpu)


def _met(command: str, plant: Plant, has_gpu: bool) -> Shown | str:
    """What a command shows with a fault; or which file it has changed."""
    with tempfile.TemporaryDirectory(prefix="hasten-faults-") as folder:
        shutil.copytree(_clean_folder(), folder, dirs_exist_ok=True, symlinks=True)
        environment = {"XDG_CACHE_HOME": f"{folder}/disk", **({} if has_gpu else {"VK_ICD_FILENAMES": "/nowhere.json"})}
        setup = Setup(Path(folder), environment)
        with setup.undo:
            plant(setup)
            before = _contents(setup.folder)
            seen = shown(command, setup)
            after = _contents(setup.folder)
    lost = [name for name, content in before.items() if not after.get(name, b"").startswith(content)]
    return f"{lost[0]} was changed" if lost else seen


def lacking(case: Case) -> str:
    """What this machine lacks for a case; empty if nothing."""
    return "" if _has(case.needs) else case.needs


def main() -> int:
    """All cases, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="cases of this area, or with these words")
    only = parser.parse_args().only or []
    cases = [case for case in CASES if not only or any(words == case.area or words in case.name for words in only)]
    results: dict[str, str] = {}
    for case in cases:
        begin = time.monotonic()
        results[case.name] = f"not tried: needs {lacking(case)}" if lacking(case) else problem(case)
        print(
            f"{time.monotonic() - begin:5.1f} s  {case.area}: {case.name}: {results[case.name] or 'fine'}", flush=True
        )
    named = [case for case in cases if not case.survives]
    figures = {
        "planted": len(named),
        "named": sum(not results[case.name] for case in named),
        "to_survive": len(cases) - len(named),
        "survived": sum(not results[case.name] for case in cases if case.survives),
        "by_area": {area: sum(case.area == area for case in cases) for area in dict.fromkeys(c.area for c in cases)},
        "problems": {name: result for name, result in results.items() if result},
    }
    return record("faults", figures, passed=not figures["problems"], whole=not only)


def _started(command: str, setup: Setup) -> subprocess.Popen[str]:
    words = [word.format(delegate=setup.delegate) for word in shlex.split(command)]
    return subprocess.Popen(
        [*setup.before, sys.executable, "-m", "hasten", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=setup.folder,
        env={**os.environ, **setup.environment},
    )


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and not path.is_symlink()}


def _children(parent: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def _wait_for_runners(process: subprocess.Popen[str], count: int) -> list[int]:
    """Wait until so many runners have been started one after the other; the last one is at work then."""
    seen: list[int] = []
    while len(seen) < count and process.poll() is None:
        for pid in _children(process.pid):
            with contextlib.suppress(OSError):
                if pid not in seen and b"hasten.runner" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    seen.append(pid)
        time.sleep(0.01)
    return seen


@functools.cache
def _library(source: Path) -> Path:
    """A shared library from C code."""
    library = own_folder() / f"{source.stem}.so"
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", f"-I{_HEADERS}"]
    subprocess.run([*command, "-o", str(library), str(source)], check=True)
    return library


@functools.cache
def _has(need: str) -> bool:
    """Whether this machine has what a case needs."""
    if need == ROOT_USER:
        return sys.platform == "linux" and os.geteuid() == 0 and _GROUP.parent.is_dir()
    if need == COMPILER:
        return shutil.which("cc") is not None
    if need == GPU:
        with contextlib.suppress(HastenError):
            return bool(process_environment(Plan(accelerator="gpu")))
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())

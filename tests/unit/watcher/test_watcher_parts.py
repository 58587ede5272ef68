"""Parts of the watch that need no program: the recorder's files, tracebacks, the import hook, the cost of a call."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hasten.practices.app.watched.recording import read_processes
from hasten.watcher import instrumentation, rows
from hasten.watcher.import_hook import Finder
from hasten.watcher.interpreter import cost_of_a_call_ns
from hasten.watcher.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE_RUN = (rows.INVOKE | 1 << rows.OBJECT_SHIFT, 7, 1_000_000, 3_000_000)


def _introduce(recorder: Recorder) -> None:
    recorder.note({"kind": "process", "began_ns": 0, "ready_ns": 1, "main_thread": 7, "cores": 2})
    recorder.place(sys._getframe(1))


def test_what_is_flushed_is_read_back(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    _introduce(recorder)
    recorder.rows.extend(ONE_RUN * 3)
    recorder.flush()
    recorder.rows.extend(ONE_RUN)
    recorder.flush()
    (process,) = read_processes(tmp_path)
    assert process.events.ms.tolist() == [2.0] * 4
    assert process.chain(0)[0][1].endswith("test_what_is_flushed_is_read_back")


def test_a_file_that_a_crash_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    _introduce(recorder)
    recorder.rows.extend(ONE_RUN * 3)
    recorder.flush()
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-9] if path.suffix == ".rows" else path.read_bytes() + b'{"kind": "pla')
    (process,) = read_processes(tmp_path)
    assert len(process.events) == 2


def test_a_folder_that_has_gone_is_no_trouble_for_the_program(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "gone"))
    recorder.rows.extend(ONE_RUN)
    recorder.flush()
    assert recorder.left_out


def test_a_forked_child_writes_none_of_its_parents_rows(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    _introduce(recorder)
    recorder.rows.extend(ONE_RUN)
    recorder.begin_again()
    _introduce(recorder)
    recorder.flush()
    (process,) = read_processes(tmp_path)
    assert len(process.events) == 0
    assert process.places


def test_tracebacks_lose_our_entries_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instrumentation, "_FOLDER", "<ours>")
    scope: dict[str, Any] = {}
    exec(compile("def wrapper(call):\n    return call()\n", "<ours>/x.py", "exec"), scope)

    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError) as raised:  # noqa: PT011
        scope["wrapper"](lambda: scope["wrapper"](fail))
    entry = instrumentation.without_ours(raised.value.__traceback__)
    names = []
    while entry is not None:
        names.append(entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    assert names == ["test_tracebacks_lose_our_entries_only", "<lambda>", "fail"]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "tflite_runtime"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "interpreter.py").write_text("class Interpreter:\n    def invoke(self):\n        return 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("tflite_runtime")]:
        del sys.modules[name]


def test_a_module_is_patched_when_it_is_imported(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: list[str] = []
    watch: Any = SimpleNamespace(
        replace=lambda owner, name, value: replaced.append(name),
        recorder=Recorder(""),
        calls=None,
        on_litert=lambda: None,
    )
    monkeypatch.setattr(sys, "meta_path", [Finder(watch), *sys.meta_path])
    module = importlib.import_module("tflite_runtime.interpreter")
    assert "invoke" in replaced
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader" if module.__spec__ else False


def test_the_cost_of_a_call_is_measured() -> None:
    assert 0 < cost_of_a_call_ns() < 1e6


def test_a_signal_in_the_middle_of_writing_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(str(tmp_path))
    recorder.rows += range(rows.INTEGERS_A_ROW)
    written: list[int] = []
    write = os.write

    def interrupted(file: int, data: bytes) -> int:
        # Other threads write, too.
        ours = Path(f"/proc/self/fd/{file}").readlink().name.endswith(rows.ROWS_SUFFIX)
        if ours and not recorder.put_off(lambda: written.append(_rows_bytes(tmp_path))):
            raise AssertionError("it is being written just now")
        return write(file, data)

    monkeypatch.setattr(os, "write", interrupted)
    recorder.flush()
    assert written == [8 * rows.INTEGERS_A_ROW]
    assert not recorder.put_off(lambda: None)


def _rows_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"*{rows.ROWS_SUFFIX}"))


_WORKER = """
import _thread, os, signal, sys, threading, time
from hasten.watcher.recorder import Recorder
from hasten.watcher.termination import Termination

recorder = Recorder(sys.argv[1])
ending = Termination(recorder, lambda how: (recorder.note({"how": how}), recorder.flush()))

def other():
    time.sleep(0.2)  # the main thread waits by then
    signal.pthread_kill(_thread.get_ident(), signal.SIGTERM)  # it comes to a thread that runs no handlers
    while sys.argv[2] == "insist":
        ending.insist()
        time.sleep(0.01)

threading.Thread(target=other).start()
threading.Event().wait()
"""


def _end_of_worker(folder: Path, how: str, seconds: float) -> int:
    return subprocess.run([sys.executable, "-c", _WORKER, folder, how], check=False, timeout=seconds).returncode


def test_a_worker_that_waits_is_told_again_to_end(tmp_path: Path) -> None:
    assert _end_of_worker(tmp_path, "insist", 60) == -signal.SIGTERM
    assert "terminated" in "".join(path.read_text() for path in tmp_path.glob(f"*{rows.LINES_SUFFIX}"))


def test_without_being_told_again_it_would_wait_without_end(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        _end_of_worker(tmp_path, "once", 3)

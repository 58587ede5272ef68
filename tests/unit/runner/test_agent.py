"""The agent of a device, as a process of this machine: files, lock, and the end of everything when nobody speaks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.processes import has_ended

from hasten.runner import agent
from hasten.runner.protocol import Message, decode, encode
from hasten.targets.device_agent import BOOTSTRAP, agent_preamble

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 30
HOLDER = {"who": "me@desk", "session": "1"}


class Client:
    """The other side, as plain as can be."""

    def __init__(self, folder: Path, *, holder: dict[str, str] | None = None, patience_s: float = 20.0) -> None:
        command = [sys.executable, "-E", "-c", BOOTSTRAP]
        self.process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        self.write(agent_preamble())
        self.opened = self.ask(
            "open", folder="" if folder == Path() else str(folder), patience_s=patience_s, holder=holder
        )

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, request: str, *frames: bytes, **fields: Any) -> dict[str, Any]:
        self.write(b"".join(encode(Message({"request": request, **fields}, frames))))
        assert self.process.stdout is not None
        output = self.process.stdout
        if not hasattr(self, "opened") and request == "open":
            start = output.read(2)
            while not start.endswith(b"\0") or start.count(b"\0") < 2:
                start += output.read(1)
        body: dict[str, Any] = decode(output.read).body
        return body

    def put(self, name: str, content: bytes, digest: str = "") -> dict[str, Any]:
        return self.ask("put", content, name=name, sha256=digest or hashlib.sha256(content).hexdigest())

    def close(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            self.write(b"".join(encode(Message({"request": "close"}))))
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        return code


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Client(tmp_path / "device")
    yield made
    made.close()


def test_it_tells_of_its_device(client: Client, tmp_path: Path) -> None:
    facts = client.opened
    assert facts["folder"] == str(tmp_path / "device")
    assert facts["version"] == list(sys.version_info[:3])
    lifeline = Path(client.ask("lifeline")["lifeline"])
    assert lifeline.is_fifo()
    assert facts["bits"] == 64
    assert facts["engine"] == "2.3.0"
    assert client.close() == 0
    assert not lifeline.parent.exists()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300_000), name=st.text(min_size=1, max_size=40))
def test_a_file_arrives_as_it_is_or_is_refused(client: Client, tmp_path: Path, content: bytes, name: str) -> None:
    answer = client.put(f"files/{name}", content)
    if "refused" not in answer:
        assert (tmp_path / "device" / f"files/{name}").read_bytes() == content
    assert client.ask("has", name="files/nothing")["has"] is False
    assert not list((tmp_path / "device").rglob("*.part"))


def test_content_that_changed_on_the_way_is_refused(client: Client, tmp_path: Path) -> None:
    assert client.put("files/a", b"new", hashlib.sha256(b"old").hexdigest())["refused"] == agent.CHANGED
    assert not list((tmp_path / "device" / "files").iterdir())


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "files/../../x"])
def test_no_name_leads_out_of_the_folder(client: Client, name: str) -> None:
    assert client.ask("has", name=name)["refused"] == agent.OUTSIDE


def test_a_name_that_cannot_be_written_leaves_the_next_request_whole(client: Client) -> None:
    refused = client.put("files/" + "x" * 300, bytes(200_000))
    assert refused["refused"] == agent.SYSTEM
    assert refused["why"]
    assert client.put("files/ok", b"1") == {"ok": True}


def test_files_can_be_removed_one_by_one_and_all(client: Client, tmp_path: Path) -> None:
    for name in ("files/a/m", "files/b/m"):
        client.put(name, bytes(1000))
    client.ask("remove", name="files/a/m")
    assert not (tmp_path / "device" / "files" / "a").exists()
    assert client.ask("clean")["freed_bytes"] == 1000
    assert list((tmp_path / "device").iterdir()) == []


def test_one_session_at_a_time(tmp_path: Path) -> None:
    first = Client(tmp_path, holder=HOLDER)
    assert "refused" not in first.opened
    second = Client(tmp_path, holder={"who": "you"})
    assert second.opened["refused"] == agent.BUSY
    assert second.opened["holder"]["who"] == "me@desk"
    second.close()
    looking = Client(tmp_path)
    assert looking.opened["holder"]["who"] == "me@desk"
    looking.close()
    first.process.kill()
    first.wait()
    third = Client(tmp_path, holder={"who": "you"})
    assert "refused" not in third.opened
    third.close()


def test_old_files_are_forgotten_when_a_session_begins(tmp_path: Path) -> None:
    Client(tmp_path).close()
    for name, age in (("old", 40), ("new", 1)):
        path = tmp_path / "files" / name / "model"
        path.parent.mkdir(parents=True)
        path.write_text("x")
        then = path.stat().st_mtime - age * 24 * 3600
        os.utime(path, (then, then))
    Client(tmp_path, holder=HOLDER).close()
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["new"]


def planted(folder: Path, *names: str) -> dict[str, str]:
    """Files of the user's own, which are older than anything that hasten keeps."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        os.utime(path, (0, 0))
    return contents(folder)


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "names",
    [
        ("photos/a.jpg", "samples/b.wav", "files/c/d"),
        ("samples/b.wav",),
        ("files/c/d",),
        ("venv/bin/python",),
        ("lock",),
        (f"files/{'0' * 64}/model", "letter.txt"),
    ],
)
@pytest.mark.parametrize("holder", [HOLDER, None])
def test_a_folder_of_the_user_is_refused_and_stays_as_it_is(
    tmp_path: Path, names: tuple[str, ...], holder: dict[str, str] | None
) -> None:
    before = planted(tmp_path, *names)
    client = Client(tmp_path, holder=holder)
    assert client.opened["refused"] == agent.FOREIGN
    assert (tmp_path / client.opened["name"]).exists()
    client.close()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kept", ["lock", "files"])
def test_a_folder_of_an_earlier_release_is_taken_over(tmp_path: Path, kept: str) -> None:
    """A session leaves a lock, and what it staged; a look at the device has no lock."""
    if kept == "lock":
        (tmp_path / "lock").write_text(json.dumps({**HOLDER, "pid": 1, "since": 0.0}))
        planted(tmp_path, "venv/bin/python")
    planted(tmp_path, f"files/{'0' * 64}/runner.zip", "samples/key")
    for _ in range(2):
        client = Client(tmp_path, holder=HOLDER)
        assert "refused" not in client.opened
        client.close()
        assert not (tmp_path / "samples").exists()
        planted(tmp_path, "letter.txt")  # the folder is marked by now


def test_hastens_own_folder_is_used_whatever_lies_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    planted(tmp_path, "hasten/device/core.123")
    client = Client(Path(), holder=HOLDER)
    assert client.opened["folder"] == str(tmp_path / "hasten" / "device")
    client.close()


def test_clean_removes_nothing_of_the_user(tmp_path: Path) -> None:
    client = Client(tmp_path, holder=HOLDER)
    client.put("files/a/m", bytes(1000))
    planted(tmp_path, "letter.txt", "photos/a.jpg")
    assert client.ask("clean")["freed_bytes"] == 1000
    client.close()
    assert sorted(contents(tmp_path)) == [".hasten-device", "letter.txt", "lock", "photos/a.jpg"]


@pytest.mark.parametrize("others", [("npu/compiled.bin",), ()], ids=["a plan's cache", "nothing else"])
def test_a_device_stays_usable_after_a_clean(tmp_path: Path, others: tuple[str, ...]) -> None:
    client = Client(tmp_path, holder=HOLDER)
    planted(tmp_path, *others)
    client.ask("clean")
    client.close()
    assert sorted(contents(tmp_path)) == sorted(["lock", *others, *([".hasten-device"] if others else [])])
    again = Client(tmp_path, holder=HOLDER)
    assert "refused" not in again.opened
    again.close()


def test_an_empty_disk_is_adopted(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    client = Client(tmp_path, holder=HOLDER)
    assert "refused" not in client.opened
    client.close()


def test_it_leaves_when_nobody_speaks(tmp_path: Path) -> None:
    client = Client(tmp_path, patience_s=0.1)
    assert client.wait() == 0


def test_it_leaves_when_its_input_ends(client: Client) -> None:
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.process.wait(SECONDS) == 0


# A program that ends with the lifeline, and what it has started, inside calls that run no Python.
FOLLOWER = """
import ctypes, os, sys
from hasten.runner.serving import die_with_parent
die_with_parent(sys.argv[1])
child = os.fork()
if child:
    print(os.getpid(), child, flush=True)
ctypes.PyDLL(None).pause()
"""


@pytest.mark.parametrize("how", ["silence", "kill", "close"])
def test_all_programs_end_with_it(tmp_path: Path, how: str) -> None:
    client = Client(tmp_path, patience_s=0.3 if how == "silence" else 20.0)
    command = [sys.executable, "-c", FOLLOWER, client.ask("lifeline")["lifeline"]]
    with subprocess.Popen(command, stdout=PIPE) as follower:
        assert follower.stdout is not None
        pids = [int(word) for word in follower.stdout.readline().split()]
        if how == "kill":
            client.process.kill()
        if how == "close":
            client.close()
        client.wait()
        assert follower.wait(SECONDS) == -signal.SIGIO
        assert all(map(has_ended, pids))


def test_a_program_that_is_released_takes_its_children_along_and_nobody_else(client: Client) -> None:
    pipes = [client.ask("lifeline")["lifeline"] for _ in range(2)]
    followers = [subprocess.Popen([sys.executable, "-c", FOLLOWER, pipe], stdout=PIPE) for pipe in pipes]
    pids = []
    for follower in followers:
        assert follower.stdout is not None
        pids.append([int(word) for word in follower.stdout.readline().split()])
    os.kill(pids[0][0], signal.SIGKILL)
    followers[0].wait(SECONDS)
    client.ask("release", lifeline=pipes[0])
    assert has_ended(pids[0][1])
    assert not Path(pipes[0]).exists()
    assert followers[1].poll() is None
    client.close()
    assert followers[1].wait(SECONDS) == -signal.SIGIO
    for follower in followers:
        assert follower.stdout is not None
        follower.stdout.close()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_program_that_starts_after_its_end_ends_at_once(tmp_path: Path, is_there: bool) -> None:
    """A pipe that nobody holds any more, or none."""
    lifeline = tmp_path / "lifeline"
    if is_there:
        os.mkfifo(lifeline)
    done = subprocess.run([sys.executable, "-c", FOLLOWER, str(lifeline)], timeout=SECONDS, check=False)
    assert done.returncode in (-signal.SIGALRM, 71)


def test_it_ends_a_group(client: Client) -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(100)'])"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as process:
        # Where its child is, the group has two processes.
        while not Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            pass
        children = [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        client.ask("end", pid=process.pid)
        assert process.wait(SECONDS) == -signal.SIGKILL
    assert all(map(has_ended, children))
    assert client.ask("end", pid=process.pid) == {"ok": True, "gone": True}


def test_it_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    """It is sent alone, to a Python that may not even have packages."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", BOOTSTRAP], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    request = {"request": "open", "folder": str(tmp_path), "patience_s": 20.0, "holder": None}
    output, errors = process.communicate(agent_preamble() + b"".join(encode(Message(request))), timeout=SECONDS)
    assert errors == b""
    assert json.loads(output[output.index(b'{"ok"') :])["engine"] is None

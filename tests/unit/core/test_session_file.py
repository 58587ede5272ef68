"""The session file: nothing that was saved is lost, whatever happens to the next trial."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.session import FORMAT, SessionWriter, read_session

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
DATA = st.dictionaries(st.text(max_size=8), JSON, max_size=4)


def write(path: Path, *trials: dict[str, Any], header: dict[str, Any] | None = None) -> None:
    writer = SessionWriter(path, header or {})
    for number, data in enumerate(trials):
        writer.add("measurement", f"trial {number}", data)
    writer.close()


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), st.text(), DATA), max_size=4))
def test_trials_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, trials: list[Any]) -> None:
    path = tmp_path_factory.mktemp("session") / "s.hasten"
    writer = SessionWriter(path, {"command": "bench"})
    writer.begin()
    for kind, label, data in trials:
        writer.add(kind, label, data)
    writer.close()
    session = read_session(path)
    assert [(trial.kind, trial.label, trial.data) for trial in session.lines] == trials
    assert session.header["command"] == "bench"
    assert session.lost_lines == 0


def test_crash_at_any_byte_costs_at_most_the_trial_being_written(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    write(path, {"x": "ä"}, {"x": [1, 2]}, {"x": {"y": "line\nbreak"}})
    whole = path.read_bytes()
    header_end = whole.index(b"\n")
    for length in range(header_end, len(whole) + 1):
        path.write_bytes(whole[:length])
        session = read_session(path)
        ended = whole[:length].count(b"\n") - 1
        assert max(ended, 0) <= len(session.lines) <= max(ended, 0) + 1
        assert session.lost_lines <= 1


def test_work_goes_on_after_a_crash_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    write(path, {"n": 0}, {"n": 1})
    whole = path.read_bytes()
    for length in range(whole.index(b"\n"), len(whole)):
        path.write_bytes(whole[:length])
        before = len(read_session(path).lines)
        write(path, {"n": "new"})
        session = read_session(path)
        assert session.lines[-1].data == {"n": "new"}
        assert len(session.lines) == before + 1


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_rubbish_after_the_header_never_stops_the_reading(
    tmp_path_factory: pytest.TempPathFactory, rubbish: bytes
) -> None:
    path = tmp_path_factory.mktemp("session") / "s.hasten"
    write(path, {"n": 0})
    with path.open("ab") as stream:
        stream.write(rubbish + b"\n")
    write(path, {"n": 1})
    trials = read_session(path).lines
    assert trials[0].data == {"n": 0}
    assert trials[-1].data == {"n": 1}


def test_an_existing_session_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    write(path, {"n": 0}, header={"command": "first"})
    write(path, {"n": 1}, header={"command": "second"})
    session = read_session(path)
    assert [trial.data["n"] for trial in session.lines] == [0, 1]
    assert session.header["command"] == "first"


@pytest.mark.parametrize("content", [b"precious", b"{}\n", b"[1]\n", b"\xff\xfe\x00", b'{"hasten_session"', b"7\n"])
def test_a_foreign_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="not a session file"):
        write(path, {"n": 0})
    with pytest.raises(UsageError, match="not a session file"):
        SessionWriter(path).begin()
    with pytest.raises(DataError, match="not a session file"):
        read_session(path)
    assert path.read_bytes() == content


def test_a_session_of_the_future_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    path.write_text(json.dumps({"hasten_session": FORMAT + 1}) + "\n")
    with pytest.raises(DataError, match="reads format"):
        write(path, {"n": 0})
    assert path.read_text().count("\n") == 1


def test_an_empty_file_becomes_a_session(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    path.touch()
    write(path, {"n": 0})
    assert len(read_session(path).lines) == 1


def test_missing_session_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_session(tmp_path / "none.hasten")


def test_places_that_cannot_be_written_are_known_before_the_work(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    for path in (tmp_path / "missing" / "s.hasten", occupied / "s.hasten", tmp_path):
        with pytest.raises(DataError, match=r"cannot be (written|read)"):
            SessionWriter(path).begin()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root cannot write to")
def test_read_only_folder_is_a_clear_error() -> None:
    with pytest.raises(DataError, match="cannot be written"):
        SessionWriter(Path("/proc/self/s.hasten")).begin()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_a_clear_error_each_time() -> None:
    writer = SessionWriter(Path("/dev/full"))
    for _ in range(2):
        with pytest.raises(DataError, match="No space left"):
            writer.add("measurement", "m", {"n": 0})
    writer.close()


DISK_THAT_FILLS = """
import resource, sys
from pathlib import Path
from hasten.core.errors import DataError
from hasten.core.session import SessionWriter

path = Path(sys.argv[1])
writer = SessionWriter(path)
writer.add("measurement", "fits", {"n": 0})
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, most))
try:
    writer.add("measurement", "too large", {"n": "x" * 500})
except DataError as error:
    print(error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
writer.add("measurement", "after", {"n": 2})
writer.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file sizes")
def test_what_was_saved_outlives_a_disk_that_fills_up(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", DISK_THAT_FILLS, str(path)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout
    session = read_session(path)
    assert [trial.label for trial in session.lines] == ["fits", "after"]
    assert session.lost_lines == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_json_lacks_are_refused_and_nothing_is_written(tmp_path: Path, value: float) -> None:
    path = tmp_path / "s.hasten"
    writer = SessionWriter(path)
    writer.add("measurement", "m", {"n": 0})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        writer.add("measurement", "m", {"n": value})
    writer.close()
    assert path.read_bytes() == before


def test_every_line_is_on_the_disk_when_add_returns(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    writer = SessionWriter(path)
    for number in range(3):
        writer.add("measurement", "m", {"n": number})
        assert len(read_session(path).lines) == number + 1
    writer.close()


def test_errors_carry_a_hint(tmp_path: Path) -> None:
    with pytest.raises(HastenError) as raised:
        SessionWriter(tmp_path / "missing" / "s.hasten").begin()
    assert "--session" in raised.value.hint


def test_a_flipped_bit_costs_its_line_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    write(path, {"ms": 1234567}, {"ms": 2345678}, {"ms": 3456789})
    whole = path.read_bytes()
    for place in range(whole.index(b"2345678") - 40, whole.index(b"2345678") + 8):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        session = read_session(path)
        assert session.lost_lines >= 1
        assert [line.data["ms"] for line in session.lines] == [1234567, 3456789]


def test_a_line_of_a_release_without_checksums_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    write(path)
    line = {"kind": "note", "label": 'with ,"crc32":" inside', "at": "", "data": {}}
    path.write_text(json.dumps({"hasten_session": FORMAT}) + "\n" + json.dumps(line) + "\n")
    assert [entry.label for entry in read_session(path).lines] == [line["label"]]


def test_a_line_whose_damaged_checksum_looks_like_an_endless_number_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    write(path, {"ms": 1}, {"ms": 2})
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = re.sub(rb'"crc32":"[0-9a-f]{8}"', b'"crc32": 12e34567"', lines[1])
    path.write_bytes(b"".join(lines))
    session = read_session(path)
    assert session.lost_lines == 1
    assert [line.data for line in session.lines] == [{"ms": 2}]


def test_a_first_line_with_a_flipped_bit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.hasten"
    write(path, {"ms": 1}, header={"hasten": "1.2.3"})
    path.write_bytes(path.read_bytes().replace(b"1.2.3", b"1.2.2"))
    with pytest.raises(DataError, match="damaged"):
        read_session(path)

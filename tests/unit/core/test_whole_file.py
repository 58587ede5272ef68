"""Files appear whole or not at all, and nothing else changes about them."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from hasten.core.whole_file import whole_file, write_whole

if TYPE_CHECKING:
    from pathlib import Path


class Cut(BaseException):
    """An end that no handler of errors sees, as Ctrl-C is one."""


@pytest.mark.parametrize("trouble", [OSError, Cut])
@pytest.mark.parametrize("replace", [True, False])
def test_trouble_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, trouble: type[BaseException], replace: bool
) -> None:
    path = tmp_path / "report.html"
    if replace:
        path.write_text("old")
    with pytest.raises(trouble):
        _write_half(path, trouble, replace=replace)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == ([("report.html", "old")] if replace else [])


def test_the_new_content_is_not_seen_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with whole_file(path) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with pytest.raises(FileExistsError):
        _write_while_another_appears(path)
    assert path.read_text() == "theirs"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_without_links_a_file_that_is_there_is_not_replaced_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "report.html"
    write_whole(path, "ours", replace=False)
    with pytest.raises(FileExistsError):
        write_whole(path, "again", replace=False)
    assert path.read_text() == "ours"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write_whole(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_name_of_the_greatest_length(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), "new")
    assert (tmp_path / ("x" * 255)).read_text() == "new"


def test_a_pipe_is_written_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write_whole(path, "new")
    reader.join()
    assert read == ["new"]
    assert path.is_fifo()


def _write_half(path: Path, trouble: type[BaseException], *, replace: bool) -> None:
    with whole_file(path, replace=replace) as stream:
        stream.write(b"half of the new")
        raise trouble


def _write_while_another_appears(path: Path) -> None:
    with whole_file(path, replace=False) as stream:
        stream.write(b"ours")
        path.write_text("theirs")

"""The folder of a fleet: what a device has sent stays until more of it is whole."""

from __future__ import annotations

import errno
import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hasten.core.errors import DataError
from hasten.core.plan import Plan
from hasten.fleet.folder import FleetFolder
from hasten.search.folder import SESSION

if TYPE_CHECKING:
    from pathlib import Path


def test_a_job_that_begins_anew_on_a_full_disk_leaves_the_session_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with closing(FleetFolder(tmp_path / "out", Plan(), {}, resume=False, version="")) as folder:
        folder.hear({"device": "a", "at": 0, "lines": "one\n"})
        folder.hear({"device": "a", "at": 4, "lines": "two\n"})
        session = folder.place_of("a") / SESSION
        assert session.read_text() == "one\ntwo\n"
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(DataError, match="No space left"):
                folder.hear({"device": "a", "at": 0, "lines": "anew\n"})
        assert session.read_text() == "one\ntwo\n"
        assert [path.name for path in session.parent.iterdir()] == [SESSION]
        folder.hear({"device": "a", "at": 0, "lines": "anew\n"})
        assert session.read_text() == "anew\n"

"""A place that cannot be written is refused before the work, with the system's own reason."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from hasten.cli.files import refuse_existing
from hasten.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_read_only_disk_is_not_a_lack_of_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(DataError, match="cannot be written: Read-only file system"):
        refuse_existing(tmp_path / "x.json", force=False, model="demo")

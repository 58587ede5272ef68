"""The picture of the report is renewed with the session that the README prints."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from scripts import refresh_readme

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_picture_is_of_the_tuning_that_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def noted(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", noted)
    assert refresh_readme.renew_picture(tmp_path) == 0
    assert asked == []
    report = tmp_path / "tuned" / "report.html"
    report.parent.mkdir()
    report.touch()
    assert refresh_readme.renew_picture(tmp_path) == 0
    assert asked[0][-2:] == [str(report), str(refresh_readme.PICTURE)]
    assert "-o tuned\n" in refresh_readme.DOCUMENTS[0].read_text(encoding="utf-8")

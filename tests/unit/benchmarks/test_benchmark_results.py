"""What every result says of its run, and how the benchmarks are run together."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from benchmarks import common
from benchmarks.__main__ import NAMES, table


def test_a_result_names_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    assert common.record("trial", {"found": 3}, passed=False) == 1
    result = json.loads((tmp_path / "trial.json").read_text())
    assert result["found"] == 3
    assert len(result["commit"]) == 10
    assert result["clean"] in (True, False)
    assert result["took_seconds"] >= 0
    assert result["load_at_start"] >= 0


def test_a_part_of_a_benchmark_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    assert common.record("trial", {"found": 3}, passed=True, whole=False) == 0
    assert not list(tmp_path.iterdir())


def test_only_code_is_a_change_of_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "ROOT", tmp_path)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    code = tmp_path / "src" / "code.py"
    code.write_text("a = 1\n")
    (tmp_path / "README.md").write_text("old\n")
    common._git("init", "-q")
    _commit_all("first")
    clean = common.code_version.__wrapped__()
    assert clean
    (tmp_path / "README.md").write_text("new\n")
    (tmp_path / "benchmarks" / "results" / "thin.json").write_text("{}")
    assert common.code_version.__wrapped__() == clean
    _commit_all("what came out")
    assert common.code_version.__wrapped__() == clean
    code.write_text("a = 2\n")
    changed = common.code_version.__wrapped__()
    assert changed.startswith(f"{clean}+")
    code.write_text("a = 3\n")
    assert common.code_version.__wrapped__() != changed


def _commit_all(subject: str) -> None:
    common._git("add", ".")
    common._git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", subject)


@pytest.mark.parametrize("name", NAMES)
def test_each_benchmark_of_the_list_is_there_and_says_what_it_wants(name: str) -> None:
    found = importlib.util.find_spec(f"benchmarks.{name}")
    assert found is not None
    assert found.origin is not None
    assert "Wanted" in Path(found.origin).read_text(encoding="utf-8").split('"""')[1]


def test_the_table_tells_a_miss_from_a_crash() -> None:
    told = table([("thin", "reached", 3.0), ("grid", "MISSED", 900.0), ("quick", "FAILED (-9)", 1.0)])
    assert [line.split() for line in told.splitlines()[1:]] == [
        ["thin", "reached", "3", "s"],
        ["grid", "MISSED", "900", "s"],
        ["quick", "FAILED", "(-9)", "1", "s"],
        ["all", "1", "of", "3", "904", "s"],
    ]

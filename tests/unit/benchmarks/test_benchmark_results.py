"""What every result says of its run, and how the benchmarks are run together."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks import common
from benchmarks.__main__ import NAMES, main, table


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


def _result(folder: Path, name: str, *, passed: bool, clean: bool = True) -> None:
    result = {"passed": passed, "commit": "0123456789", "clean": clean, "took_seconds": 7}
    (folder / f"{name}.json").write_text(json.dumps(result))


def _started(monkeypatch: pytest.MonkeyPatch, code: int) -> list[str]:
    """The names of the benchmarks that are started from now on; each ends with this code."""
    names: list[str] = []

    def start(command: list[str], *, check: bool) -> SimpleNamespace:
        assert not check
        names.append(command[-1].removeprefix("benchmarks."))
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr("benchmarks.__main__.subprocess.run", start)
    return names


@pytest.mark.parametrize(
    ("earlier_passed", "code", "run"),
    [
        (True, "0123456789", ["grid", "quick"]),
        (False, "0123456789", ["grid", "quick"]),
        (True, "9876543210", ["thin", "grid", "quick"]),
        (True, "0123456789+abcdef12", ["thin", "grid", "quick"]),
    ],
)
def test_missing_leaves_out_what_has_a_clean_result_of_this_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    earlier_passed: bool,
    code: str,
    run: list[str],
) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(common, "code_version", lambda: code)
    _result(tmp_path, "thin", passed=earlier_passed)
    _result(tmp_path, "grid", passed=True, clean=False)
    started = _started(monkeypatch, 0)
    monkeypatch.setattr("sys.argv", ["benchmarks", "--missing", "thin", "grid", "quick"])
    assert main() == int(not earlier_passed)
    assert started == run
    shown = " ".join(next(line for line in capsys.readouterr().out.splitlines() if line.startswith("thin")).split())
    if "thin" in run:
        assert shown == "thin reached 0 s"
    else:
        assert shown == f"thin known, {'reached' if earlier_passed else 'MISSED'} 7 s"


def test_without_missing_all_run_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(common, "code_version", lambda: "0123456789")
    _result(tmp_path, "thin", passed=True)
    started = _started(monkeypatch, 1)
    monkeypatch.setattr("sys.argv", ["benchmarks", "thin"])
    assert main() == 1
    assert started == ["thin"]

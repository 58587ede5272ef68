"""The pytest plug-in in a project of its own: a real pytest in a process of its own finds it by its entry point."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.demo import DATA, MODEL

if TYPE_CHECKING:
    from pathlib import Path

TESTS = f"""
    import pytest

    MODEL = {str(MODEL)!r}
    FEW = "few.npz"

    def test_kept(hasten):
        found = hasten.check(MODEL, latency="10 s", size="2 MB", threads=2, seconds=3)
        assert found.passed
        assert found.plan.threads == 2

    def test_broken(hasten):
        hasten.check(MODEL, {{"size": "1 kB"}})

    def test_no_model(hasten):
        hasten.check("nothing.tflite", size="1 kB")

    def test_misspelt(hasten):
        hasten.check(MODEL, latncy="5 ms")

    def test_undecided(hasten):
        hasten.check(MODEL, {{"accuracy": "60 %"}}, data=FEW)

    def test_undecided_may_pass(hasten):
        found = hasten.check(MODEL, {{"accuracy": "60 %"}}, data=FEW, undecided="pass")
        assert not found.passed

    def test_bench_and_compare(hasten):
        assert hasten.bench(MODEL, seconds=0.5).samples.median_ms > 0
        assert hasten.compare(MODEL, MODEL, seconds=0.5).comparison.ratio > 0

    @pytest.mark.hasten
    def test_marked():
        pass

    def test_watched(hasten_watch):
        hasten_watch.allow = ("not examined",)

    def test_plain():
        pass
"""


def pytest_in(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest there; its exit code and what it showed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:timeout", *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    images = np.load(DATA)
    np.savez(folder / "few.npz", x=images["x"][:4], y=images["y"][:4])
    (folder / "test_model.py").write_text(textwrap.dedent(TESTS))
    return folder


def test_limits_are_tests(project: Path) -> None:
    code, shown = pytest_in(project, "--tb=short")
    assert code == 1
    assert "6 passed" in shown
    assert "4 failed" in shown
    assert "E   AssertionError: Undecided: 1 of 1 limit. This counts as a failure (--undecided fail)." in shown
    assert "E   AssertionError: Failed: 1 of 1 limit is broken. digits.tflite on cpu, 1 thread." in shown
    assert "There is no file nothing.tflite" in shown
    assert "no 'latncy'" in shown
    assert "pytest_plugin.py" not in shown, "failures point to the test, not into hasten"
    assert "library.py" not in shown
    summary = shown.partition(" hasten ====")[2]
    assert "test_model.py::test_kept\n  size 1.43 MB, at most 2.00 MB: passed\n  latency " in summary
    assert "at most 1.00 kB: failed" in summary
    assert "digits.tflite against digits.tflite" in summary


def test_measuring_can_be_left_out(project: Path) -> None:
    code, shown = pytest_in(project, "--hasten-skip", "-rs")
    assert code == 0
    assert "2 passed, 8 skipped" in shown
    assert "--hasten-skip" in shown
    assert " hasten ====" not in shown
    _, shown = pytest_in(project, "-m", "not hasten")
    assert "2 passed, 8 deselected" in shown


def test_who_does_not_use_it_does_not_pay_for_it(project: Path) -> None:
    """Neither the engine nor NumPy nor the rest of hasten is loaded for a run that measures nothing."""
    (project / "conftest.py").write_text(
        "def pytest_sessionfinish():\n"
        "    import json, pathlib, sys\n"
        "    pathlib.Path('loaded.json').write_text(json.dumps(sorted(sys.modules)))\n"
    )
    code, _ = pytest_in(project, "-k", "test_plain")
    assert code == 0
    loaded = json.loads((project / "loaded.json").read_text())
    assert "hasten.pytest_plugin" in loaded
    assert {name for name in loaded if name.split(".")[0] == "hasten"} <= {
        "hasten",
        "hasten.core",
        "hasten.core.version",
        "hasten.pytest_plugin",
    }
    assert not {"numpy", "rich", "ai_edge_litert"} & set(loaded)


def test_only_a_test_that_passes_must_have_run_its_model(tmp_path: Path) -> None:
    test = """
        import unittest

        import pytest

        def test_import(hasten_watch):
            pytest.importorskip("no_such_package")

        def test_skip(hasten_watch):
            pytest.skip("no camera")

        def test_xfail(hasten_watch):
            pytest.xfail("not yet")

        def test_fails_before_its_model(hasten_watch):
            assert False

        @pytest.fixture
        def broken(hasten_watch):
            raise RuntimeError("no set-up")

        def test_set_up(broken):
            pass

        @pytest.mark.usefixtures("hasten_watch")
        class TestOld(unittest.TestCase):
            def test_skip(self):
                self.skipTest("no camera")

        def test_runs_no_model(hasten_watch):
            pass
    """
    (tmp_path / "test_pipeline.py").write_text(textwrap.dedent(test))
    code, shown = pytest_in(tmp_path, "-q")
    assert code == 1
    assert "1 failed, 1 passed, 3 skipped, 1 xfailed, 2 errors" in shown, shown
    # By the lines of its traceback: with CI set, pytest's summary repeats the whole message.
    told = [line for line in shown.splitlines() if line.startswith("E ") and "Nothing was examined." in line]
    assert len(told) == 1, "of the test that passed"


def test_workers_that_take_turns_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, temporary = tmp_path / "project", tmp_path / "temporary"
    project.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    test = f"""
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_alone(hasten, number):
            hasten.bench({str(MODEL)!r}, seconds=0.2)
    """
    (project / "test_model.py").write_text(textwrap.dedent(test))
    code, shown = pytest_in(project, "-n", "2", "-q")
    assert code == 0, shown
    assert sorted(temporary.rglob("*.lock")) == []
    assert [path.name for path in project.iterdir() if path.suffix not in {".py", ""}] == []

"""The application with planted faults, its repaired form, and ordinary clean programs: what `hasten app` names in each.

Names and lines are asserted here; what a fault costs against what its removal saves is measured by
`benchmarks/app_faults.py`. Faults that only a comparison of threads on idle cores can show are left to it, too.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from app_models import make_models

import hasten
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

APPS = Path(__file__).parent / "apps"
PLANTED = APPS / "planted.py"
# What is measured after the program's end needs idle cores; the benchmark looks at these.
MEASURED_AFTERWARDS = {"more threads than cores", "interpreters fight for cores"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_models(tmp_path_factory.mktemp("models"))


def planted_faults() -> set[tuple[str, int]]:
    marked = enumerate(PLANTED.read_text().splitlines(), 1)
    return {(line.partition("# fault: ")[2], number) for number, line in marked if "  # fault: " in line}


def watched(*program: str | Path, seconds: str = "0", trace: Path | None = None) -> dict[str, Any]:
    timeline = ["--trace", str(trace)] if trace else []
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hasten",
            "app",
            "--seconds",
            seconds,
            *timeline,
            "--json",
            "--",
            sys.executable,
            *map(str, program),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def named(found: dict[str, Any]) -> set[tuple[str, int]]:
    return {(fault["rule"], fault["line"]) for fault in found["findings"]}


def test_every_planted_fault_is_named_with_its_line_and_nothing_else(models: Path, tmp_path: Path) -> None:
    stages = "reload,resize,convert,stride,unused,copied,preprocess,event_loop,cold"
    found = watched(PLANTED, models, "--only", stages, trace=tmp_path / "timeline.json")
    expected = {fault for fault in planted_faults() if fault[0] not in MEASURED_AFTERWARDS}
    assert len(expected) == 9
    # Samples of the slow loop fall on its body or on its head, the line before.
    head = {(rule, line - 1): (rule, line) for rule, line in expected if rule == "pre-processing dominates"}
    assert {head.get(fault, fault) for fault in named(found)} == expected
    for fault in found["findings"]:
        assert fault["file"] == str(PLANTED)
        assert fault["cost_ms"] > 0
        assert fault["fix"]
        assert 0 < fault["share"] < 1
    costs = [fault["cost_ms"] for fault in found["findings"]]
    assert costs == sorted(costs, reverse=True)
    assert abs(sum(found["split"].values()) - found["wall_ms"]) < 0.05 * found["wall_ms"]
    trace = json.loads((tmp_path / "timeline.json").read_text())
    names = {event["name"] for event in trace["traceEvents"]}
    assert {"inference", "copy in", "copy out", "load model", "resize input", "normalised"} <= names


def test_the_repaired_application_has_no_fault(models: Path) -> None:
    found = watched(PLANTED, models, "--repaired", "all")
    assert found["findings"] == []


@pytest.mark.parametrize("program", ["clean_classify.py", "clean_pipeline.py", "clean_compiled.py"])
def test_clean_programs_have_no_fault(program: str, models: Path) -> None:
    found = watched(APPS / program, models)
    assert named(found) == set()
    assert found["models"][0]["runs"] == 61
    assert found["finding"]["verdict"] == "good"


@pytest.mark.slow
def test_operators_are_measured_afterwards(models: Path) -> None:
    found = watched(APPS / "clean_compiled.py", models, seconds="2")
    assert [entry["op"] for entry in found["models"][0]["operators"]] == ["CONV_2D"]
    assert found["models"][0]["type"] == "CompiledModel"
    assert found["split"]["waiting_ms"] > 20  # of 60 pauses of 2 ms


@pytest.fixture
def planted() -> Iterator[Any]:
    sys.path.insert(0, str(APPS))
    yield importlib.import_module("planted")
    sys.path.remove(str(APPS))


def test_a_watch_inside_a_program_finds_the_same_and_leaves_nothing_behind(planted: Any, models: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    before = dict(vars(Interpreter))
    with hasten.watch() as seen:
        planted.stride(models, False, 1)
    assert [fault.rule for fault in seen.findings] == ["input converted"]
    assert dict(vars(Interpreter)) == before
    with pytest.raises(AssertionError, match=r"planted.py:\d+: input converted"):
        seen.check()
    seen.check(allow=("input converted",))
    with hasten.watch() as seen:
        planted.stride(models, True, 1)
    seen.check()


def test_the_fixture_fails_a_test_with_a_fault_and_lets_others_pass(models: Path, tmp_path: Path) -> None:
    (tmp_path / "test_users_own.py").write_text(
        f"import pathlib, sys\nsys.path.insert(0, {str(APPS)!r})\nimport planted\n"
        f"MODELS = pathlib.Path({str(models)!r})\n"
        "def test_faulty(hasten_watch):\n    planted.stride(MODELS, False, 1)\n"
        "def test_allowed(hasten_watch):\n"
        # A first run that another process held up looks like one that was not warmed up.
        "    hasten_watch.allow = ('input converted', 'first run not warmed up')\n"
        "    planted.stride(MODELS, False, 1)\n"
        "def test_clean(hasten_watch):\n"
        "    hasten_watch.allow = ('first run not warmed up',)\n    planted.stride(MODELS, True, 1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=tmp_path,
    )
    assert "3 passed, 1 error" in done.stdout, done.stdout
    assert re.search(r"planted.py:\d+: input converted", done.stdout)


def test_watches_cannot_be_nested_and_tell_nothing_before_their_end() -> None:
    with hasten.watch() as seen:
        with pytest.raises(UsageError, match="active already"), hasten.watch():
            pass
        with pytest.raises(UsageError, match="has not ended"):
            _ = seen.result
    assert seen.result.models == ()

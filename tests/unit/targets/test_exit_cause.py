"""Exit status and log tell why a runner died."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.core.failure import STAGES
from hasten.runner import agent
from hasten.runner.serving import START_FAILED
from hasten.targets import exit_cause

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "vmstat"
    monkeypatch.setattr(agent, "_VMSTAT", path)
    path.write_text("pgfault 12\noom_kill 3\n")
    return path


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_can_be_told(stage: str) -> None:
    failure = exit_cause.cause_of_death("runner", stage, -11, (), None)
    assert failure.message.startswith("The runner crashed in native code (SIGSEGV) while ")


@pytest.mark.parametrize(("before", "kind"), [(3, "crash"), (2, "out of memory"), (None, "out of memory")])
def test_only_the_kernels_counter_tells_who_killed(kills: Path, before: int | None, kind: str) -> None:
    assert kills.exists()
    assert exit_cause.cause_of_death("runner", "run", -9, (), before).kind == kind


@pytest.mark.parametrize("text", ["", "oom_kill\n", "oom_kill many\n", "pgfault 1\n"])
def test_a_counter_that_cannot_be_read(kills: Path, text: str) -> None:
    kills.write_text(text)
    assert agent.memory_kills() is None


@pytest.mark.parametrize(
    "line",
    ["terminate called after throwing an instance of 'std::bad_alloc'", "MemoryError", "mmap: Cannot allocate memory"],
)
def test_the_log_tells_of_memory(line: str) -> None:
    failure = exit_cause.cause_of_death("runner", "load", -6, (line,), None)
    assert failure.kind == "out of memory"
    assert failure.log == (line,)


def test_a_program_that_had_no_memory_to_start_is_not_the_models_fault() -> None:
    failure = exit_cause.cause_of_death("runner", "load", START_FAILED, ("MemoryError",), None)
    assert (failure.stage, failure.kind) == ("start", "out of memory")
    assert "smaller model" not in failure.hint


def test_a_signal_without_a_name() -> None:
    assert "signal 99" in exit_cause.cause_of_death("runner", "run", -99, (), None).message


def test_a_start_that_failed_points_to_the_log() -> None:
    assert "Install hasten" in exit_cause.cause_of_death("runner", "start", 1, ("ModuleNotFoundError",), None).hint

"""The study of copies on real models, in real runners: short, so only what must hold at any speed."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import pytest

from hasten.api import Effort, copies
from hasten.core.errors import ModelError, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.plan import Plan
from hasten.practices.copies.rules import finding_of, recommended_way
from hasten.practices.copies.words import BOOK, PHRASES
from hasten.runner import copies as copies_module
from hasten.runner import copy_engines
from hasten.runner.copy_ways import WAYS
from hasten.targets.local import LocalTarget
from tests import example_models
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.remark import Remark
    from hasten.practices.copies.facts import CopiesFound
    from hasten.targets.client import RunnerClient


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """One operator on 1 MB: copying takes as long as computing."""
    g = ModelBuilder()
    g.output(g.relu(g.input("x", (1, 256, 1024))), "y")
    path = tmp_path / "large.tflite"
    path.write_bytes(g.build())
    return path


def chosen(found: CopiesFound) -> str:
    return recommended_way(found.rows, found.inference_us)


def reasons_of(found: CopiesFound) -> dict[str, str]:
    return {row.key: row.reason.code or BOOK.text(row.reason) for row in found.rows if row.us is None}


def test_every_way_has_a_row_and_copies_cost_what_copies_cost(large: Path) -> None:
    found = copies(large, effort=Effort(1.5))
    assert {row.key for row in found.rows} == {way.key for way in WAYS}
    cost = {(row.key, row.direction): row.us for row in found.rows if row.us is not None}
    assert found.input_bytes == found.output_bytes == 1 << 20
    for direction in ("in", "out"):
        copied, in_place = cost["copying", direction], cost["host", direction]
        assert copied is not None
        assert in_place is not None
        assert 3 * in_place < copied, "a copy of 1 MB takes far longer than none"
        total = (cost["copying", "in"] or 0.0) + (cost["copying", "out"] or 0.0)
        assert cost["copying", "both"] == pytest.approx(total), "feeding and reading add up to the total shown"
    assert cost["list", "in"] > cost["wrong type", "in"] > cost["views", "in"]
    assert chosen(found) in ("views", "host")
    assert finding_of(found).practice == "copies"
    assert reasons_of(found) == {"locked": "copies.host-memory"}
    shares = [row.share for row in found.rows if row.us is not None]
    assert all(share is not None for share in shares)


def test_the_snippet_runs(large: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = copies(large, effort=Effort(0.2))
    exec(compile(found.snippet, "snippet", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.startswith("y [0. 0. 0.")
    assert "class FastModel(" in copies(large, language="kotlin", effort=Effort(0.2)).snippet


def test_a_language_that_cannot_follow_the_plan_is_refused_before_measuring(large: Path) -> None:
    with pytest.raises(UsageError, match="no kotlin code for the plan npu"):
        copies(large, Plan(accelerator="npu"), language="kotlin")


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (example_models.no_signature(), {"signature": "copies.no-signature"}),
        (example_models.accumulator(), {}),
        (example_models.mobilenet_like(width=8, blocks=1, size=8, dtype="int8"), {}),
    ],
)
def test_odd_models_have_rows_too(tmp_path: Path, content: bytes, refused: dict[str, str]) -> None:
    path = tmp_path / "odd.tflite"
    path.write_bytes(content)
    found = copies(path, effort=Effort(4.0))  # time for every way, also beside other work on slow cores
    assert reasons_of(found).items() >= refused.items()
    assert {row.key for row in found.rows if row.us is not None} >= {"copying", "views"}


def test_a_model_for_the_classic_interface_only_says_so(large: Path) -> None:
    found = copies(large, Plan(kernel="reference"), effort=Effort(0.2))
    assert reasons_of(found)["host"] == "copies.classic-only"
    assert chosen(found) == "views"


class _Dying(LocalTarget):
    """A target on which one interface of LiteRT takes the whole process with it."""

    def start(self, plan: Plan) -> RunnerClient:
        runner = super().start(plan)
        plain = runner.copies

        def open_or_die(path: Path, workload: object, family: str) -> tuple[list[str], dict[str, Remark]]:
            if family == "buffers":
                runner.close()
                raise RunnerFailed(Failure("load", "crash", "native code crashed with SIGABRT"))
            return plain(path, workload, family)  # type: ignore[arg-type]

        runner.copies = open_or_die  # type: ignore[method-assign]
        return runner


def test_every_reason_of_a_runner_has_a_sentence() -> None:
    source = "".join(inspect.getsource(module) for module in (copies_module, copy_engines))
    codes = {f"copies.{code}" for code in re.findall(r'Refused\("([\w-]+)"', source)}
    assert len(codes) >= 10
    assert codes <= set(PHRASES)


def test_an_interface_that_crashes_costs_its_own_rows_only(large: Path) -> None:
    found = copies(large, effort=Effort(0.3, _Dying()))
    assert reasons_of(found)["buffers"] == "native code crashed with SIGABRT"
    assert found.processes == 3
    assert chosen(found) in ("views", "host")


def test_a_model_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "custom.tflite"
    path.write_bytes(example_models.custom_operator())
    with pytest.raises(ModelError):
        copies(path, effort=Effort(0.2))

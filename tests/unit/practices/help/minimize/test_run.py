"""The smallest part of real models, run by the real engine: one bad operator of sixty, slow, wrong or deadly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.core.errors import UsageError
from hasten.core.plan import Plan, Workload
from hasten.measure.effort import Effort
from hasten.model.reader import read_graph
from hasten.practices.help.examination import model_candidate
from hasten.practices.help.minimize.facts import CRASH, SLOW, WRONG
from hasten.practices.help.minimize.run import Search, run, smallest_path
from hasten.targets.local import LocalTarget
from tests import example_models
from tests.unit.practices.help import planted

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.help.minimize.facts import Minimized
    from hasten.targets.client import RunnerClient


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class CountingTarget(LocalTarget):
    """This machine; counts the processes that were started on it."""

    started = 0

    def start(self, plan: Plan) -> RunnerClient:
        self.started += 1
        return super().start(plan)


def minimized(
    folder: Path,
    problem: str,
    model: bytes,
    other: bytes | None = None,
    plan: Plan = Plan(),
    target: LocalTarget | None = None,
) -> Minimized:
    candidate, graph = model_candidate(planted.written(folder, model), Plan())
    against, _ = model_candidate(planted.written(folder, other or model, "other.tflite"), plan)
    if other is None:
        against = model_candidate(candidate.path, plan)[0]
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    return run(Search(problem, candidate, graph, against, parts), Effort(on=target or LocalTarget()))


def test_a_crash_ends_with_its_operator_and_is_not_searched_twice(tmp_path: Path) -> None:
    target = CountingTarget()
    found = minimized(tmp_path, CRASH, planted.crashing_chain(nodes=6, bad=3), target=target)
    assert found.shown
    assert found.complete
    assert 3 in found.nodes
    assert len(found.nodes) == 1
    assert found.part.code == "minimize.crash"
    assert len(read_graph(smallest_path(tmp_path / "parts")).main.nodes) == len(found.nodes)
    before = target.started
    again = minimized(tmp_path, CRASH, planted.crashing_chain(nodes=6, bad=3), target=target)
    assert (again.nodes, again.operators) == (found.nodes, found.operators)
    assert target.started == before + 1  # the whole model, which tells what to look for
    assert again.remembered == found.tests - 1


@pytest.mark.slow
def test_a_model_that_does_not_show_the_problem_says_so(tmp_path: Path) -> None:
    floats, integers = example_models.mobilenet_like(), example_models.mobilenet_like(dtype="int8")
    for problem, sound in ((CRASH, floats), (WRONG, floats), (WRONG, integers)):
        found = minimized(tmp_path, problem, sound, plan=Plan(kernel="reference"))
        assert not found.shown
        assert len(found.nodes) == found.total


@pytest.mark.slow
def test_sixty_nodes_shrink_to_the_deadly_one(tmp_path: Path) -> None:
    found = minimized(tmp_path, CRASH, planted.crashing_chain())
    assert found.total == planted.NODES
    assert planted.BAD in found.nodes
    assert len(found.nodes) <= 3


@pytest.mark.slow
def test_sixty_nodes_shrink_to_the_wrong_one(tmp_path: Path) -> None:
    found = minimized(tmp_path, WRONG, planted.wrong_chain(-3.0), planted.wrong_chain(1.0))
    assert found.total == planted.NODES
    assert found.nodes == (planted.BAD,)
    assert found.operators == ("MUL",)
    assert found.part.facts["inputs"] == "recorded"


@pytest.mark.slow
def test_sixty_nodes_shrink_to_the_slow_one(tmp_path: Path) -> None:
    found = minimized(tmp_path, SLOW, planted.slow_chain())
    assert found.total == planted.NODES
    assert planted.BAD in found.nodes
    assert len(found.nodes) <= 3
    assert found.part.facts["share"] > 0.5


@pytest.mark.slow
def test_what_is_slow_against_another_plan_is_found(tmp_path: Path) -> None:
    """The reference kernels take far longer than XNNPACK for the one large convolution."""
    candidate, graph = model_candidate(planted.written(tmp_path, planted.slow_chain(20, 11)), Plan(kernel="reference"))
    other, _ = model_candidate(candidate.path, Plan())
    (tmp_path / "parts").mkdir()
    found = run(Search(SLOW, candidate, graph, other, tmp_path / "parts"), Effort())
    assert found.shown
    assert 11 in found.nodes
    assert len(found.nodes) <= 3


def test_time_that_is_up_leaves_what_was_found(tmp_path: Path) -> None:
    """A clock that says so after the whole model was tested."""
    candidate, graph = model_candidate(planted.written(tmp_path, planted.crashing_chain(nodes=12, bad=7)), Plan())
    (tmp_path / "parts").mkdir()
    found = run(Search(CRASH, candidate, graph, candidate, tmp_path / "parts"), Effort(seconds=1e-6))
    assert not found.complete
    assert len(found.nodes) == 12
    assert smallest_path(tmp_path / "parts").exists()


def test_what_cannot_be_searched_is_refused_first(tmp_path: Path) -> None:
    candidate, graph = model_candidate(planted.written(tmp_path, example_models.mobilenet_like()), Plan())
    strange, _ = model_candidate(planted.written(tmp_path, example_models.one_operator(), "o.tflite"), Plan())
    with pytest.raises(UsageError, match="other operators"):
        run(Search(WRONG, candidate, graph, strange, tmp_path), Effort())
    with pytest.raises(UsageError, match="no problem"):
        run(Search("ugly", candidate, graph, candidate, tmp_path), Effort())
    resized = type(candidate)(
        candidate.label, candidate.path, candidate.model, workload=Workload(shapes=(("x", (1, 64, 64, 3)),))
    )
    with pytest.raises(UsageError, match="main graph"):
        run(Search(CRASH, resized, graph, resized, tmp_path), Effort())


@pytest.mark.slow
def test_a_damaged_journal_is_no_trouble(tmp_path: Path) -> None:
    first = minimized(tmp_path, CRASH, planted.crashing_chain(nodes=6, bad=3))
    (journal,) = (tmp_path / "cache" / "hasten" / "minimize").iterdir()
    journal.write_bytes(b"\x00\xff" * 40)
    again = minimized(tmp_path, CRASH, planted.crashing_chain(nodes=6, bad=3))
    assert again.nodes == first.nodes
    assert again.remembered == 0

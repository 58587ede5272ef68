"""Rewrites tried on real models by the real engine: kept if equal and faster, refused if wrong, slower or of no use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten import api
from hasten.core.comparison import Comparison, Verdict, compare_rounds
from hasten.core.errors import UsageError
from hasten.core.finding import Standing
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.demo import MODEL
from hasten.explanation.inner_tensors import Subject
from hasten.measure.opening import open_model
from hasten.measure.schedule import Schedule
from hasten.model.reader import read_graph
from hasten.practices.operators import run as study
from hasten.practices.operators.facts import TOGETHER, Tried
from hasten.practices.operators.rules import finding_of
from hasten.rewrites.dead_code import DEAD_CODE
from hasten.rewrites.registry import GPU_REWRITES, REWRITES
from hasten.rewrites.rewrite import Change, Rewrite
from tests.example_models import dynamic_batch, mobilenet_like
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.edit.graph import EditedGraph
    from hasten.practices.operators.facts import OperatorsFound

SHORT = api.Effort(4.0)
SAME, FASTER, SLOWER = (compare_rounds([log_ratio] * 6) for log_ratio in (0.0, -0.3, 0.3))


def roundabout(folder: Path) -> Path:
    """A model half of whose time goes into work that no output needs to be done twice."""
    g = ModelBuilder()
    x = g.input("x", (1, 32, 32, 16))
    once, twice = g.conv2d(x, 32, 3), g.conv2d(x, 32, 3)
    g.output(g.tanh(once), "y")
    g.output(g.tanh(twice), "z")
    return g.write(folder / "m.tflite")


def doubled(graph: EditedGraph) -> list[Change]:
    """A wrong rewrite: the second convolution's result stands for the first's."""
    convolutions = [operator for operator in graph.operators if graph.op(operator) == "CONV_2D"]
    if len(convolutions) < 2:
        return []
    graph.let_read(convolutions[1].outputs[0], convolutions[0].outputs[0])
    return [Change(convolutions[1].nodes)]


def padded(graph: EditedGraph) -> list[Change]:
    """A correct rewrite that only costs: the input is turned and turned back."""
    first = graph.operators[0]
    if graph.op(first) == "TRANSPOSE":
        return []
    size = graph.shape(first.inputs[0])
    there = graph.add_constant(np.array([0, 2, 1, 3], np.int32), "there")
    turned = graph.add_tensor((size[0], size[2], size[1], size[3]), like=first.inputs[0])
    back = graph.add_tensor(size, like=first.inputs[0])
    source = first.inputs[0]
    graph.insert("TRANSPOSE", [source, there], [turned], before=first)
    graph.insert("TRANSPOSE", [turned, there], [back], before=first)
    for operator in graph.readers(source)[1:]:
        graph.set_input(operator, operator.inputs.index(source), back)
    return [Change(first.nodes)]


def tried(model: Path, monkeypatch: pytest.MonkeyPatch, *rewrites: Rewrite) -> OperatorsFound:
    monkeypatch.setattr(study, "rewrites_for", lambda accelerator: rewrites)
    return api.operators(model, effort=SHORT)


def test_rewrites_are_those_of_the_accelerator_or_those_that_are_named(tmp_path: Path) -> None:
    model = roundabout(tmp_path)

    def tried_on(accelerator: str, *names: str) -> tuple[Rewrite, ...]:
        candidate, graph = open_model(model, Plan(accelerator=accelerator))
        asked = api.OperatorOptions(rewrites=names)
        return study._Study(candidate, graph, tmp_path, SHORT, asked, None)._rewrites

    assert tried_on("cpu") == REWRITES
    assert tried_on("gpu") == GPU_REWRITES
    assert [rewrite.name for rewrite in tried_on("gpu", "layout")] == ["layout"]


def test_names_that_are_unknown_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    asked = api.OperatorOptions(rewrites=("widen",))
    model, told = roundabout(tmp_path), list[str]()
    effort = api.Effort(4.0, progress=lambda share, text: told.append(text))
    with pytest.raises(UsageError, match="no rewrite 'widen'"):
        api.operators(model, options=asked, effort=effort)
    assert told == []


def test_a_wrong_rewrite_is_refused_however_fast_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(roundabout(tmp_path), monkeypatch, Rewrite("doubled", doubled))
    (one,) = found.tried
    assert not one.kept
    assert one.max_error is not None
    assert one.max_error > 0
    assert one.why.code == "operators.not-equal"
    assert one.comparison is None
    assert found.final is None


@pytest.mark.slow
def test_what_is_wrong_alone_is_not_put_together_with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrites = (Rewrite("doubled", doubled), DEAD_CODE, Rewrite("padded", padded))
    found = tried(roundabout(tmp_path), monkeypatch, *rewrites)
    assert {one.what: one.is_equal for one in found.tried} == {"doubled": False, "padded": True}


@pytest.mark.slow
def test_a_correct_rewrite_that_is_slower_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(roundabout(tmp_path), monkeypatch, Rewrite("padded", padded))
    (one,) = found.tried
    assert (one.max_error, one.kept) == (0.0, False)
    assert one.comparison is not None
    assert one.comparison.verdict is not Verdict.FASTER
    assert found.path == ""


@pytest.mark.slow
def test_what_is_equal_and_faster_is_kept_and_written(tmp_path: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 48, 48, 16))
    weights = g.conv2d(x, 32, 3)
    same = [g.tanh(weights) for _ in range(4)]
    total = same[0]
    for value in same[1:]:
        total = g.add(total, value)
    g.output(total, "y")
    found = api.operators(g.write(tmp_path / "m.tflite"), out=tmp_path / "out", effort=api.Effort(12.0))
    assert "duplicates" in {one.what for one in found.kept}
    assert finding_of(found).standing is Standing.TO_DO
    assert found.max_error == 0.0
    graph = read_graph(found.path)
    assert [node.op for node in graph.main.nodes].count("TANH") == 1
    with pytest.raises(UsageError, match="already exists"):
        api.operators(tmp_path / "m.tflite", out=tmp_path / "out")


@pytest.mark.slow
def test_a_usual_network_has_nothing_to_gain(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(mobilenet_like())
    found = api.operators(path, effort=SHORT)
    assert found.final is None
    assert finding_of(found).standing in (Standing.GOOD, Standing.UNDECIDED)
    assert found.invoke_ms > 0


@pytest.mark.slow
def test_an_open_batch_is_compared_with_several_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite that settles the batch is equal with a batch of 1 only."""
    path = tmp_path / "m.tflite"
    path.write_bytes(dynamic_batch())

    def settle(graph: EditedGraph) -> list[Change]:
        first = graph.operators[0]
        if graph.op(first) == "RESHAPE":
            return []
        source = first.inputs[0]
        shape = graph.shape(source)
        fixed = graph.add_tensor(shape, like=source)
        target = graph.add_constant(np.array([1, *shape[1:]], np.int32), "fixed")
        graph.insert("RESHAPE", [source, target], [fixed], before=first)
        graph.set_input(first, 0, fixed)
        return [Change(first.nodes)]

    found = tried(path, monkeypatch, Rewrite("settle", settle))
    (one,) = found.tried
    assert not one.is_equal


@pytest.mark.slow
def test_outputs_are_dropped_on_request_only(tmp_path: Path) -> None:
    g = ModelBuilder()
    x = g.input("x", (1, 64, 64, 8))
    g.output(g.mean(x), "small")
    g.output(g.conv2d(g.conv2d(x, 32, 3), 32, 3), "large")
    model = g.write(tmp_path / "m.tflite")
    asked = api.OperatorOptions(outputs=("small",))
    found = api.operators(model, options=asked, out=tmp_path / "out", effort=api.Effort(8.0))
    assert found.dropped_outputs == ("large",)
    signature = read_graph(found.path).signature()
    assert signature is not None
    assert list(signature.outputs) == ["small"]
    with pytest.raises(UsageError, match="has no output 'medium'"):
        api.operators(model, options=api.OperatorOptions(outputs=("medium",)), effort=SHORT)


def raced_by(
    monkeypatch: pytest.MonkeyPatch, together: Comparison | None, each_s: float, *, of_user: bool = False
) -> tuple[list[list[str]], dict[str, str]]:
    """Which rewrites were raced together, in which order, and why each stands as it does; ten of them apply."""
    candidate, graph = open_model(MODEL)
    asked = study._Study(candidate, graph, Path(), api.Effort(40.0), api.OperatorOptions(), None)
    clock, races = [10.0], list[list[str]]()
    asked._schedule = Schedule(40.0, clock=lambda: clock[0])
    clock[0] += 10.0
    for what in [*(f"r{number}" for number in range(10)), TOGETHER]:
        tried = Tried(what, (0,), 1, 0.0, max_error=0.0, of_user=of_user and what == "r0")
        asked.attempts.append(study._Attempt(tried, Subject(candidate, graph), frozenset({what})))

    def race(self: study._Study, attempts: Sequence[study._Attempt], until_s: float) -> float:
        races.append([one.tried.what for one in attempts])
        clock[0] += 5 * each_s * (len(attempts) + 1)
        for one in attempts:
            found = together if one.tried.what == TOGETHER else SAME
            one.tried = replace(one.tried, comparison=found, why=remark("operators.same"))
        return each_s

    monkeypatch.setattr(study._Study, "_race", race)
    asked._race_all(32.0)
    return races, {one.tried.what: one.tried.why.code for one in asked.attempts}


@pytest.mark.parametrize(
    ("together", "each_s", "alone"),
    [(SAME, 0.3, True), (SAME, 1.2, False), (FASTER, 1.2, False), (SLOWER, 1.2, True), (None, 1.2, True)],
    ids=["a quick model", "a slow one", "a slow one, faster", "a slow one, slower", "a slow one, failed"],
)
def test_rewrites_are_raced_together_first_and_alone_if_that_can_tell_something(
    together: Comparison | None, each_s: float, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    races, why = raced_by(monkeypatch, together, each_s)
    singles = [f"r{number}" for number in range(10)]
    assert races == [[TOGETHER], singles] if alone else [[TOGETHER]]
    assert {why[name] for name in singles} == {"operators.same" if alone else "operators.not-alone"}


def test_a_kernel_of_the_user_has_a_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    races, _ = raced_by(monkeypatch, SAME, 1.2, of_user=True)
    assert races == [["r0", TOGETHER]]

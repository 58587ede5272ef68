"""The list of rewrites: names that users type, and an order in which all can be applied to anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from equal import assert_equal_outputs, small_graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import example_models

from hasten.core.errors import UsageError
from hasten.model.edit.model import EditedModel
from hasten.rewrites.registry import BY_NAME_ONLY, GPU_REWRITES, REWRITES, rewrites_for, rewrites_named
from hasten.rewrites.rewrite import ROUNDING, Rewrite, apply

ALL = tuple(dict.fromkeys((*REWRITES, *GPU_REWRITES, *BY_NAME_ONLY)))
SIMPLER = tuple(rewrite for rewrite in REWRITES if not rewrite.is_form)
# Terms that cancel leave a small output with the rounding of large ones; deep graphs carry it on.
CANCELLATION, MOST_ERROR = 100, 0.2
many = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "rewrites.md"


def applied(data: bytes, *rewrites: Rewrite) -> tuple[bytes, float]:
    """The file after these rewrites, and by what its outputs may differ."""
    model = EditedModel.from_bytes(data)
    found = apply(model, rewrites)
    promised = max((rewrite.tolerance for rewrite in rewrites if rewrite.name in found), default=0.0)
    return model.to_bytes(), min(CANCELLATION * promised, MOST_ERROR)


def test_names_are_unique_and_documented() -> None:
    text = DOCUMENT.read_text()
    assert len({rewrite.name for rewrite in ALL}) == len(ALL)
    assert [rewrite.name for rewrite in ALL if f"`{rewrite.name}`" not in text] == []


def test_rewrites_are_found_by_name_in_their_order() -> None:
    last, first = REWRITES[-1], REWRITES[0]
    assert rewrites_named([last.name, first.name]) == (first, last)
    with pytest.raises(UsageError, match="no rewrite 'widen'") as caught:
        rewrites_named(["widen"])
    assert caught.value.hint is not None
    assert "widening" in caught.value.hint


def test_a_gpu_has_forms_of_its_own() -> None:
    assert rewrites_for("cpu") == rewrites_for("npu") == REWRITES
    assert rewrites_for("gpu") == GPU_REWRITES


def test_only_those_that_are_asked_for_change_what_a_user_sees() -> None:
    assert {rewrite for rewrite in ALL if rewrite.tolerance > ROUNDING} == set(BY_NAME_ONLY)
    assert rewrites_named([BY_NAME_ONLY[0].name]) == BY_NAME_ONLY[:1]


@pytest.mark.parametrize("name", ["mobilenet_like", "efficientnet_like", "dynamic_batch", "two_signatures", "branch"])
@pytest.mark.parametrize("rewrites", [REWRITES, GPU_REWRITES], ids=["cpu", "gpu"])
def test_all_of_them_together_keep_the_outputs_of_models(name: str, rewrites: tuple[Rewrite, ...]) -> None:
    data = getattr(example_models, name)()
    assert_equal_outputs(data, *applied(data, *rewrites))


@settings(many, max_examples=60)
@given(data=small_graphs())
def test_all_of_them_together_keep_the_outputs_of_any_graph(data: bytes) -> None:
    assert_equal_outputs(data, *applied(data, *REWRITES))


@settings(many, max_examples=100)
@given(data=small_graphs(), pair=st.tuples(st.sampled_from(ALL), st.sampled_from(ALL)))
def test_every_pair_keeps_the_outputs_of_any_graph(data: bytes, pair: tuple[Rewrite, Rewrite]) -> None:
    assert_equal_outputs(data, *applied(data, *dict.fromkeys(pair)))


@settings(many, max_examples=40)
@given(data=small_graphs())
def test_what_is_done_is_not_undone(data: bytes) -> None:
    """After all that makes a graph simpler, nothing is left to do, and not a byte changes."""
    model = EditedModel.from_bytes(data)
    apply(model, SIMPLER, most_passes=20)
    once = model.to_bytes()
    again = EditedModel.from_bytes(once)
    assert apply(again, SIMPLER) == {}
    assert again.to_bytes() == EditedModel.from_bytes(once).to_bytes()


@settings(many, max_examples=100)
@given(data=small_graphs(), rewrite=st.sampled_from(ALL))
def test_what_does_not_apply_changes_no_byte(data: bytes, rewrite: Rewrite) -> None:
    model = EditedModel.from_bytes(data)
    if not apply(model, [rewrite]):
        assert model.to_bytes() == EditedModel.from_bytes(data).to_bytes()


@settings(many, max_examples=40)
@given(data=small_graphs())
def test_a_graph_knows_who_reads_and_writes_after_every_rewrite(data: bytes) -> None:
    graph = EditedModel.from_bytes(data).main
    for rewrite in ALL:
        rewrite.apply(graph)
        for index in range(len(graph.record.tensors)):
            assert graph.readers(index) == [one for one in graph.operators if index in one.inputs]
            assert [graph.producer(index)] == ([one for one in graph.operators if index in one.outputs] or [None])

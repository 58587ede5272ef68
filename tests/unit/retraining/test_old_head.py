"""The head that a model has, read from every type it may be stored in; none where more than it makes the logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.model.reader import read_graph
from hasten.retraining.ending import find_ending
from hasten.retraining.head_file import backbone_bytes
from hasten.retraining.old_head import read_head
from hasten.retraining.softmax import probabilities
from tests.unit.retraining.heads import ENDINGS, FLOAT, samples_of
from tests.unit.retraining.test_head_file import answered, given

if TYPE_CHECKING:
    from pathlib import Path

NOT_PLAIN = {"fused_activation", "bias_of_its_own", "convolution_before_pooling", "int8_before_pooling"}


@pytest.mark.parametrize("name", sorted(set(ENDINGS) - NOT_PLAIN))
def test_features_and_the_head_that_was_read_give_the_models_answers(name: str, tmp_path: Path) -> None:
    graph, ending = given(tmp_path, name)
    head = read_head(graph, ending)
    assert head is not None
    images = samples_of(20)[0]
    logits = head.logits(answered(backbone_bytes(graph, ending), images).astype(np.float32))
    expected = {"logits_only": logits, "sigmoids": probabilities(logits, multi_label=True)}.get(
        name, probabilities(logits, multi_label=False)
    )
    found = answered(graph.path, images, 1 if name == "two_outputs" else 0)
    assert np.abs(found - expected).max() < (1e-3 if name in FLOAT and name != "integer_weights" else 0.15)


@pytest.mark.parametrize("name", sorted(NOT_PLAIN))
def test_what_is_more_than_a_linear_layer_is_not_read(name: str, tmp_path: Path) -> None:
    assert read_head(*given(tmp_path, name)) is None


def test_a_head_on_any_tensor_replaces_none(tmp_path: Path) -> None:
    graph, _ = given(tmp_path, "two_outputs")
    assert read_head(graph, find_ending(read_graph(graph.path), features="map")) is None

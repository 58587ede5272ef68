"""Whole networks in NCHW: only the transposes that something needs are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from equal import assert_equal_outputs, operators
from tests import nchw_models

from hasten.model.edit.model import EditedModel
from hasten.rewrites.concatenations import CONCATENATIONS
from hasten.rewrites.constants import CONSTANT_FOLDING
from hasten.rewrites.dead_code import DEAD_CODE, DUPLICATES
from hasten.rewrites.layout import LAYOUT, LAYOUT_ROUNDED
from hasten.rewrites.reshapes import RESHAPES
from hasten.rewrites.rewrite import EXACT, ROUNDING, Rewrite, apply
from hasten.rewrites.stems import SPACE_TO_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT_ONES = (DEAD_CODE, CONSTANT_FOLDING, DUPLICATES, RESHAPES, LAYOUT, SPACE_TO_DEPTH, CONCATENATIONS)
ALL = (*EXACT_ONES, LAYOUT_ROUNDED)


def applied(data: bytes, rewrites: tuple[Rewrite, ...]) -> bytes:
    model = EditedModel.from_bytes(data)
    apply(model, rewrites)
    return model.to_bytes()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_detector_has_one_transpose_in_its_stem_and_one_in_each_head(dtype: str) -> None:
    before = nchw_models.detector(8, 1, 32, dtype=dtype)
    after = applied(before, EXACT_ONES)
    assert operators(before)["TRANSPOSE"] > 60
    assert operators(after)["TRANSPOSE"] == 3
    assert operators(after)["STRIDED_SLICE"] == 0
    assert_equal_outputs(before, after, EXACT)


def test_the_order_of_rewrites_does_not_matter() -> None:
    """A stem may be written before transposes move, or after that."""
    before = nchw_models.detector(8, 1, 32)
    after = applied(before, (SPACE_TO_DEPTH, *EXACT_ONES))
    assert operators(after) == operators(applied(before, EXACT_ONES))


@pytest.mark.parametrize(
    ("draw", "left"), [(nchw_models.squeezed, 1), (nchw_models.shuffled, 1 + 4)], ids=["squeeze and excite", "shuffle"]
)
def test_means_and_dense_layers_follow_where_rounding_may_change(draw: Callable[[], bytes], left: int) -> None:
    """The transpose of the input is left, and those that shuffle channels."""
    before = draw()
    after = applied(before, ALL)
    assert operators(after)["TRANSPOSE"] == left
    assert_equal_outputs(before, after, 20 * ROUNDING)

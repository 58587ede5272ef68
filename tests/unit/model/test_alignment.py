"""Kernels back to nodes: the usual is exact, the doubtful is called so, and nothing is ever refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.model.alignment import align
from hasten.model.kernels import AFTER_MAIN, BEFORE_MAIN, MAIN_KERNELS, OFTEN_WITHOUT_KERNEL, explains, kind_of_kernel

OPERATORS = st.sampled_from([*sorted(MAIN_KERNELS), "CUSTOM", "WHILE"])
TAGS = st.sampled_from(
    sorted({kind for kinds in MAIN_KERNELS.values() for kind in kinds} | {"Convert", "Clamp", "Unheard Of (NC, F99)"})
)


@settings(deadline=None)
@given(st.lists(OPERATORS, min_size=1, max_size=12), st.lists(TAGS, max_size=30))
def test_every_kernel_gets_a_node_and_they_keep_their_order(operators: list[str], tags: list[str]) -> None:
    found = align(operators, tags)
    nodes = [assignment.node for assignment in found]
    assert len(found) == len(tags)
    assert all(0 <= node < len(operators) for node in nodes)
    assert nodes == sorted(nodes)
    assert {assignment.certainty for assignment in found} <= {"exact", "ambiguous", "guess"}


@settings(deadline=None)
@given(st.data(), st.lists(st.sampled_from(sorted(MAIN_KERNELS)), min_size=1, max_size=20))
def test_one_main_kernel_for_each_node_is_exact(data: st.DataObject, operators: list[str]) -> None:
    tags = [data.draw(st.sampled_from(MAIN_KERNELS[operator])) + " (NHWC, F32) GEMM" for operator in operators]
    found = align(operators, tags)
    assert [assignment.node for assignment in found] == list(range(len(operators)))
    assert {assignment.certainty for assignment in found} == {"exact"}


@settings(deadline=None)
@given(st.data(), st.lists(st.sampled_from(sorted(MAIN_KERNELS)), min_size=1, max_size=12), st.integers(0, 11))
def test_inexplicable_kernel_is_a_guess_and_spoils_no_other(data: st.DataObject, operators: list[str], at: int) -> None:
    position = at % len(operators)
    tags = [data.draw(st.sampled_from(MAIN_KERNELS[operator])) for operator in operators]
    tags[position] = "Unheard Of"
    assert align(operators, tags)[position].certainty == "guess"


def test_reshape_without_a_kernel_is_passed_over() -> None:
    found = align(["CONV_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX"], ["Convolution", "Fully Connected", "Softmax"])
    assert [(a.node, a.certainty) for a in found] == [(0, "exact"), (2, "exact"), (3, "exact")]


def test_companions_go_with_their_main_kernel() -> None:
    found = align(["FULLY_CONNECTED", "ADD"], ["Convert", "Fully Connected", "Add", "Clamp"])
    assert [(a.node, a.certainty) for a in found] == [(0, "exact"), (0, "exact"), (1, "exact"), (1, "exact")]


def test_inputs_that_arm_kernels_pack_first_go_with_them() -> None:
    tags = [
        "Pack LH (X8)",
        "Fully Connected (NC, PQS8, QC8W) GEMM",
        "Convert (NC, F32, QP8)",
        "Fully Connected (NC, QP8, F32, QC4W) GEMM",
        "Pack LH (X32)",
        "Batch Matrix Multiply (NC, PF32) GEMM",
        "Pack LH (X16)",
        "Convolution (NHWC, PF16) IGEMM",
    ]
    found = align(["FULLY_CONNECTED", "FULLY_CONNECTED", "BATCH_MATMUL", "CONV_2D"], tags)
    assert [a.node for a in found] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {a.certainty for a in found} == {"exact"}


def test_swish_in_one_kernel_belongs_to_its_first_node() -> None:
    operators = ["CONV_2D", "LOGISTIC", "MUL", "CONV_2D", "LOGISTIC", "MUL"]
    tags = ["Convolution", "Invalid Unary Op", "Fully Connected", "Invalid Unary Op"]
    assert [(a.node, a.certainty) for a in align(operators, tags)] == [
        (0, "exact"),
        (1, "exact"),
        (3, "exact"),
        (4, "exact"),
    ]


def test_two_explanations_as_good_as_each_other_are_ambiguous() -> None:
    (found,) = align(["ADD", "ADD"], ["Add"])
    assert found.certainty == "ambiguous"
    assert found.node == 0


def test_concatenation_of_five_copies() -> None:
    found = align(["CONV_2D", "CONCATENATION", "CONV_2D"], ["Convolution", *["Copy"] * 5, "Convolution"])
    assert [a.node for a in found] == [0, 1, 1, 1, 1, 1, 2]
    assert {a.certainty for a in found} == {"exact"}


@pytest.mark.parametrize("kernels", [1, 5, 40])
def test_more_kernels_than_any_rule_allows_are_guesses(kernels: int) -> None:
    found = align(["SOFTMAX"], ["Add"] * kernels)
    assert [a.node for a in found] == [0] * kernels
    assert {a.certainty for a in found} == {"guess"}


def test_no_kernels_and_no_nodes() -> None:
    assert align(["ADD"], []) == []
    with pytest.raises(ValueError, match="without nodes"):
        align([], ["Add"])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kernels", [2000, 1300])
def test_long_partitions_do_not_take_minutes(kernels: int) -> None:
    """As many of each as the largest models have: the work must not grow with what is missing."""
    source = random.Random(0)
    usual = ["CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "LOGISTIC", "MUL", "MEAN", "FULLY_CONNECTED", "RESHAPE", "SOFTMAX"]
    operators = [source.choice(usual) for _ in range(2000)]
    tags = [MAIN_KERNELS[operator][0] for operator in operators][:kernels]
    assert len(align(operators, tags)) == kernels


def test_kind_is_what_stands_before_layout_and_types() -> None:
    assert kind_of_kernel("Fully Connected (NC, F32) GEMM") == "Fully Connected"
    assert kind_of_kernel("Invalid Unary Op") == "Invalid Unary Op"
    assert kind_of_kernel("") == ""


@pytest.mark.parametrize("operator", sorted(MAIN_KERNELS))
def test_each_operator_is_explained_by_its_main_kernels_alone(operator: str) -> None:
    for kind in MAIN_KERNELS[operator]:
        assert explains(operator, [kind])
    assert not explains(operator, ["Unheard Of"])


def test_tables_speak_of_the_same_operators() -> None:
    for table in (BEFORE_MAIN, AFTER_MAIN, OFTEN_WITHOUT_KERNEL):
        assert set(table) <= set(MAIN_KERNELS)

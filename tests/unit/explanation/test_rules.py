"""What a change comes from, on profiles made by hand: every figure can be checked on paper."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.codec import from_data, to_data
from hasten.core.comparison import Verdict, compare_rounds
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import OperatorTime, PartitionTime, Profile
from hasten.core.remark import Remark, remark
from hasten.explanation.facts import Cause, CauseKind, Change, NodeRow
from hasten.explanation.rules import SideBySide, hints_of, instructions_of, verdict_of
from hasten.explanation.tensor_errors import ErrorMeter, drops, first_below, first_drop, largest_drop
from hasten.explanation.words import BOOK, cause_words
from hasten.model.matching import Certainty, NodeMatch
from tests.unit.fake_target import MACHINE

if TYPE_CHECKING:
    from hasten.core.machine import Machine

FLOAT_KERNEL = "Convolution (NHWC, F32) DWConv"


def operator(index: int, ms: float, op: str = "CONV_2D", **changes: Any) -> OperatorTime:
    fields: dict[str, Any] = {
        "kernels": (FLOAT_KERNEL,),
        "kernel_ms": (ms,),
        "location": "",
        "shapes": "",
        "share": 0.0,
        "partition": 0,
        "mapped": "exact",
    }
    return OperatorTime(index=index, op=op, ms=ms, **{**fields, **changes})


def own_kernel(index: int, ms: float, op: str = "CONV_2D") -> OperatorTime:
    return operator(index, ms, op, kernels=(), kernel_ms=(), partition=None, mapped="engine")


def profile(*operators: OperatorTime, invoke_ms: float | None = None) -> Profile:
    total = sum(one.ms for one in operators)
    delegated = tuple(one.index for one in operators if one.partition is not None)
    left = tuple(one.index for one in operators if one.partition is None)
    partitions = [PartitionTime(0, True, delegated, ("CONV_2D",) * len(delegated), total)]
    if left:
        partitions.append(PartitionTime(1, False, left, tuple(o.op for o in operators if o.partition is None), 0.0))
    return Profile(
        model=Model("m.tflite", 1, "ab"),
        plan=Plan(),
        latency_ms=total,
        plain_ms=total,
        profiled_ms=total,
        invoke_ms=total if invoke_ms is None else invoke_ms,
        coverage=1.0,
        runs=10,
        operators=tuple(operators),
        partitions=tuple(partitions),
    )


def same(*ops: str) -> list[NodeMatch]:
    return [NodeMatch(index, index, Certainty.EXACT, op) for index, op in enumerate(ops)]


def side_by_side(matches: list[NodeMatch], before: Profile, after: Profile) -> SideBySide:
    return SideBySide(matches, (before, after), [(before, after)] * 3)


def causes(matches: list[NodeMatch], before: Profile, after: Profile) -> list[Cause]:
    return side_by_side(matches, before, after).causes()


def test_operators_that_left_the_delegate_are_one_cause() -> None:
    before = profile(operator(0, 1.0), operator(1, 2.0), operator(2, 0.5, "TANH"))
    after = profile(own_kernel(0, 5.0), own_kernel(1, 6.0), operator(2, 0.5, "TANH"))
    first, *others = causes(same("CONV_2D", "CONV_2D", "TANH"), before, after)
    assert (first.kind, first.op, first.nodes) == (CauseKind.LEFT_DELEGATE, "CONV_2D", 2)
    assert (first.ms_before, first.ms_after, first.change_ms.estimate) == (3.0, 11.0, 8.0)
    assert (first.kernel_before, first.kernel_after) == (FLOAT_KERNEL, "built-in kernel")
    assert [other.change_ms.estimate for other in others] == [0.0]
    side = side_by_side(same("CONV_2D", "CONV_2D", "TANH"), before, after).side(1)
    assert (side.nodes, side.delegated_nodes, side.left) == (3, 1, ("#0 CONV_2D", "#1 CONV_2D"))


def test_conversions_inside_a_node_are_told_from_its_kernel() -> None:
    tags = ("Convert (NC, F32, QD8)", "Fully Connected (NC, QD8, F32, QC8W) GEMM")
    after = profile(operator(0, 3.0, kernels=tags, kernel_ms=(2.0, 1.0)))
    first, second = causes(same("CONV_2D"), profile(operator(0, 1.5)), after)
    assert (first.kind, first.change_ms.estimate) == (CauseKind.CONVERSIONS, 2.0)
    assert cause_words(first) == "1 node converts its input in each run"
    assert (second.kind, second.change_ms.estimate, second.ms_after) == (CauseKind.KERNEL, -0.5, 1.0)
    assert second.kernel_after == tags[1]


def test_nodes_added_and_gone() -> None:
    matches = [
        NodeMatch(None, 0, Certainty.NONE, "QUANTIZE"),
        NodeMatch(0, 1, Certainty.EXACT, "CONV_2D"),
        NodeMatch(1, None, Certainty.NONE, "RELU"),
        NodeMatch(None, 2, Certainty.NONE, "ADD"),
    ]
    before = profile(operator(0, 1.0), operator(1, 0.25, "RELU"))
    after = profile(operator(0, 0.5, "QUANTIZE"), operator(1, 1.0), operator(2, 0.75, "ADD"))
    found = {cause.op: cause for cause in causes(matches, before, after)}
    assert {op: cause.kind for op, cause in found.items()} == {
        "QUANTIZE": CauseKind.CONVERSIONS,
        "CONV_2D": CauseKind.KERNEL,
        "RELU": CauseKind.REMOVED,
        "ADD": CauseKind.ADDED,
    }
    assert cause_words(found["QUANTIZE"]) == "1 QUANTIZE added"
    assert found["RELU"].change_ms.estimate == -0.25


def test_every_millisecond_is_in_one_cause_or_outside() -> None:
    matches = [*same("CONV_2D", "CONV_2D", "MUL"), NodeMatch(None, 3, Certainty.NONE, "DEQUANTIZE")]
    tags = ("Convert (NC, F32, QD8)", "Convolution")
    before = profile(operator(0, 1.0), operator(1, 2.0, fused=("2 MUL",)), invoke_ms=3.4)
    after = profile(
        operator(0, 2.5, kernels=tags, kernel_ms=(0.5, 2.0)),
        own_kernel(1, 4.0),
        operator(2, 0.1, "MUL"),
        operator(3, 0.2, "DEQUANTIZE"),
        invoke_ms=7.0,
    )
    sides = side_by_side(matches, before, after)
    total = sum(cause.change_ms.estimate for cause in sides.causes()) + sides.outside().estimate
    assert total == pytest.approx(7.0 - 3.4)


def test_a_node_inside_another_ones_kernel_counts_there() -> None:
    before = profile(operator(0, 1.0, "LOGISTIC"), operator(1, 1.0, "MUL"))
    after = profile(operator(0, 0.5, "LOGISTIC", fused=("1 MUL",)))
    row = side_by_side(same("LOGISTIC", "MUL"), before, after).rows()[1]
    assert (row.ms_after, row.kernel_after, row.change_ms.estimate) == (0.0, "inside #0", -1.0)


def test_partitions_that_cannot_be_looked_into_are_rows_of_their_own() -> None:
    whole = operator(-1, 4.0, "DELEGATE", mapped="partition", fused=("0 CONV_2D",), kernels=("DELEGATE",))
    sides = side_by_side(same("CONV_2D"), profile(operator(0, 1.0)), profile(whole))
    rows = sides.rows()
    assert [(row.op, row.change_ms.estimate) for row in rows] == [("CONV_2D", -1.0), ("DELEGATE", 4.0)]
    (only,) = sides.causes()
    assert (only.kind, only.nodes, only.ms_before, only.ms_after) == (CauseKind.OPAQUE, 1, 1.0, 4.0)


def test_a_cause_is_clear_when_all_rounds_agree() -> None:
    quick, slow = profile(operator(0, 1.0)), profile(operator(0, 2.0))
    steady = SideBySide(same("CONV_2D"), (quick, slow), [(quick, slow)] * 6)
    disturbed = SideBySide(same("CONV_2D"), (quick, slow), [(quick, slow)] * 5 + [(slow, quick)])
    alone = SideBySide(same("CONV_2D"), (quick, slow), [(quick, slow)])
    clear = [sides.causes()[0].change_ms.is_clear for sides in (steady, disturbed, alone)]
    assert clear == [True, False, False]


def test_of_nine_rounds_one_may_be_disturbed() -> None:
    quick, slow = profile(operator(0, 1.0)), profile(operator(0, 1.5))

    def found(agreeing: int, others: int) -> Change:
        rounds = [(quick, slow)] * agreeing + [(slow, quick)] * others
        return SideBySide(same("CONV_2D"), (quick, slow), rounds).causes()[0].change_ms

    assert [found(*counts).is_clear for counts in ((6, 0), (7, 1), (8, 1), (7, 2), (10, 2), (12, 3), (11, 4))] == [
        *(True, False, True),
        *(False, True, True, False),
    ]
    assert found(8, 1).low == 0.5


def cause(kind: CauseKind, ms: float, nodes: int = 1, op: str = "CONV_2D", **changes: Any) -> Cause:
    interval = changes.pop("interval", Change(ms, ms, ms))
    kernels = {"kernel_before": "a", "kernel_after": "b", **changes}
    return Cause(kind, op, kernels["kernel_before"], kernels["kernel_after"], nodes, 1.0, 1.0 + ms, interval)


def named(verdict: Remark) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The causes that a verdict names, and those against it, by operator and milliseconds."""
    main, other = ([from_data(Cause, entry) for entry in verdict.facts[key]] for key in ("main", "other"))
    return [(one.op, one.change_ms.estimate) for one in main], [(one.op, one.change_ms.estimate) for one in other]


def test_the_verdict_names_what_cost_most_first() -> None:
    slower = compare_rounds([math.log(1.9)] * 5)
    assert slower.verdict is Verdict.SLOWER
    found = verdict_of(
        slower,
        [
            cause(CauseKind.CONVERSIONS, 3.1, 24, "inputs of layers"),
            cause(CauseKind.KERNEL, 1.2, 9, "DEPTHWISE_CONV_2D"),
            cause(CauseKind.KERNEL, 0.01),
            cause(CauseKind.KERNEL, -0.4, 3),
        ],
        5.0,
    )
    assert found.code == "explain.slower"
    assert named(found) == ([("inputs of layers", 3.1), ("DEPTHWISE_CONV_2D", 1.2)], [("CONV_2D", -0.4)])
    assert BOOK.text(found) == (
        "The changed model is 1.90× slower: 24 nodes convert their input in each run (+3.10 ms) and 9 DEPTHWISE_CONV_2D"
        " slower in another kernel (a → b, +1.20 ms). In return, 3 CONV_2D faster in another kernel (a → b, −0.400 ms)."
    )


def test_the_verdict_names_nothing_that_is_not_clear() -> None:
    vague = cause(CauseKind.KERNEL, 3.0, interval=Change(3.0, -1.0, 5.0))
    unexplained = verdict_of(compare_rounds([0.5] * 5), [vague], 5.0)
    assert (unexplained.code, named(unexplained)) == ("explain.slower", ([], []))
    same = verdict_of(compare_rounds([0.0] * 5), [], 5.0)
    assert (same.code, named(same)) == ("explain.same", ([], []))


def test_a_clear_ratio_of_too_few_processes_is_called_what_it_is() -> None:
    causes = [cause(CauseKind.LEFT_DELEGATE, 0.3, 2), cause(CauseKind.KERNEL, -0.2, 1)]
    slower = verdict_of(compare_rounds([3.35, 3.36]), causes, 1.0)
    assert (slower.code, slower.facts["pairs"]) == ("explain.slower", 2)
    assert named(slower)[0] == [("CONV_2D", 0.3)]
    faster = verdict_of(compare_rounds([-0.61, -0.60]), causes, 1.0)
    assert (faster.code, faster.facts["pairs"]) == ("explain.faster", 2)
    assert named(faster)[0] == [("CONV_2D", -0.2)]
    for unclear in ([0.1, -0.1], [0.0315, 0.0316]):
        unknown = verdict_of(compare_rounds(unclear), causes, 1.0)
        assert unknown.code == "explain.undecided"
        assert named(unknown) == ([("CONV_2D", 0.3)], [("CONV_2D", -0.2)])


def test_operators_that_lost_by_leaving_the_delegate_are_a_hint() -> None:
    left = [cause(CauseKind.LEFT_DELEGATE, 1.0, op="TANH"), cause(CauseKind.LEFT_DELEGATE, 0.001, op="SOFTMAX")]
    hints = hints_of([*left, cause(CauseKind.KERNEL, 2.0)], 2.0)
    assert hints == (remark("explain.keep-in-delegate", operators=["TANH"]),)
    assert hints_of([cause(CauseKind.KERNEL, 2.0)], 2.0) == ()


def test_a_faster_model_is_explained_by_what_it_won() -> None:
    found = verdict_of(compare_rounds([math.log(0.5)] * 5), [cause(CauseKind.ENTERED_DELEGATE, -2.0)], 4.0)
    assert (found.code, named(found)) == ("explain.faster", ([("CONV_2D", -2.0)], []))


def _machine(architecture: str, *instructions: str) -> Machine:
    return replace(MACHINE, architecture=architecture, instructions=instructions)


def test_instruction_sets_by_architecture() -> None:
    x86 = instructions_of(_machine("x86_64", "avx2", "f16c"))
    assert "AVX-512 VNNI" in x86.lacks
    assert x86.has == ("F16C conversions",)
    assert x86.hint.code == "explain.no-int8-dot-product"
    arm = instructions_of(_machine("aarch64", "asimd", "asimddp", "asimdhp"))
    assert (arm.has, arm.lacks, arm.hint.code) == (("dot product", "fp16"), ("i8mm", "bf16"), "")
    unknown = instructions_of(_machine(""))
    assert (unknown.has, unknown.lacks, unknown.hint.code) == ((), (), "")


def snr(expected: list[float], got: list[float]) -> float:
    meter = ErrorMeter()
    meter.add(np.array(expected), np.array(got))
    return meter.snr_db


def test_signal_over_error() -> None:
    assert snr([10.0, 0.0], [10.0, 1.0]) == pytest.approx(20.0)
    assert snr([1.0], [1.0]) == math.inf
    assert snr([0.0], [0.0]) == math.inf
    assert snr([0.0], [0.5]) == -math.inf
    assert snr([1.0], [math.nan]) == -math.inf
    assert snr([math.inf, 10.0], [5.0, 11.0]) == pytest.approx(20.0)
    assert snr([1.0, 2.0], [1.0]) == -math.inf


def test_the_node_where_error_enters() -> None:
    ratios = {0: math.inf, 1: 45.0, 2: 44.0, 3: 12.0, 4: 30.0}
    found = drops(ratios, {1: [math.inf], 2: [45.0], 3: [44.0, 45.0], 4: [12.0]})
    assert found == {0: 0.0, 1: 75.0, 2: 1.0, 3: 32.0, 4: -18.0}
    assert first_drop(found) == 1  # eight bits begin here
    assert largest_drop(ratios, found) == 3  # and here something is wrong
    assert first_below(ratios) == 3


def test_small_errors_count_where_there_are_no_others() -> None:
    ratios = {0: math.inf, 1: 80.0, 2: 79.0}
    found = drops(ratios, {1: [math.inf], 2: [80.0]})
    assert (first_drop(found), largest_drop(ratios, found), first_below(ratios)) == (1, 1, None)
    assert largest_drop({0: math.inf}, drops({0: math.inf}, {})) is None


def test_a_match_without_a_counterpart_must_say_so() -> None:
    with pytest.raises(ValueError, match="counterpart"):
        NodeMatch(1, None, Certainty.EXACT)


def test_rows_as_data_hold_no_infinities() -> None:
    row = side_by_side(same("CONV_2D"), profile(operator(0, 1.0)), profile(operator(0, 2.0))).rows()[0]
    data = json.loads(json.dumps(to_data(row), allow_nan=False))
    assert data["change_ms"] == {"estimate": 1.0, "low": 1.0, "high": 1.0}
    assert from_data(NodeRow, data) == row

"""The examination of accelerators where something fails, is missing, or is interrupted: all else is still told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.core import doubts
from hasten.core.errors import Interrupted, UsageError
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.core.finding import Standing
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.engine.accelerators import installed_vendors
from hasten.measure.effort import Effort
from hasten.measure.rounds import Candidate
from hasten.practices.accelerators.facts import AcceleratorOptions, AcceleratorsFound, Status
from hasten.practices.accelerators.rules import finding_of, recommend
from hasten.practices.accelerators.run import plans_to_examine, run, vendor_rows
from hasten.practices.accelerators.view import document, view
from hasten.practices.accelerators.words import BOOK
from hasten.show.blocks import Facts
from tests.unit.fake_target import MACHINE
from tests.unit.practices.accelerators.machine import (
    GPU,
    NODES,
    NPU,
    ON_XNNPACK,
    TRUTH,
    Back,
    Examination,
    backs,
    codes,
    graph_in,
    placed,
)
from tests.unit.practices.accelerators.test_run import processes

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.placement import Placement
    from hasten.practices.accelerators.facts import AcceleratorRow


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examination:
    return Examination(graph_in(tmp_path), monkeypatch)


@pytest.mark.parametrize(
    ("asked", "placement", "ran"),
    [
        ("npu", GPU, "LITERT_WEBGPU (4 operators)"),
        ("gpu", placed(("DispatchDelegate", NODES)), "DispatchDelegate (4 operators)"),
        ("ynnpack", ON_XNNPACK, "TfLiteXNNPackDelegate (4 operators)"),
        ("gpu", ON_XNNPACK, "TfLiteXNNPackDelegate (4 operators)"),
    ],
)
def test_two_accelerators_of_which_the_other_runs(
    examined: Examination, asked: str, placement: Placement, ran: str
) -> None:
    """Its quick runs must not be booked on the one that was asked for."""
    rows = examined(backs(**{asked: Back(0.2, placement=placement, without_cpu=True)}))
    assert rows[asked].status is Status.FAILED
    assert rows[asked].why.facts["message"].endswith(f"took the model's operators: {ran}.")
    assert rows[asked].latency is None
    assert recommend(examined.rows)[0] == "xnnpack"
    assert examined.machine.starts[asked] == 1


def test_a_silent_fallback_that_cannot_be_seen_is_no_full_placement(examined: Examination) -> None:
    rows = examined(backs(gpu=Back(0.5, placement=None, without_cpu=False)))
    assert rows["gpu"].status is Status.PARTIAL
    assert rows["gpu"].placed_ops is None
    assert "accelerators.placement-unknown" in codes(rows["gpu"])
    whole = examined(backs(gpu=Back(0.5, placement=None, without_cpu=True)))
    assert (whole["gpu"].status, whole["gpu"].placed_ops) == (Status.RUNS, 4)


def test_a_failure_costs_its_own_row(examined: Examination) -> None:
    crash = Failure("load", "crash", "the runner died of SIGSEGV", "Try another driver.")
    rows = examined(backs(gpu=Back(refuses=crash)))
    assert rows["gpu"].status is Status.FAILED
    assert BOOK.text(rows["gpu"].why) == "The runner died of SIGSEGV. Try another driver."
    assert rows["npu"].latency is not None


@pytest.mark.parametrize(("round_number", "timed"), [(1, False), (3, True)])
def test_a_crash_while_timing(examined: Examination, round_number: int, timed: bool) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, dies_in_round=round_number)))
    assert (rows["npu"].latency is not None) == timed
    if timed:
        assert processes(rows["npu"]) == 2
        assert any("failure" in doubt.facts for doubt in rows["npu"].doubts if doubt.code == doubts.PARTIAL)
    else:
        assert rows["npu"].status is Status.FAILED
        assert rows["npu"].why.facts["message"] == "the runner died of SIGSEGV"
    assert processes(rows["gpu"]) > 4


def test_a_back_end_that_crashed_later_is_not_recommended(examined: Examination) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, dies_in_round=4)))
    npu = rows["npu"]
    assert npu.latency is not None
    assert npu.status is Status.FAILED
    assert npu.failure is not None
    assert BOOK.text(npu.why) == "It failed after 3 rounds: The runner died of SIGSEGV."
    recommended, why = recommend(examined.rows)
    assert recommended == "xnnpack"
    assert "npu" not in BOOK.text(why)
    assert finding_of(examined.rows).standing is Standing.GOOD


def test_only_a_back_end_that_crashed_later_is_none_that_runs(examined: Examination) -> None:
    broken = Back(refuses=Failure("load", "crash", "the runner died of SIGSEGV"))
    examined(backs(gpu=broken, npu=Back(0.5, placement=NPU, dies_in_round=4)))
    finding = finding_of(examined.rows)
    assert finding.standing is Standing.NOT_EXAMINED
    assert "NPU: It failed after 3 rounds" in BOOK.text(finding.remark)


def test_a_base_that_crashed_later_is_not_stayed_with(examined: Examination) -> None:
    examined(backs(xnnpack=Back(dies_in_round=4)))
    name, why = recommend(examined.rows)
    assert name in ("gpu", "npu")
    assert "XNNPACK does not run this model. It failed after 3 rounds" in BOOK.text(why)


def test_missing_libraries_are_missing_and_say_what_installs_them(examined: Examination) -> None:
    absent = Failure("load", "accelerator", "The NPU accelerator needs OpenVINO.", "Install it.", code=NOT_INSTALLED)
    vulkan = Failure(
        "load", "accelerator", "The GPU accelerator cannot load Vulkan.", "Install it.", code=NOT_INSTALLED
    )
    rows = examined(backs(npu=Back(refuses=absent), gpu=Back(refuses=vulkan)))
    assert (rows["npu"].status, rows["gpu"].status) == (Status.MISSING, Status.MISSING)
    assert BOOK.text(rows["npu"].why).endswith("OpenVINO. Install it.")
    finding = finding_of(examined.rows)
    assert (finding.standing, finding.remark.code) == (Standing.NOT_EXAMINED, "accelerators.none-here")
    assert "NPU: The NPU accelerator needs OpenVINO." in BOOK.text(finding.remark)


def test_without_the_base_the_rest_is_still_told(examined: Examination) -> None:
    rows = examined(backs(xnnpack=Back(refuses=Failure("load", "engine", "XNNPACK cannot lay it out"))))
    assert rows["npu"].latency is not None
    assert rows["npu"].against_cpu is None
    name, why = recommend(examined.rows)
    assert name in ("gpu", "npu")
    assert "XNNPACK does not run this model. XNNPACK cannot lay it out." in BOOK.text(why)
    assert finding_of(examined.rows).standing is Standing.TO_DO


def test_without_reference_kernels_the_next_best_is_the_truth(examined: Examination) -> None:
    gone = Back(refuses=Failure("load", "model", "no such kernel"))
    rows = examined(backs(reference=gone, builtin=gone, npu=Back(0.5, TRUTH[::-1], NPU)))
    assert (rows["xnnpack"].status, rows["npu"].status) == (Status.RUNS, Status.WRONG)
    assert {row.compared_with for row in rows.values() if row.max_error is not None} == {"xnnpack"}
    assert rows["xnnpack"].max_error is None, "nothing is compared with itself"
    because = "with XNNPACK on seeded noise, because the reference kernels and the built-in kernels did not run"
    assert outputs_of(rows) == f"compared {because}"


def test_the_yardstick_that_ran_is_named(examined: Examination) -> None:
    assert outputs_of(examined(backs())) == "compared with the reference kernels on seeded noise"
    gone = Back(refuses=Failure("load", "model", "no such kernel"))
    rows = examined(backs(reference=gone))
    why = "because the reference kernels did not run"
    assert outputs_of(rows) == f"compared with the built-in kernels on seeded noise, {why}"
    data = document(AcceleratorsFound("model.tflite", tuple(rows.values())))
    assert data["outputs"]["facts"]["yardstick"] == "builtin"
    assert next(row for row in data["rows"] if row["name"] == "xnnpack")["compared_with"] == "builtin"


def test_outputs_without_a_yardstick_are_said_to_be_not_compared(examined: Examination) -> None:
    gone = Back(refuses=Failure("load", "model", "no such kernel"))
    alone = examined({name: back if name == "xnnpack" else gone for name, back in backs().items()})
    assert outputs_of(alone) == "not compared: only xnnpack ran"
    assert recommend(examined.rows)[0] == "xnnpack"
    assert outputs_of(examined(backs(xnnpack=gone, builtin=gone, reference=gone))) == "not compared: no CPU kernels ran"


def outputs_of(rows: dict[str, AcceleratorRow]) -> str:
    """What the view says about the comparison of outputs."""
    blocks = view(AcceleratorsFound("model.tflite", tuple(rows.values())))
    facts = next(block.rows for block in blocks if isinstance(block, Facts))
    return next(value for name, value, *_ in facts if name == "outputs")


def test_all_failing_is_told_for_each(examined: Examination) -> None:
    broken = Failure("load", "model", "the file is damaged", "Download it again.")
    rows = examined({name: Back(refuses=broken) for name in backs()})
    assert {row.status for row in rows.values()} == {Status.FAILED}
    name, why = recommend(examined.rows)
    assert (name, why.code) == (None, "accelerators.nothing-runs")
    assert finding_of(examined.rows).standing is Standing.NOT_EXAMINED


def test_outputs_that_cannot_be_checked_recommend_nothing(examined: Examination) -> None:
    crash = Back(refuses=Failure("load", "crash", "native code crashed with SIGABRT"))
    rows = examined(backs(xnnpack=crash, builtin=crash, reference=crash, gpu=crash))
    assert rows["npu"].max_error is None
    name, why = recommend(examined.rows)
    assert (name, why.code, why.facts["names"]) == (None, "accelerators.unchecked", ["npu"])


def test_ynnpack_is_not_the_classic_interface(examined: Examination) -> None:
    rows = examined(backs(ynnpack=Back(0.5, placement=None)))
    assert (rows["ynnpack"].status, rows["ynnpack"].latency) == (Status.FAILED, None)
    assert "has no YNNPACK" in rows["ynnpack"].why.facts["message"]


def test_a_long_message_is_cut(examined: Examination) -> None:
    rows = examined(backs(gpu=Back(refuses=Failure("load", "model", "far too long " * 100, "Do this."))))
    said = BOOK.text(rows["gpu"].why)
    assert len(said) < 280
    assert said.endswith("… Do this.")


def test_an_interruption_leaves_what_was_found(examined: Examination) -> None:
    with pytest.raises(Interrupted) as caught:
        examined(backs(npu=Back(1.01, placement=NPU, interrupted_in_round=3)))
    rows = {row.name: row for row in caught.value.found}
    assert processes(rows["npu"]) == processes(rows["xnnpack"]) == 2
    assert recommend(caught.value.found)[0] == "xnnpack"


def test_a_whole_run_ends_in_one_record_or_one_failure(examined: Examination) -> None:
    examined(backs())
    effort = Effort(5.0, examined.machine)
    candidate = Candidate("model.tflite", examined.graph.path, Model("model.tflite", 100, "ab" * 32))
    found = run(candidate, examined.graph, AcceleratorOptions(), effort)
    assert isinstance(found, AcceleratorsFound)
    assert [row.name for row in found.rows if row.name != "xnnpack 4 threads"] == [row.name for row in examined.rows]
    assert found.rows[1].plan.threads == examined.machine.machine().cores
    examined.machine.backs = {name: Back(refuses=Failure("load", "model", "damaged")) for name in backs()}
    assert run(candidate, examined.graph, AcceleratorOptions(), effort) == Failure("load", "model", "damaged")
    examined.machine.backs = backs(npu=Back(1.01, placement=NPU, interrupted_in_round=2))
    effort = Effort(60.0, examined.machine)
    with pytest.raises(Interrupted) as caught:
        run(candidate, examined.graph, AcceleratorOptions(), effort)
    assert caught.value.found.interrupted


def test_an_interruption_before_anything_was_timed_is_one(examined: Examination) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        examined(backs(npu=Back(1.01, placement=NPU, interrupted_in_round=1)))
    assert not isinstance(caught.value, Interrupted)


def test_a_delegate_without_a_name_is_a_wrong_usage() -> None:
    for setting in ("", ":device=1"):
        with pytest.raises(UsageError, match="names no library"):
            plans_to_examine(Plan(), 1, [setting])


def test_other_vendors_say_which_library_is_missing(tmp_path: Path) -> None:
    for vendor in ("qualcomm", "intel_openvino"):
        (tmp_path / vendor / "compiler").mkdir(parents=True)
        (tmp_path / vendor / "compiler" / f"libLiteRtCompilerPlugin_{vendor}.so").touch()
    (row,) = vendor_rows(1, replace(MACHINE, vendors=installed_vendors(tmp_path)))
    assert (row.name, row.status) == ("npu qualcomm", Status.MISSING)
    assert "vendors/qualcomm/dispatch/libLiteRtDispatch*.so" in BOOK.text(row.why)
    (tmp_path / "qualcomm" / "dispatch").mkdir()
    (tmp_path / "qualcomm" / "dispatch" / "libLiteRtDispatch_Qualcomm.so").touch()
    (row,) = vendor_rows(1, replace(MACHINE, vendors=installed_vendors(tmp_path)))
    assert row.why.facts["dispatch"] == "libLiteRtDispatch_Qualcomm.so"

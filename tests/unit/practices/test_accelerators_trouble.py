"""The examination of accelerators where something fails, is missing, or is interrupted: all else is still told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.core.doubts import DOUBTS
from hasten.core.errors import UsageError
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.core.finding import Standing
from hasten.engine.accelerators import installed_vendors
from hasten.practices.accelerators.facts import FAILED, MISSING, PARTIAL, RUNS, WRONG
from hasten.practices.accelerators.run import ExaminationInterrupted, plans_to_examine
from hasten.practices.accelerators.sentences import finding_of, recommend
from hasten.practices.accelerators.vendors import vendor_rows
from tests.unit.fake_target import MACHINE
from tests.unit.practices.accelerator_machine import (
    GPU,
    NODES,
    NPU,
    ON_XNNPACK,
    TRUTH,
    Back,
    Examination,
    backs,
    graph_in,
    placed,
)

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.placement import Placement


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
    assert rows[asked].status == FAILED
    assert f"it was asked for, but what took the model's operators is {ran}" in rows[asked].why
    assert rows[asked].latency is None
    assert recommend(examined.rows)[0] == "xnnpack"
    assert examined.machine.starts[asked] == 1


def test_a_silent_fallback_that_cannot_be_seen_is_no_full_placement(examined: Examination) -> None:
    rows = examined(backs(gpu=Back(0.5, placement=None, without_cpu=False)))
    assert rows["gpu"].status == PARTIAL
    assert rows["gpu"].placed_ops is None
    assert "does not tell which operators it takes" in rows["gpu"].why
    whole = examined(backs(gpu=Back(0.5, placement=None, without_cpu=True)))
    assert (whole["gpu"].status, whole["gpu"].placed_ops) == (RUNS, 4)


def test_a_failure_costs_its_own_row(examined: Examination) -> None:
    crash = Failure("load", "crash", "the runner died of SIGSEGV", "Try another driver.")
    rows = examined(backs(gpu=Back(refuses=crash)))
    assert rows["gpu"].status == FAILED
    assert rows["gpu"].why == "the runner died of SIGSEGV. Try another driver."
    assert rows["npu"].latency is not None


@pytest.mark.parametrize(("round_number", "timed"), [(1, False), (3, True)])
def test_a_crash_while_timing(examined: Examination, round_number: int, timed: bool) -> None:
    rows = examined(backs(npu=Back(0.5, placement=NPU, dies_in_round=round_number)))
    assert (rows["npu"].latency is not None) == timed
    if timed:
        assert rows["npu"].processes == 2
        assert any("a later process failed" in DOUBTS.text(doubt) for doubt in rows["npu"].doubts)
    else:
        assert (rows["npu"].status, rows["npu"].why) == (FAILED, "the runner died of SIGSEGV")
    assert rows["gpu"].processes > 4


def test_missing_libraries_are_missing_and_say_what_installs_them(examined: Examination) -> None:
    absent = Failure("load", "accelerator", "The NPU accelerator needs OpenVINO.", "Install it.", code=NOT_INSTALLED)
    vulkan = Failure(
        "load", "accelerator", "The GPU accelerator cannot load Vulkan.", "Install it.", code=NOT_INSTALLED
    )
    rows = examined(backs(npu=Back(refuses=absent), gpu=Back(refuses=vulkan)))
    assert (rows["npu"].status, rows["gpu"].status) == (MISSING, MISSING)
    assert rows["npu"].why.endswith("OpenVINO. Install it.")
    finding = finding_of(examined.rows)
    assert finding.standing is Standing.NOT_EXAMINED
    assert "npu: The NPU accelerator needs OpenVINO" in finding.evidence


def test_without_the_base_the_rest_is_still_told(examined: Examination) -> None:
    rows = examined(backs(xnnpack=Back(refuses=Failure("load", "engine", "XNNPACK cannot lay it out"))))
    assert rows["npu"].latency is not None
    assert rows["npu"].against_cpu is None
    name, why = recommend(examined.rows)
    assert name in ("gpu", "npu")
    assert "XNNPACK does not run this model (XNNPACK cannot lay it out)" in why
    assert finding_of(examined.rows).standing is Standing.TO_DO


def test_without_reference_kernels_the_next_best_is_the_truth(examined: Examination) -> None:
    gone = Back(refuses=Failure("load", "model", "no such kernel"))
    rows = examined(backs(reference=gone, builtin=gone, npu=Back(0.5, TRUTH[::-1], NPU)))
    assert (rows["xnnpack"].status, rows["npu"].status) == (RUNS, WRONG)


def test_all_failing_is_told_for_each(examined: Examination) -> None:
    broken = Failure("load", "model", "the file is damaged", "Download it again.")
    rows = examined({name: Back(refuses=broken) for name in backs()})
    assert {row.status for row in rows.values()} == {FAILED}
    name, why = recommend(examined.rows)
    assert name is None
    assert why.startswith("nothing here runs this model")
    assert finding_of(examined.rows).standing is Standing.NOT_EXAMINED


def test_outputs_that_cannot_be_checked_recommend_nothing(examined: Examination) -> None:
    crash = Back(refuses=Failure("load", "crash", "native code crashed with SIGABRT"))
    rows = examined(backs(xnnpack=crash, builtin=crash, reference=crash, gpu=crash))
    assert rows["npu"].error is None
    name, why = recommend(examined.rows)
    assert name is None
    assert why.startswith("only npu runs this model, and its outputs are wrong or cannot be checked; XNNPACK does not")


def test_ynnpack_is_not_the_classic_interface(examined: Examination) -> None:
    rows = examined(backs(ynnpack=Back(0.5, placement=None)))
    assert (rows["ynnpack"].status, rows["ynnpack"].latency) == (FAILED, None)
    assert "has no YNNPACK" in rows["ynnpack"].why


def test_a_long_message_is_cut(examined: Examination) -> None:
    rows = examined(backs(gpu=Back(refuses=Failure("load", "model", "far too long " * 100, "Do this."))))
    assert len(rows["gpu"].why) < 280
    assert rows["gpu"].why.endswith("… Do this.")


def test_an_interruption_leaves_what_was_found(examined: Examination) -> None:
    with pytest.raises(ExaminationInterrupted) as caught:
        examined(backs(npu=Back(1.01, placement=NPU, interrupted_in_round=3)))
    rows = {row.name: row for row in caught.value.rows}
    assert rows["npu"].processes == rows["xnnpack"].processes == 2
    assert recommend(caught.value.rows)[0] == "xnnpack"


def test_an_interruption_before_anything_was_timed_is_one(examined: Examination) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        examined(backs(npu=Back(1.01, placement=NPU, interrupted_in_round=1)))
    assert not isinstance(caught.value, ExaminationInterrupted)


def test_a_delegate_without_a_name_is_a_wrong_usage() -> None:
    for setting in ("", ":device=1"):
        with pytest.raises(UsageError, match="names no library"):
            plans_to_examine(1, [setting])


def test_other_vendors_say_which_library_is_missing(tmp_path: Path) -> None:
    for vendor in ("qualcomm", "intel_openvino"):
        (tmp_path / vendor / "compiler").mkdir(parents=True)
        (tmp_path / vendor / "compiler" / f"libLiteRtCompilerPlugin_{vendor}.so").touch()
    (row,) = vendor_rows(1, replace(MACHINE, vendors=installed_vendors(tmp_path)))
    assert (row.name, row.status) == ("npu qualcomm", MISSING)
    assert "no dispatch library (libLiteRtDispatch*.so) is in vendors/qualcomm/dispatch" in row.why
    (tmp_path / "qualcomm" / "dispatch").mkdir()
    (tmp_path / "qualcomm" / "dispatch" / "libLiteRtDispatch_Qualcomm.so").touch()
    (row,) = vendor_rows(1, replace(MACHINE, vendors=installed_vendors(tmp_path)))
    assert "libLiteRtDispatch_Qualcomm.so is there" in row.why

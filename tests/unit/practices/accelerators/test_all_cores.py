"""XNNPACK with all cores next to the plan: an accelerator that brings threads of its own has no credit for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hasten.core.comparison import Verdict
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.core.finding import Standing
from hasten.core.plan import Plan
from hasten.practices.accelerators.facts import AcceleratorOptions, AcceleratorsFound
from hasten.practices.accelerators.rules import break_even_runs, finding_of, recommend
from hasten.practices.accelerators.view import document, view
from hasten.practices.accelerators.words import BOOK
from hasten.show.terminal import terminal_text
from tests.unit.fake_target import MACHINE
from tests.unit.practices.accelerators.machine import NPU, Back, Examination, SimulatedMachine, backs, graph_in

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.accelerators.facts import AcceleratorRow

ONE_MS, TWO_MS = 2.25, 1.18
TWO = "xnnpack 2 threads"
MISSING = Back(refuses=Failure("load", "accelerator", "It needs a driver.", code=NOT_INSTALLED))


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examination:
    return Examination(graph_in(tmp_path), monkeypatch)


def machine(npu_ms: float, one_ms: float = ONE_MS, two_ms: float = TWO_MS, **changes: Back) -> SimulatedMachine:
    """Two cores, and an NPU that keeps both busy."""
    npu = Back(npu_ms, placement=NPU, without_cpu=True, start_ms=140.0, busy_cores=2.0)
    two = {TWO: Back(two_ms, busy_cores=2.0)}
    usual = {"npu": npu, "builtin": Back(3 * one_ms, placement=None), **two, "gpu": MISSING, **changes}
    simulated = SimulatedMachine(backs(xnnpack=Back(one_ms), **usual))
    simulated.device = replace(MACHINE, cores=2)
    return simulated


def rows_of(found: AcceleratorsFound) -> dict[str, AcceleratorRow]:
    return {row.name: row for row in found.rows}


def rounds(row: AcceleratorRow) -> int:
    return row.latency.processes if row.latency else 0


def headline(found: AcceleratorsFound) -> str:
    remark = finding_of(found.rows).remark
    return f"{BOOK.text(remark)} {BOOK.hint(remark)}".strip()


def test_an_accelerator_that_beats_all_cores_is_judged_by_them(examined: Examination) -> None:
    """2.7 times faster than one thread, of which the accelerator itself brings 1.4."""
    found = examined.whole(machine(0.835))
    rows = rows_of(found)
    name, why = recommend(found.rows)
    assert name == "npu"
    assert why.facts["ratio"]["ratio"] == pytest.approx(0.835 / TWO_MS, rel=0.01)
    assert headline(found).startswith("Use npu: 1.4")
    assert "than XNNPACK with 2 threads. Its start-up is repaid after" in headline(found)
    assert "than XNNPACK with 2 threads" in BOOK.text(rows["npu"].why)
    assert "than XNNPACK with 1 thread" in BOOK.text(rows[TWO].why)
    assert "than XNNPACK with 1 thread" in BOOK.text(rows["builtin"].why)
    assert document(found)["why"].startswith("Use npu: 1.4")
    assert finding_of(found.rows).standing is Standing.TO_DO


def test_every_figure_follows_from_the_latencies_that_are_shown(examined: Examination) -> None:
    rows = rows_of(examined.whole(machine(0.835)))
    npu, one, two = rows["npu"], rows["xnnpack"], rows[TWO]
    assert npu.against_cpu is not None
    assert npu.against_all_cores is not None
    assert npu.against_cpu.ratio == pytest.approx(npu.median_ms / one.median_ms)
    assert npu.against_all_cores.ratio == pytest.approx(npu.median_ms / two.median_ms)
    assert npu.start_ms is not None
    assert two.start_ms is not None
    assert npu.break_even_runs == break_even_runs(npu.start_ms, npu.median_ms, two.start_ms, two.median_ms)
    assert (npu.cpu_threads, two.cpu_threads, rows["builtin"].cpu_threads, one.cpu_threads) == (2, 1, 1, None)


@pytest.mark.parametrize("delegates", [(), ("libmine.so",)], ids=["npu", "external delegate"])
def test_an_accelerator_that_only_beats_one_thread_is_not_recommended(
    examined: Examination, delegates: tuple[str, ...]
) -> None:
    beaten = Back(1.6, placement=NPU, without_cpu=True, busy_cores=2.0)
    simulated = machine(1.6)
    simulated.backs |= {"npu": MISSING, delegates[0]: beaten} if delegates else {}
    found = examined.whole(simulated, options=AcceleratorOptions(delegates))
    row = rows_of(found)[delegates[0] if delegates else "npu"]
    assert row.against_cpu is not None
    assert row.against_cpu.verdict is Verdict.FASTER
    assert row.break_even_runs is None
    assert "slower" in BOOK.text(row.why)
    assert "than XNNPACK with 2 threads" in BOOK.text(row.why)
    assert recommend(found.rows)[0] == TWO
    assert headline(found).startswith("Stay with XNNPACK on the CPU, but use 2 threads: 1.9")
    assert "than XNNPACK with 1 thread. Nothing else is proven faster." in headline(found)
    assert headline(found).endswith("Run the model with --threads 2.")
    assert TWO not in headline(found)
    assert finding_of(found.rows).standing is Standing.TO_DO


def test_a_plan_with_all_cores_has_one_row_of_xnnpack(examined: Examination) -> None:
    found = examined.whole(machine(0.835), Plan(threads=2))
    assert [row.name for row in found.rows] == ["xnnpack", "builtin", "reference", "ynnpack", "gpu", "npu"]
    assert all(row.cpu_threads is None for row in found.rows)
    assert "than XNNPACK. Its start-up" in headline(found)
    assert "time ratio  relative" not in terminal_text(view(found))
    one = examined.whole(machine(0.835))
    assert [row.name for row in one.rows][:3] == ["xnnpack", TWO, "builtin"]
    assert "time ratio  relative" in terminal_text(view(one))


def test_the_cores_of_a_plan_are_those_that_count(examined: Examination) -> None:
    simulated = machine(0.835)
    simulated.device = MACHINE
    found = examined.whole(simulated, Plan(cores=(0, 1)))
    assert found.rows[1].name == TWO
    assert all(row.plan.cores == (0, 1) for row in found.rows)


def test_what_is_undecided_against_all_cores_is_not_recommended(examined: Examination) -> None:
    simulated = machine(1.165)
    simulated.noise = 0.08
    found = examined.whole(simulated, seconds=600.0)
    rows = rows_of(found)
    assert rows["npu"].against_cpu is not None
    assert rows["npu"].against_cpu.verdict is Verdict.FASTER
    assert rounds(rows["npu"]) == rounds(rows[TWO]) == 12, "decided against one thread only, both go on"
    assert recommend(found.rows)[0] == TWO
    assert finding_of(found.rows).standing is Standing.UNDECIDED
    assert "Nothing else is proven faster. Undecided: npu (so far " in headline(found)
    assert "than XNNPACK with 2 threads)." in headline(found)
    assert headline(found).endswith("Run the model with --threads 2. Measure longer (--seconds).")


def test_one_round_decides_nothing_about_threads_either(examined: Examination) -> None:
    found = examined.whole(machine(0.835), seconds=0.1)
    assert recommend(found.rows)[0] == "xnnpack"
    assert finding_of(found.rows).standing is Standing.UNDECIDED
    assert f"Undecided: {TWO} (so far 1.9" in headline(found)


def test_where_more_threads_are_slower_one_thread_is_to_beat(examined: Examination) -> None:
    found = examined.whole(machine(0.835, two_ms=3.0))
    assert rows_of(found)["npu"].against_all_cores is None
    assert headline(found).startswith("Use npu: 2.6")
    assert "than XNNPACK with 1 thread" in headline(found)


def test_kernels_of_the_cpu_are_compared_at_equal_threads(examined: Examination) -> None:
    found = examined.whole(machine(3.0, two_ms=2.2, builtin=Back(1.8, placement=None)))
    assert recommend(found.rows)[0] == "builtin"
    assert "than XNNPACK with 1 thread" in headline(found)


def test_more_threads_are_named_where_no_accelerator_runs(examined: Examination) -> None:
    found = examined.whole(machine(1.0, npu=MISSING))
    assert finding_of(found.rows).standing is Standing.NOT_EXAMINED
    assert "NPU: It needs a driver. XNNPACK with 2 threads is 1.9" in headline(found)
    assert headline(found).endswith("Run the model with --threads 2.")
    assert recommend(found.rows)[0] == TWO


def test_sizes_are_compared_with_all_cores_as_well(examined: Examination) -> None:
    rows = rows_of(examined.whole(machine(1.6), options=AcceleratorOptions(pays_from=True)))
    assert [point.against_cpu.verdict for point in rows["npu"].ladder] == [Verdict.SLOWER] * 4
    assert rows["npu"].ladder[0].cpu.estimate == pytest.approx(TWO_MS, rel=0.02)

"""The same procedures with real processes and tiny models: short, and only about what must always hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests import example_models

from hasten import api
from hasten.api import Effort
from hasten.core.comparison import Verdict
from hasten.core.errors import Interrupted, ModelError, UsageError
from hasten.core.plan import Plan, Workload

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(example_models.one_operator())
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "network.tflite"
    path.write_bytes(example_models.mobilenet_like())
    return path


def test_bench(network: Path) -> None:
    shares: list[float] = []
    found = api.bench(network, effort=Effort(1.0, progress=lambda share, text: shares.append(share)))
    assert found.samples.latency.low <= found.samples.median_ms <= found.samples.latency.high
    assert found.samples.min_ms <= found.samples.median_ms <= found.samples.p95_ms * 1.001
    assert found.init_ms > 0
    assert found.first_run_ms > 0
    assert found.effective.api == "CompiledModel"
    assert found.effective.fully_accelerated is True
    assert shares == sorted(shares)


def test_bench_of_the_smallest_model(tiny: Path) -> None:
    found = api.bench(tiny, effort=Effort(0.5))
    assert found.samples.count > 100
    assert found.samples.min_ms > 0


def test_compare_finds_more_work_slower(tmp_path: Path) -> None:
    less, more = tmp_path / "less.tflite", tmp_path / "more.tflite"
    less.write_bytes(example_models.repeated(4))
    more.write_bytes(example_models.repeated(12))
    found = api.compare((less, Plan()), (more, Plan()), effort=Effort(12.0))
    assert found.comparison.ratio > 1.5
    assert found.comparison.verdict in (Verdict.SLOWER, Verdict.UNDECIDED)
    if found.comparison.rounds >= 5:
        assert found.comparison.verdict is Verdict.SLOWER


def test_sustain(network: Path) -> None:
    found = api.sustain(network, 0.02).sustained
    assert len(found.minutes) >= 5
    assert all(minute.runs > 0 for minute in found.minutes)


def test_an_interrupted_sustained_run_gives_what_it_has(network: Path) -> None:
    calls = 0

    def press(share: float, text: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        api.sustain(network, 0.02, effort=Effort(progress=press))
    assert caught.value.found.sustained.minutes
    assert caught.value.found.model.path == str(network)


def test_profile_with_peaks(network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = api.profile(network, effort=Effort(0.3))
    assert found.peaks is not None
    assert found.peaks.float_gflops > 0.1
    matrix = [op for op in found.operators if op.op == "CONV_2D"]
    assert all(op.headroom_ms is not None and op.headroom_ms >= 0 for op in matrix if op.ms > 0)


def test_other_signature(tmp_path: Path) -> None:
    path = tmp_path / "two.tflite"
    path.write_bytes(example_models.two_signatures())
    assert api.bench(path, workload=Workload("multiply"), effort=Effort(0.3)).samples.count > 0
    with pytest.raises(UsageError, match="divide"):
        api.profile(path, workload=Workload("divide"), roofline=False, effort=Effort(0.3))


def test_model_that_kills_its_process_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "aborting.tflite"
    path.write_bytes(example_models.aborting())
    with pytest.raises(ModelError):
        api.bench(path, effort=Effort(0.3))


def test_tensorflow_operators_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "flex.tflite"
    path.write_bytes(example_models.flex_operator())
    with pytest.raises(ModelError, match="Erf") as raised:
        api.bench(path)
    assert "SELECT_TF_OPS" in raised.value.hint

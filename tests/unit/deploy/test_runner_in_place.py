"""hasten.Runner: views on the engine's own memory, clear errors, one run at a time."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests import example_models
from tests.model_builder import ModelBuilder

import hasten
from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.plan import Plan, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def added(tmp_path: Path) -> Path:
    """A model of two inputs: sum = a + b."""
    path = tmp_path / "add.tflite"
    path.write_bytes(example_models.one_operator())
    return path


@pytest.fixture
def runner(added: Path) -> Iterator[hasten.Runner]:
    with hasten.Runner(added) as found:
        yield found


def _four(*values: float) -> Any:
    return np.array([values], np.float32)


def test_what_is_written_in_place_is_what_is_run(runner: hasten.Runner) -> None:
    a, b, result = runner.inputs["a"], runner.inputs["b"], runner.outputs["sum"]
    a[...], b[...] = 1, (1, 2, 3, 4)
    runner.run()
    assert result.tolist() == [[2, 3, 4, 5]]
    a += 10
    runner.run()
    assert result.tolist() == [[12, 13, 14, 15]], "the views stay good from run to run"
    assert runner.zero_copy
    assert a.ctypes.data % 64 == 0


def test_a_call_copies_and_its_result_stays(runner: hasten.Runner) -> None:
    first = runner(_four(1, 2, 3, 4), _four(1, 1, 1, 1))
    second = runner(a=_four(0, 0, 0, 0), b=_four(5, 5, 5, 5))
    third = runner({"b": _four(1, 0, 0, 0), "a": _four(1, 0, 0, 0)})
    assert [first.tolist(), second.tolist(), third.tolist()] == [[[2, 3, 4, 5]], [[5, 5, 5, 5]], [[2, 0, 0, 0]]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((1, 4)), "takes float32, not float64"),
        (np.zeros((4,), np.float32), "takes the shape 1x4, not 4"),
        (np.zeros((1, 5), np.float32), "takes the shape 1x4, not 1x5"),
        ([[0.0, 0.0, 0.0, 0.0]], "takes a NumPy array, not list"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_expected(runner: hasten.Runner, value: Any, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        runner.inputs["a"] = value
    assert caught.value.hint
    with pytest.raises(DataError, match=said):
        runner(value, _four(0, 0, 0, 0))


def test_wrong_names_are_told_the_right_ones(runner: hasten.Runner) -> None:
    with pytest.raises(UsageError, match="no input 'x'") as caught:
        runner.inputs["x"]
    assert "'a', 'b'" in caught.value.hint
    with pytest.raises(UsageError, match="no output 'y'"):
        runner.outputs["y"]
    with pytest.raises(UsageError, match="Input 'b' has no value"):
        runner(_four(0, 0, 0, 0))
    with pytest.raises(UsageError, match="takes 2 inputs, not 3"):
        runner(*[_four(0, 0, 0, 0)] * 3)
    with pytest.raises(UsageError, match="is an output"):
        runner.outputs["sum"] = _four(0, 0, 0, 0)
    with pytest.raises(ValueError, match="read-only"):
        runner.outputs["sum"][...] = 1


def test_after_close_it_says_so_and_old_views_are_still_memory(added: Path) -> None:
    runner = hasten.Runner(added)
    view, result = runner.inputs["a"], runner.outputs["sum"]
    runner(_four(1, 1, 1, 1), _four(1, 1, 1, 1))
    runner.close()
    runner.close()
    for use in (
        runner.run,
        lambda: runner.inputs["a"],
        lambda: runner(_four(1, 1, 1, 1)),
        runner.exclusive().__enter__,
    ):
        with pytest.raises(UsageError, match="closed"):
            use()
    gc.collect()
    view[...] = 7
    assert result.tolist() == [[2, 2, 2, 2]]


def test_calls_from_many_threads_do_not_mix(runner: hasten.Runner) -> None:
    wrong: list[Any] = []

    def work(number: float) -> None:
        for step in range(150):
            found = runner(_four(*[number] * 4), _four(*[step] * 4))
            if found.tolist() != [[number + step] * 4]:
                wrong.append((number, step, found))

    threads = [threading.Thread(target=work, args=(100.0 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_exclusive_keeps_others_out_while_buffers_are_used_in_place(runner: hasten.Runner) -> None:
    other = threading.Thread(target=runner, args=(_four(9, 9, 9, 9), _four(9, 9, 9, 9)))
    with runner.exclusive():
        runner.inputs["a"][...] = runner.inputs["b"][...] = 1
        other.start()
        runner.run()
        assert runner.outputs["sum"].tolist() == [[2, 2, 2, 2]]
    other.join()
    assert runner.outputs["sum"].tolist() == [[18, 18, 18, 18]]


def test_closing_waits_for_the_run_under_way(tmp_path: Path) -> None:
    path = tmp_path / "chain.tflite"
    path.write_bytes(example_models.repeated(8))
    runner = hasten.Runner(path)
    closing = threading.Thread(target=runner.close)
    with runner.exclusive():
        closing.start()
        runner.run()
        assert np.isfinite(runner.outputs["y"]).all()
    closing.join()
    with pytest.raises(UsageError, match="closed"):
        runner.run()


def test_real_values_go_in_and_out_of_a_quantized_model(tmp_path: Path) -> None:
    path = tmp_path / "int8.tflite"
    path.write_bytes(example_models.mobilenet_like(width=8, blocks=1, size=8, dtype="int8"))
    with hasten.Runner(path) as runner:
        values = np.linspace(-3, 3, 8 * 8 * 3, dtype=np.float32).reshape(1, 8, 8, 3)
        runner.quantize("x", values)
        stored = runner.inputs["x"]
        assert stored.dtype == np.int8
        assert np.abs(stored * example_models.INPUT_SCALE - values).max() <= example_models.INPUT_SCALE / 2 + 1e-6
        runner.quantize("x", np.full((1, 8, 8, 3), 1e9))
        assert (stored == 127).all(), "beyond the range is its end"
        runner.quantize("x", values)
        runner.run()
        probabilities = runner.dequantize("probabilities")
        assert probabilities.dtype == np.float32
        assert abs(float(probabilities.sum()) - 1) < 0.05
        with pytest.raises(DataError, match="takes int8, not float32") as caught:
            runner.inputs["x"] = values
        assert "runner.quantize" in caught.value.hint


def test_there_is_nothing_to_quantize_in_real_values(runner: hasten.Runner) -> None:
    with pytest.raises(UsageError, match="not quantized"):
        runner.quantize("a", _four(0, 0, 0, 0))
    runner(_four(1, 1, 1, 1), _four(1, 1, 1, 1))
    assert runner.dequantize("sum").tolist() == [[2, 2, 2, 2]]


def test_a_bundle_brings_its_plan_and_an_own_plan_counts_more(tmp_path: Path, added: Path) -> None:
    bundle = write_bundle(added, Bundle(tmp_path / "out", plan=Plan(threads=2), labels=("cat",)))
    with hasten.Runner(bundle.folder) as runner:
        assert runner.plan == Plan(threads=2)
        assert runner.bundle is not None
        assert runner.bundle.labels == ("cat",)
        assert runner(_four(1, 1, 1, 1), _four(1, 1, 1, 1)).tolist() == [[2, 2, 2, 2]]
    with hasten.Runner(bundle.folder, Plan(kernel="builtin")) as runner:
        assert runner.plan.kernel == "builtin"


def test_shapes_and_cores_of_the_plan_are_taken(tmp_path: Path) -> None:
    import os

    g = ModelBuilder()
    g.output(g.relu(g.input("x", (1, 4))), "y")
    path = tmp_path / "relu.tflite"
    path.write_bytes(g.build())
    before = os.sched_getaffinity(0)
    core = min(before)
    with hasten.Runner(path, Plan(cores=(core,)), Workload(shapes=(("x", (3, 4)),))) as runner:
        assert runner(np.full((3, 4), -1, np.float32)).tolist() == [[0] * 4] * 3
    assert os.sched_getaffinity(0) == before, "the application's own thread stays free"


def test_a_model_for_the_classic_interface_runs_with_copies_and_keeps_its_state(tmp_path: Path) -> None:
    path = tmp_path / "reference.tflite"
    path.write_bytes(example_models.one_operator())
    with hasten.Runner(path, Plan(kernel="reference")) as runner:
        assert not runner.zero_copy
        runner.inputs["a"][...], runner.inputs["b"][...] = 1, 2
        runner.run()
        assert runner.outputs["sum"].tolist() == [[3, 3, 3, 3]]
    path.write_bytes(example_models.accumulator())
    with hasten.Runner(path) as runner:
        sums = [runner(_four(1, 2, 3, 4)).tolist() for _ in range(3)]
        assert sums == [[[1, 2, 3, 4]], [[2, 4, 6, 8]], [[3, 6, 9, 12]]], "it begins at nothing, and keeps its state"


def test_what_is_no_model_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model file"):
        hasten.Runner(tmp_path / "gone.tflite")
    torn = tmp_path / "torn.tflite"
    torn.write_bytes(example_models.one_operator()[:200])
    with pytest.raises(ModelError):
        hasten.Runner(torn)


def test_an_application_gets_nothing_but_the_engine() -> None:
    heavy = ("rich", "hasten.measure", "hasten.model", "hasten.targets", "hasten.runner", "hasten.data")
    code = f"import sys, hasten; hasten.Runner; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

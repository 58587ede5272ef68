"""The records and words that everything else is made of: plans, units, doubts, failures, errors, measurements."""

from __future__ import annotations

import itertools
import json
import re
from array import array
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core import doubts, errors
from hasten.core.block import Block, Conditions
from hasten.core.codec import from_data, to_data
from hasten.core.doubts import DOUBTS
from hasten.core.errors import AcceleratorError, DataError, HastenError, ModelError, TargetError, UsageError
from hasten.core.failure import KINDS, STAGES, Failure, failure_from_error
from hasten.core.goal import Goal
from hasten.core.measurement import Effective, Measurement, Model, effective_doubts
from hasten.core.phrases import filled
from hasten.core.plan import (
    ACCELERATORS,
    KERNELS,
    PRECISIONS,
    Plan,
    Workload,
    plan_from_mapping,
    plan_with,
    workload_from_mapping,
)
from hasten.core.remark import remark_from_data, said
from hasten.core.samples import Samples
from hasten.core.units import cost_interval_ms, count, interval_ms, milliseconds, percent, ratio_interval, size, speedup

PLANS = st.builds(
    Plan,
    accelerator=st.sampled_from(ACCELERATORS),
    threads=st.integers(1, 1024),
    kernel=st.sampled_from(KERNELS),
    precision=st.sampled_from(PRECISIONS),
    delegate=st.text(max_size=20),
    options=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=3).map(tuple),
    kernels=st.lists(st.text(max_size=20), max_size=2).map(tuple),
)
WORKLOADS = st.builds(
    Workload,
    signature=st.text(max_size=10),
    shapes=st.lists(
        st.tuples(st.text(max_size=8), st.lists(st.integers(1, 512), max_size=4).map(tuple)), max_size=3
    ).map(tuple),
    seed=st.integers(0, 2**31),
)


class TestPlan:
    @settings(deadline=None)
    @given(PLANS)
    def test_comes_back_from_json(self, plan: Plan) -> None:
        assert plan_from_mapping(json.loads(json.dumps(asdict(plan)))) == plan
        assert hash(plan) == hash(plan_from_mapping(asdict(plan)))

    @settings(deadline=None)
    @given(WORKLOADS)
    def test_workload_comes_back_from_json(self, workload: Workload) -> None:
        assert workload_from_mapping(json.loads(json.dumps(asdict(workload)))) == workload

    @pytest.mark.parametrize(
        "wrong", [{"accelerator": "tpu"}, {"kernel": "fast"}, {"precision": "fp8"}, {"threads": 0}, {"threads": 5000}]
    )
    def test_refuses_what_it_does_not_know(self, wrong: dict[str, object]) -> None:
        with pytest.raises(UsageError):
            plan_from_mapping(wrong)

    def test_unknown_setting_is_named_with_the_known_ones(self) -> None:
        with pytest.raises(UsageError, match="'thread'") as raised:
            plan_with(Plan(), {"thread": "2"})
        assert "threads" in raised.value.hint

    def test_settings_as_text(self) -> None:
        base = Plan(options=(("xnnpack.a", "1"),))
        plan = plan_with(base, {"threads": "4", "accelerator": "npu", "cpu.flag": "true", "xnnpack.a": "2"})
        assert (plan.threads, plan.accelerator) == (4, "npu")
        assert dict(plan.options) == {"xnnpack.a": "2", "cpu.flag": "true"}

    def test_kernel_libraries(self) -> None:
        assert plan_with(Plan(), {"kernels": "a.so+lib/b.so"}).kernels == ("a.so", "lib/b.so")
        assert Plan(kernels=("lib/a.so",)).describe() == "cpu, 1 thread, kernels of a.so"
        assert plan_from_mapping({"threads": 2}).kernels == (), "a plan of before"
        with pytest.raises(UsageError, match="kernels"):
            plan_from_mapping({"kernels": "a.so"})

    @pytest.mark.parametrize("text", ["two", "", "1.5", "0x4"])
    def test_threads_must_be_a_whole_number(self, text: str) -> None:
        with pytest.raises(UsageError, match="whole number"):
            plan_with(Plan(), {"threads": text})

    def test_says_what_differs_from_the_default(self) -> None:
        assert Plan().describe() == "cpu, 1 thread"
        plan = Plan("gpu", 4, "builtin", "fp16", options=(("gpu.a", "1"),))
        assert plan.describe() == "gpu, 4 threads, builtin kernels, fp16, gpu.a=1"
        assert Plan(delegate="/usr/lib/libfast.so:a=1").describe() == "delegate libfast.so:a=1, 1 thread"

    def test_shape_of_an_input(self) -> None:
        workload = Workload(shapes=(("x", (1, 2)),))
        assert workload.shape_of("x") == (1, 2)
        assert workload.shape_of("y") is None


class TestUnits:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0.0, "0 ms"),
            (0.0003, "0.300 µs"),
            (0.05, "50.0 µs"),
            (1.2345, "1.23 ms"),
            (123.4, "123 ms"),
            (9999.0, "9999 ms"),
            (123456.0, "123 s"),
            (float("inf"), "unknown"),
            (float("nan"), "unknown"),
        ],
    )
    def test_milliseconds(self, value: float, text: str) -> None:
        assert milliseconds(value) == text

    @settings(deadline=None)
    @given(st.floats(1e-7, 1e9))
    def test_three_digits_are_enough_to_read_the_value_back(self, value: float) -> None:
        number, unit = milliseconds(value).split()
        factor = {"µs": 1e-3, "ms": 1.0, "s": 1e3}[unit]
        assert float(number) * factor == pytest.approx(value, rel=0.006)
        assert "e" not in number

    @settings(deadline=None)
    @given(st.floats(1e-3, 1e7), st.floats(1e-4, 1.0))
    def test_ends_of_an_interval_can_be_told_apart(self, low: float, width: float) -> None:
        text = interval_ms(low, low * (1 + width))
        first, second = text.rsplit(" ", 1)[0].split("–")
        assert float(first) < float(second)

    @settings(deadline=None)
    @given(st.floats(0, 1e9), st.floats(0, 1e9))
    def test_an_interval_that_tells_nothing_shows_no_numbers(self, one: float, other: float) -> None:
        low, high = sorted((one, other))
        for text in (interval_ms(low, high), ratio_interval((low, high))):
            assert (text == "too wide to tell") == (high > 10 * low)

    @settings(deadline=None)
    @given(st.floats(1e-6, 1e6), st.floats(0, 1e9), st.floats(0, 1e9))
    def test_a_speedup_shows_no_interval_that_tells_nothing(self, ratio: float, one: float, other: float) -> None:
        low, high = sorted((one, other))
        text = speedup(ratio, (low, high))
        assert "inf" not in text
        assert not re.search(r"\d{7}", text.partition("CI")[2]) or high <= 10 * low

    def test_what_was_seen_in_the_wild(self) -> None:
        assert ratio_interval((0.0, 30855440.490), 3) == "too wide to tell"
        assert speedup(1.2, (0.0, 30855440.490)) == "not proven slower (1.20×, 95 % CI too wide to tell)"
        assert interval_ms(0.0, 3.7) == "too wide to tell"

    @settings(deadline=None)
    @given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
    def test_no_cost_is_below_nothing(self, one: float, other: float) -> None:
        low, high = sorted((one, other))
        text = cost_interval_ms(low, high)
        assert "−" not in text
        assert (text == "unknown") == (high < 0)

    def test_interval_without_ends(self) -> None:
        assert interval_ms(float("-inf"), float("inf")) == "unknown"
        assert interval_ms(float("nan"), 1.0) == "unknown"
        assert interval_ms(1.0, 1.0) == "1.00–1.00 ms"
        assert interval_ms(0.0, 0.0).startswith("0")

    def test_counts_sizes_and_shares(self) -> None:
        assert [count(value) for value in (None, 7, 1500, 3_000_000, 569_000_000_000)] == [
            "unknown",
            "7",
            "1.50 k",
            "3.00 M",
            "569 G",
        ]
        assert [size(value) for value in (None, 12, 4096, 5_300_000)] == ["unknown", "12 B", "4.10 kB", "5.30 MB"]
        assert [percent(value) for value in (0.0, 0.0123, -0.05, 0.5, 1.2)] == [
            "0.0 %",
            "1.2 %",
            "-5.0 %",
            "50 %",
            "120 %",
        ]
        assert percent(float("inf")) == "unknown"


class TestDoubts:
    @pytest.mark.parametrize("code", doubts.PHRASES)
    def test_each_has_a_hint_that_is_a_sentence(self, code: str) -> None:
        facts = {"input": "image", "usual": "1x224x224x3", "causes": ["throttled"]}
        assert filled(doubts.PHRASES[code].hint, facts).endswith(".")

    def test_one_of_an_older_session_keeps_its_words(self) -> None:
        old = {"reason": "noisy", "evidence": "the interval is ±9.0% wide", "hint": "Give it more time."}
        doubt = remark_from_data(old)
        assert doubt.code == doubts.NOISY
        assert doubts.DOUBTS.text(doubt) == old["evidence"]
        assert doubts.DOUBTS.hint(doubt) == old["hint"]


class TestErrors:
    @pytest.mark.parametrize(
        ("kind", "code"), [(UsageError, 2), (ModelError, 3), (DataError, 3), (TargetError, 4), (AcceleratorError, 4)]
    )
    def test_exit_codes(self, kind: type[HastenError], code: int) -> None:
        assert kind.exit_code == code
        error = kind("what failed", "what to try")
        assert (error.message, error.hint, str(error)) == ("what failed", "what to try", "what failed")

    def test_every_error_is_in_the_tree(self) -> None:
        documented = errors.__doc__ or ""
        for kind in HastenError.__subclasses__():
            assert kind.__name__ in documented


class TestFailure:
    @pytest.mark.parametrize(("stage", "kind"), list(itertools.product(STAGES, KINDS)))
    def test_each_becomes_an_error_that_tells_what_happened(self, stage: str, kind: str) -> None:
        failure = Failure(stage, kind, "what failed", "what to try", tuple(f"line {i}" for i in range(9)))
        for plan in (Plan(), Plan("npu"), Plan(delegate="lib.so")):
            error = failure.error(plan)
            assert error.exit_code in (2, 3, 4)
            assert error.message.startswith("what failed")
            assert ("line 8" in error.message) is (kind != "out of memory")
            assert "line 2" not in error.message
            assert error.hint == "what to try"

    @pytest.mark.parametrize("kind", [UsageError, ModelError, DataError, TargetError, AcceleratorError])
    def test_there_and_back(self, kind: type[HastenError]) -> None:
        failure = failure_from_error(kind("m", "h"), "load")
        assert type(failure.error(Plan())) is kind

    def test_only_lines_of_a_log_begin_a_line(self) -> None:
        name = "x\n  | hasten: all is well"
        error = Failure("load", "model", f"{name} is bad", log=("first", name)).error(Plan())
        assert error.message == "x   | hasten: all is well is bad\n  | first\n  | x   | hasten: all is well"
        again = failure_from_error(error, "load")
        assert again.error(Plan()).message == error.message

    def test_an_error_of_no_kind_is_a_failure_too(self) -> None:
        failure = failure_from_error(HastenError("m", "h"), "load")
        assert (failure.kind, failure.message, failure.hint) == ("bug", "m", "h")

    def test_trouble_of_the_engine_is_the_models_on_the_cpu_and_the_accelerators_elsewhere(self) -> None:
        for kind in ("engine", "crash", "hang", "out of memory"):
            assert type(Failure("run", kind, "m").error(Plan())) is ModelError
            assert type(Failure("run", kind, "m").error(Plan("gpu"))) is AcceleratorError
            assert type(Failure("run", kind, "m").error(Plan(delegate="lib.so"))) is AcceleratorError

    def test_own_bugs_and_runners_that_do_not_start_are_the_targets(self) -> None:
        assert type(Failure("run", "bug", "m").error(Plan())) is TargetError
        assert type(Failure("start", "crash", "m").error(Plan())) is TargetError
        assert type(Failure("start", "out of memory", "m").error(Plan())) is TargetError

    def test_a_lack_of_memory_is_one_sentence(self) -> None:
        assert Failure("load", "out of memory", "m", log=("MemoryError",)).error(Plan()).message == "m"

    def test_unknown_words_are_refused(self) -> None:
        with pytest.raises(ValueError, match="no such failure"):
            Failure("dance", "crash", "m")
        with pytest.raises(ValueError, match="no such failure"):
            Failure("run", "boredom", "m")


def measurement(plan: Plan, effective: Effective) -> Measurement:
    samples = Samples((Block(0, 1.5, array("q", [1_000_000] * 40), Conditions(joules=1.0)),), 30)
    model = Model("models/m.tflite", 1234, "ab" * 32)
    doubt = said("still falling", doubts.NOT_STEADY)
    return Measurement(model, plan, Workload(), effective, samples, 12.5, 3.5, 200, 17.25, (doubt,))


class TestMeasurement:
    @settings(deadline=None)
    @given(PLANS, WORKLOADS, st.none() | st.integers(1, 64), st.none() | st.booleans())
    def test_comes_back_from_json(
        self, plan: Plan, workload: Workload, threads: int | None, all_of_it: bool | None
    ) -> None:
        whole = measurement(plan, Effective(plan.accelerator, threads, "CompiledModel", True, all_of_it))
        assert from_data(Measurement, json.loads(json.dumps(to_data(whole), allow_nan=False))) == whole

    def test_doubts_of_the_run_and_of_the_samples_stand_together(self) -> None:
        effective = Effective("cpu", 1, "CompiledModel", False, True)
        found = {doubt.code for doubt in measurement(Plan(), effective).doubts}
        assert found == {doubts.NOT_STEADY, doubts.NOISY}  # one block: its interval is unknown

    def test_what_was_asked_for_and_not_done_is_a_doubt(self) -> None:
        partial = effective_doubts(Plan("npu"), Effective("npu+cpu", None, "CompiledModel", False, False))
        assert [doubt.code for doubt in partial] == [doubts.PARTIAL]
        fewer = effective_doubts(Plan(threads=4), Effective("cpu", 1, "CompiledModel", False, True))
        assert [doubt.code for doubt in fewer] == [doubts.FALLBACK]
        assert "asks for 4 threads, but the engine used 1" in DOUBTS.text(fewer[0])
        assert effective_doubts(Plan(), Effective("cpu", 1, "CompiledModel", True, True)) == []
        assert effective_doubts(Plan(threads=2), Effective("cpu", None, "Interpreter", True, None)) == []


@pytest.mark.parametrize(
    ("ratio", "ci95", "told"),
    [
        (1 / 3.27, (1 / 3.281, 1 / 3.268), "3.27× faster (95 % CI 3.26–3.29)"),
        (1 / 2.7012, (1 / 2.7034, 1 / 2.6991), "2.701× faster (95 % CI 2.699–2.704)"),
        (14.32, (14.21, 14.44), "14.3× slower (95 % CI 14.2–14.5)"),
        (1 / 2.7, (1 / 2.70002, 1 / 2.69999), "2.700× faster (95 % CI 2.699–2.701)"),
        (1 / 3, (1 / 3, 1 / 3), "3.0× faster (95 % CI 3.0–3.0)"),
        (1 / 2.4, (1 / 2.5, 1 / 2.3), "2.4× faster (95 % CI 2.3–2.5)"),
    ],
)
def test_ends_that_would_print_alike_have_more_digits(ratio: float, ci95: tuple[float, float], told: str) -> None:
    assert speedup(ratio, ci95) == told


def test_a_bare_interval_of_ratios_tells_its_ends_apart() -> None:
    assert ratio_interval((0.9312, 0.9338)) == "0.931–0.934"
    assert ratio_interval((0.92, 0.95)) == "0.92–0.95"
    assert Goal.LATENCY.ratio_written(0.93456, (0.93451, 0.93462)) == "time ratio 0.9346, 95 % CI 0.9345–0.9347"

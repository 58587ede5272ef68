"""The pytest plug-in: fixtures that hold models to their limits and watch for faults around them, and a summary.

    def test_latency(hasten):
        hasten.check("model.tflite", latency="5 ms", size="2 MB")

    def test_no_slower_than_the_last_release(hasten):
        hasten.check("model.tflite", baseline_model="released.tflite")

    def test_pipeline(hasten_watch):
        run_my_pipeline()

Nothing of hasten is imported before a test measures something: pytest loads this file in every project that has hasten
installed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import IO

    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan, Workload
    from hasten.gate.rules import CheckResult
    from hasten.measure.compare import ComparisonResult
    from hasten.practices.app.run import Watching
    from hasten.targets.base import Target

    ModelPath = str | os.PathLike[str]

_PROPERTY = "hasten"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that leaves measuring out, for machines that are too busy for it."""
    group = parser.getgroup("hasten", "hasten: how fast models are")
    group.addoption("--hasten-skip", action="store_true", help="skip tests that measure models with hasten")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "hasten: measures a model with hasten; --hasten-skip leaves it out")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that use the fixture get the marker, so that `-m "not hasten"` finds them; skip them if asked to."""
    skip = config.getoption("hasten_skip")
    for item in items:
        if "hasten" in getattr(item, "fixturenames", ()):
            item.add_marker("hasten")
        if skip and item.get_closest_marker("hasten") is not None:
            item.add_marker(pytest.mark.skip(reason="--hasten-skip"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured, test by test. The properties of a test travel from xdist's workers, too."""
    shown = [
        (report.nodeid, [text for name, text in report.user_properties if name == _PROPERTY])
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
    ]
    if not any(lines for _, lines in shown):
        return
    terminalreporter.section("hasten")
    for test, lines in shown:
        if lines:
            terminalreporter.write_line(test)
        for line in lines:
            verdict = line.rpartition(": ")[2]
            colours = {"red": verdict in ("failed", "slower"), "yellow": verdict == "undecided"}
            terminalreporter.write_line(f"  {line}", **colours)


@pytest.fixture
def hasten(request: pytest.FixtureRequest) -> Hasten:
    """Measures models, and fails the test where a limit is surely broken."""
    return Hasten(request.node)


@pytest.fixture
def hasten_watch() -> Iterator[Watching]:
    """Watches the test, and fails it for faults around the model; `hasten_watch.allow` may name rules to let pass."""
    from hasten.api import watch

    with watch() as seen:
        yield seen
    seen.check()


class Hasten:
    """What the fixture offers. Paths are looked for in the working folder, then beside the test."""

    def __init__(self, test: pytest.Item) -> None:
        self._test = test

    def check(
        self,
        model: ModelPath,
        budget: ModelPath | Mapping[str, Any] | None = None,
        *,
        plan: Plan | None = None,
        threads: int | None = None,
        data: str = "",
        baseline_model: ModelPath = "",
        seconds: float | None = None,
        strict: bool = False,
        target: Target | None = None,
        **limits: str | float,
    ) -> CheckResult:
        """Fail unless the model keeps its limits: latency, p95, init, memory, size, accuracy, max_slowdown, max_drop.

        They come as keywords (`latency="5 ms"`), from a budget file, or both. What noise leaves undecided passes and is
        said in the summary, unless `strict`.
        """
        __tracebackhide__ = True
        with _Measuring():
            from dataclasses import replace

            from hasten.gate.request import CheckRequest, request_from, with_limits
            from hasten.library import check
            from hasten.report.check_text import check_text, row_sentence

            given = self._found(budget) if isinstance(budget, str | os.PathLike) else budget
            asked = with_limits(CheckRequest() if given is None else request_from(given), limits)
            asked = replace(
                asked,
                plan=_plan(plan or asked.plan, threads),
                data=self._found(data) if data else asked.data,
                baseline_model=self._found(baseline_model) if baseline_model else asked.baseline_model,
                seconds=seconds or asked.seconds,
                strict=strict,
            )
            found = check(self._found(model), asked, target=target)
            self._note(*(row_sentence(row) for row in found.rows))
        if not found.passed:
            raise AssertionError(check_text(found))
        return found

    def bench(
        self,
        model: ModelPath,
        plan: Plan | None = None,
        workload: Workload | None = None,
        *,
        threads: int | None = None,
        seconds: float = 6.0,
        target: Target | None = None,
    ) -> Measurement:
        """Time a model; `found.samples.median_ms` is its latency."""
        __tracebackhide__ = True
        with _Measuring():
            from hasten.api import Effort, bench
            from hasten.core.plan import Plan, Workload
            from hasten.core.units import interval_ms, milliseconds

            asked = _plan(plan or Plan(), threads)
            found = bench(self._found(model), asked, workload or Workload(), effort=Effort(seconds, target))
            latency = found.samples.latency
            interval = interval_ms(latency.low, latency.high)
            self._note(f"{Path(model).name} {milliseconds(latency.estimate)} ({interval})")
        return found

    def compare(
        self,
        first: ModelPath,
        second: ModelPath,
        plan: Plan | None = None,
        workload: Workload | None = None,
        *,
        second_plan: Plan | None = None,
        seconds: float = 15.0,
        margin: float = 0.01,
        target: Target | None = None,
    ) -> ComparisonResult:
        """Time two models in turns; `found.comparison.verdict` says what the second is against the first."""
        __tracebackhide__ = True
        with _Measuring():
            from hasten.core.plan import Plan, Workload
            from hasten.library import compare

            a, b = (self._found(first), plan or Plan()), (self._found(second), second_plan or plan or Plan())
            found = compare(a, b, workload or Workload(), target=target, seconds=seconds, margin=margin)
            of, (low, high) = found.comparison, found.comparison.ci95
            names = f"{Path(second).name} against {Path(first).name}"
            interval = f" ({low:.3f} - {high:.3f})" if of.rounds > 1 else ""
            self._note(f"{names} {of.ratio:.3f} times{interval}: {of.verdict.value}")
        return found

    def _found(self, path: ModelPath) -> str:
        beside = self._test.path.parent / path
        return str(beside if not Path(path).exists() and beside.exists() else path)

    def _note(self, *lines: str) -> None:
        self._test.user_properties.extend((_PROPERTY, line) for line in lines)


class _Measuring:
    """One worker of xdist at a time; and an error is raised anew, so that it points to the test and not into hasten."""

    def __enter__(self) -> None:
        self._lock = _lock()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if self._lock is not None:
            self._lock.close()
        from hasten.core.errors import HastenError

        if isinstance(error, HastenError):
            raise type(error)(f"{error.message}\n{error.hint}".strip(), error.hint) from None


def _plan(plan: Plan, threads: int | None) -> Plan:
    from dataclasses import replace

    return plan if threads is None else replace(plan, threads=threads)


def _lock() -> IO[str] | None:
    """Held by whoever measures, where several workers of one run could."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return None
    import fcntl

    lock = (Path(tempfile.gettempdir()) / f"hasten-{run}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from types import TracebackType
    from typing import TypedDict

    from typing_extensions import Unpack

    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan, Workload
    from hasten.gate.facts import CheckFound
    from hasten.measure.compare import ComparisonResult
    from hasten.practices.app.run import Watching
    from hasten.targets.base import Target

    ModelPath = str | os.PathLike[str]

    class CheckOptions(TypedDict, total=False):
        """What `check` takes by name besides limits."""

        plan: Plan
        threads: int
        data: str
        baseline_model: ModelPath
        seconds: float
        undecided: str
        strict: bool
        target: Target
        latency: str
        p95: str
        init: str
        memory: str
        size: str
        accuracy: str | float
        max_slowdown: str | float
        max_drop: str | float

    class CompareOptions(TypedDict, total=False):
        """What `compare` takes by name."""

        workload: Workload
        second_plan: Plan
        seconds: float
        margin: float
        target: Target


# A line of the summary is a property of its test; what follows the dot is the verdict.
_PROPERTY = "hasten"
_COLORS = {"failed": "red", "slower": "red", "undecided": "yellow"}
_PASSED = pytest.StashKey[bool]()


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep with the test whether its body passed, for fixtures that end after it."""
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured, test by test. The properties of a test travel from xdist's workers, too."""
    shown = [
        (report.nodeid, [entry for entry in report.user_properties if str(entry[0]).partition(".")[0] == _PROPERTY])
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
    ]
    if not any(lines for _, lines in shown):
        return
    from hasten.core.printable import printable

    terminalreporter.section("hasten")
    for test, lines in shown:
        if lines:
            terminalreporter.write_line(test)
        for name, line in lines:
            color = _COLORS.get(name.partition(".")[2])
            terminalreporter.write_line(f"  {printable(line)}", **({color: True} if color else {}))


@pytest.fixture
def hasten(request: pytest.FixtureRequest) -> Hasten:
    """Measures models, and fails the test where a limit is broken."""
    return Hasten(request.node)


@pytest.fixture
def hasten_watch(request: pytest.FixtureRequest) -> Iterator[Watching]:
    """Watches the test, and fails it for faults around the model; `hasten_watch.allow` may name rules to let pass.

    A test that passes without running a model fails as well, unless `not examined` is allowed.
    """
    from hasten.api import watch
    from hasten.core.finding import Standing

    with watch() as seen:
        yield seen
    # A test that was skipped or failed may have ended before its model.
    passed = request.node.stash.get(_PASSED, False)
    seen.check(allow=() if passed else (Standing.NOT_EXAMINED.value,))


class Hasten:
    """What the fixture offers. Paths are looked for in the working folder, then beside the test."""

    def __init__(self, test: pytest.Item) -> None:
        self._test = test

    def check(
        self, model: ModelPath, limits: ModelPath | Mapping[str, Any] | None = None, **options: Unpack[CheckOptions]
    ) -> CheckFound:
        """Fail unless the model keeps its limits: latency, p95, init, memory, size, accuracy, max_slowdown, max_drop.

        They come as keywords (`latency="5 ms"`), from a file of limits, or both. Further keywords: plan, threads, data,
        baseline_model, seconds, target, undecided. A limit that stays undecided fails the test; with
        `undecided="pass"` it is shown in the summary only.
        """
        __tracebackhide__ = True
        with _Measuring(self._test.config.rootpath):
            from dataclasses import replace

            from hasten import api
            from hasten.gate.words import row_words
            from hasten.show.terminal import terminal_text

            named: dict[str, Any] = dict(options)
            given = self._found(limits) if isinstance(limits, str | os.PathLike) else limits or {}
            asked = api.check_request(given)
            effort = api.Effort(named.pop("seconds", 0.0), named.pop("target", None))
            data, baseline = named.pop("data", ""), named.pop("baseline_model", "")
            asked = replace(
                asked,
                plan=_plan(named.pop("plan", asked.plan), named.pop("threads", None)),
                data=replace(asked.data, source=self._found(data)) if data else asked.data,
                baseline_model=self._found(baseline) if baseline else asked.baseline_model,
                undecided=_undecided(named, asked.undecided),
            ).with_limits(named)
            found = api.check(self._found(model), asked, effort=effort)
            for row in found.rows:
                self._note(row_words(row), row.verdict.value)
        if not found.is_open:
            raise AssertionError(terminal_text(api.blocks(found)))
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
        with _Measuring(self._test.config.rootpath):
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
        self, first: ModelPath, second: ModelPath, plan: Plan | None = None, **options: Unpack[CompareOptions]
    ) -> ComparisonResult:
        """Time two models in turns; `found.comparison.verdict` says what the second is against the first.

        Further keywords: workload, second_plan, seconds, margin, target.
        """
        __tracebackhide__ = True
        with _Measuring(self._test.config.rootpath):
            from hasten import api
            from hasten.core.plan import Plan, Workload
            from hasten.core.units import speedup

            first_plan = plan or Plan()
            found = api.compare(
                (self._found(first), first_plan),
                (self._found(second), options.get("second_plan", first_plan)),
                options.get("workload", Workload()),
                margin=options.get("margin", 0.01),
                effort=api.Effort(options.get("seconds", 0.0), options.get("target")),
            )
            of, verdict = found.comparison, found.comparison.verdict.value
            ends = of.ci95 if of.rounds > 1 else None
            names = f"{Path(second).name} against {Path(first).name}"
            self._note(f"{names}: {speedup(of.ratio, ends)}: {verdict}", verdict)
        return found

    def _found(self, path: ModelPath) -> str:
        beside = self._test.path.parent / path
        return str(beside if not Path(path).exists() and beside.exists() else path)

    def _note(self, line: str, verdict: str = "") -> None:
        self._test.user_properties.append((f"{_PROPERTY}.{verdict}" if verdict else _PROPERTY, line))


class _Measuring:
    """One worker of xdist at a time; and an error is raised anew, so that it points to the test and not into hasten."""

    def __init__(self, project: Path) -> None:
        self._project = project

    def __enter__(self) -> None:
        self._lock = _lock(self._project)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if self._lock is not None:
            os.close(self._lock)
        from hasten.core.errors import HastenError

        if isinstance(error, HastenError):
            raise type(error)(f"{error.sentence} {error.hint}".strip(), error.hint, log=error.log) from None


def _plan(plan: Plan, threads: int | None) -> Plan:
    from dataclasses import replace

    return plan if threads is None else replace(plan, threads=threads)


def _undecided(options: dict[str, Any], usual: str) -> str:
    """What an undecided limit does to the test; `strict` is an older name of undecided="fail"."""
    strict = options.pop("strict", False)
    return str(options.pop("undecided", "fail" if strict else usual))


def _lock(project: Path) -> int | None:
    """Held by whoever measures, where several workers could. On the project's folder, so that no file is left."""
    if "PYTEST_XDIST_TESTRUNUID" not in os.environ:
        return None
    import fcntl

    lock = os.open(project, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock

"""A whole choice on a simulated machine: threads, race, accelerators, interruption, and going on from a session."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from simulated import Behaviour, SimulatedRunner, SimulatedTarget, candidate, install_clock

from hasten.core.accuracy import Accuracy
from hasten.core.errors import DataError, Interrupted, UsageError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.finding import Standing
from hasten.core.measurement import Measurement
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.session import Line
from hasten.data.request import Data
from hasten.gate.facts import Limits
from hasten.measure.effort import Effort
from hasten.measure.rounds import FailedCandidate
from hasten.practices.choose.candidates import Contender
from hasten.practices.choose.facts import ChooseFound, ChooseRequest, ModelRow, Place, PlanRow, Source
from hasten.practices.choose.plans import Threads, probe, settle_threads, thread_counts
from hasten.practices.choose.rules import choice_of, finding_of
from hasten.practices.choose.run import Workplace, run
from hasten.practices.choose.view import document, session_lines, view
from hasten.show.terminal import terminal_text

if TYPE_CHECKING:
    from simulated import Clock

    from hasten.core.block import Block
    from hasten.core.plan import Workload
    from hasten.targets.client import LoadReport

MODELS = {"small": (0.60, 2.0), "middle": (0.70, 8.0), "large": (0.75, 40.0), "poor": (0.55, 16.0)}
PLACE = Workplace(Path("built"), Path("made"))


class Machine(SimulatedTarget):
    """Two threads are 1.6 times as fast as one, and four as two; accelerators are as the test says."""

    def __init__(self, clock: Clock, **accelerators: float | str) -> None:
        behaviours = {name: Behaviour(ms, process_noise=0.01) for name, (_, ms) in MODELS.items()}
        behaviours |= {f"{name}_q": replace(one, latency_ms=one.latency_ms / 2) for name, one in behaviours.items()}
        super().__init__(clock, behaviours)
        self.accelerators = accelerators
        """Name → factor on the latency, or why it does not run."""
        self.interrupt_after = 10**9

    def start(self, plan: Plan) -> Runner:
        if self.refuses is not None:
            raise RunnerFailed(self.refuses)
        self.clock.now += self.start_seconds
        self.runners.append(Runner(self, plan))
        return self.runners[-1]  # type: ignore[return-value]


class Runner(SimulatedRunner):
    target: Machine

    def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
        found = self.target.accelerators.get(self.plan.accelerator, "there is none")
        if self.plan.accelerator != "cpu" and isinstance(found, str):
            raise RunnerFailed(Failure("load", "accelerator", found))
        report = super().load(path, workload, profiling=profiling)
        factor = found if isinstance(found, float) else 1.0
        threads = 1.0 if self.plan.threads == 1 or self.plan.accelerator != "cpu" else 1 / 1.6
        self.behaviour = replace(self.behaviour, latency_ms=self.behaviour.latency_ms * factor * threads)
        return replace(report, first_run_ms=self.behaviour.latency_ms)

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        if sum(what != "more" for what, _, _ in self.target.log) > self.target.interrupt_after:
            raise KeyboardInterrupt
        return super().block(seconds, most, runner=runner, lead=lead)


class FakeGathering:
    """Models with published accuracies in float, and of unknown ones in int8; there are no files behind them."""

    def __init__(self, request: ChooseRequest, built: Path, made: Path, tell: object) -> None:
        self.troubles: list[Any] = []
        self.notes = [remark("choose.same-file", path="copy.tflite")]
        self.request = request

    def run(self) -> list[Contender]:
        plan = self.request.plan or Plan()
        found = []
        for place, (name, (accuracy, _)) in enumerate(MODELS.items()):
            known = Accuracy("top-1", accuracy, -math.inf, math.inf, 0, "a paper")
            row = ModelRow(name, name, "float32", 4000 + place, plan=plan, macs=place, accuracy=known)
            row = replace(row, accuracy_source=Source.PUBLISHED)
            data = self.request.data if self.request.data.source else None
            found.append(Contender(row, candidate(name, plan), data))
            int8 = ModelRow(f"{name}_q", name, "int8", 1000 + place, plan=plan, macs=place, reference=name)
            found.append(Contender(int8, candidate(f"{name}_q", plan)))
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("hasten.practices.choose.run.Gathering", FakeGathering)
    return install_clock(monkeypatch)


class Session:
    """Keeps what a run saves, as JSON would give it back."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, kind: str, label: str, data: dict[str, Any]) -> None:
        self.lines.append(Line(kind, label, "", json.loads(json.dumps(data))))


def chosen(target: Machine, request: ChooseRequest | None = None, session: Session | None = None) -> ChooseFound:
    kept = session or Session()
    effort = Effort(on=target, keep=kept.add)
    place = replace(PLACE, lines=tuple(kept.lines))
    found = run(request or ChooseRequest(), place, effort)
    assert isinstance(found, ChooseFound)
    return found


def test_everything_is_timed_on_the_threads_that_pay_and_the_front_is_right(clock: Clock) -> None:
    found = chosen(Machine(clock))
    assert found.plan == Plan(threads=2)
    assert [row.plan.threads for row in found.plans if row.used] == [2]
    places = {row.name: row.place for row in found.models}
    assert places == {
        **dict.fromkeys(("small", "middle", "large"), Place.ON),
        "poor": Place.OFF,
        **{f"{name}_q": Place.UNKNOWN for name in MODELS},
    }
    assert [row.name for row in found.models[:3]] == ["small", "middle", "large"]
    poor = found.row("poor")
    assert poor is not None
    assert poor.why_dropped.code == "choose.dominated"
    assert all(row.latency is not None and row.plan == found.plan for row in found.models)
    quick = found.row("small_q")
    assert quick is not None
    assert quick.against is not None
    assert quick.against.ratio == pytest.approx(0.5, rel=0.1)


def test_limits_decide_what_is_taken(clock: Clock) -> None:
    found = chosen(Machine(clock), ChooseRequest(limits=Limits(latency_ms=10.0)))
    choice = choice_of(found)
    assert choice.row is not None
    assert choice.row.name == "middle"
    assert finding_of(found).standing is Standing.TO_DO
    told = document(found)
    assert {"models", "chosen", "why", "graphs"} <= set(told)
    keys = {"name", "size", "macs", "accuracy", "accuracy_source", "latency", "weights", "on_front", "why_dropped"}
    assert all(keys <= set(row) for row in told["models"])
    assert told["chosen"] == "middle"
    assert told["without_limit"] == {"latency": "large"}
    json.dumps(told, allow_nan=False)
    assert "middle" in terminal_text(view(found))


def test_a_limit_that_no_share_can_reach_ends_before_the_race(clock: Clock) -> None:
    target = Machine(clock)
    with pytest.raises(UsageError, match="asks for 8500 %"):
        chosen(target, ChooseRequest(limits=Limits(accuracy=85.0)))
    assert not target.runners


def test_a_plan_of_the_user_is_kept(clock: Clock) -> None:
    found = chosen(Machine(clock, npu=0.1), ChooseRequest(plan=Plan(threads=2)))
    assert {row.plan for row in found.models} == {Plan(threads=2)}
    assert found.plans == ()


def test_an_accelerator_that_pays_has_rows_of_its_own_without_an_accuracy(clock: Clock) -> None:
    found = chosen(Machine(clock, npu=0.1, gpu="this machine shows no GPU"))
    moved = [row for row in found.models if row.plan.accelerator == "npu"]
    assert {row.name for row in moved} == {"small, npu", "middle, npu", "large, npu"}
    assert {row.accuracy_source for row in moved} == {Source.UNKNOWN}
    assert all(row.against is not None and row.against.ratio < 1 for row in moved)
    assert [row.trouble for row in found.plans if row.plan.accelerator == "gpu"] == ["this machine shows no GPU"]


def test_an_accelerator_that_is_slow_is_not_raced(clock: Clock) -> None:
    found = chosen(Machine(clock, npu=5.0))
    assert {row.plan.accelerator for row in found.models} == {"cpu"}
    slow = [row for row in found.plans if row.plan.accelerator == "npu"]
    assert [row.model for row in slow] == ["large"]
    assert slow[0].latency is not None


def test_an_accelerator_that_is_slow_by_far_is_looked_at_once(clock: Clock) -> None:
    target = Machine(clock, npu=50.0)
    found = chosen(target)
    assert [row.model for row in found.plans if row.plan.accelerator == "npu"] == ["small"]
    assert sum(runner.plan.accelerator == "npu" for runner in target.runners) == 1


def test_a_model_that_an_accelerator_refuses_does_not_speak_for_all(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refusing(contender: Contender, accelerator: str, latency_ms: float, effort: Effort) -> Contender | PlanRow:
        asked.append(contender.row.model)
        if contender.row.model == "small":
            return PlanRow("small", Plan(accelerator=accelerator), trouble="It keeps state.")
        return probe(contender, accelerator, latency_ms, effort)

    monkeypatch.setattr("hasten.practices.choose.run.probe", refusing)
    found = chosen(Machine(clock, npu=0.5))
    assert {row.model for row in found.models if row.plan.accelerator == "npu"} == {"middle", "large"}
    gone = [row.model for row in found.plans if row.plan.accelerator == "gpu"]
    assert len(gone) == 1, "where two in a row do not run, no other is tried"


def test_what_was_timed_is_shown_after_an_interruption(clock: Clock) -> None:
    target = Machine(clock)
    target.interrupt_after = 150
    with pytest.raises(Interrupted) as caught:
        run(ChooseRequest(), PLACE, Effort(on=target))
    assert caught.value.found.interrupted
    assert len(caught.value.found.models) == 2 * len(MODELS)
    assert terminal_text(view(caught.value.found))
    assert session_lines(caught.value.found)


def test_before_anything_was_timed_an_interruption_is_just_that(clock: Clock) -> None:
    target = Machine(clock)
    target.interrupt_after = -1
    with pytest.raises(KeyboardInterrupt) as caught:
        run(ChooseRequest(), PLACE, Effort(on=target))
    assert not isinstance(caught.value, Interrupted)


def test_the_same_session_goes_on_and_times_nothing_twice(clock: Clock) -> None:
    session = Session()
    first = chosen(Machine(clock), session=session)
    again = Machine(clock)
    second = chosen(again, session=session)
    assert [entry for entry in again.log if entry[0] == "block"] == []
    assert {row.name: row.place for row in second.models} == {row.name: row.place for row in first.models}
    assert second.plan == first.plan
    for one, other in zip(first.models, second.models, strict=True):
        assert one.latency is not None
        assert other.latency is not None
        assert other.latency.estimate == pytest.approx(one.latency.estimate)


def test_an_interrupted_session_goes_on_with_what_it_has(clock: Clock) -> None:
    session, target = Session(), Machine(clock)
    target.interrupt_after = 150
    with pytest.raises(Interrupted):
        run(ChooseRequest(), PLACE, Effort(on=target, keep=session.add))
    timed = sum(line.kind == "measurement" for line in session.lines)
    assert timed
    whole = Machine(clock)
    chosen(whole)
    rest = Machine(clock)
    found = chosen(rest, session=session)
    assert {row.name for row in found.models if row.on_front} == {"small", "middle", "large"}
    assert len(rest.runners) < len(whole.runners)


def test_a_session_of_another_device_is_refused(clock: Clock) -> None:
    session = Session()
    chosen(Machine(clock), session=session)
    other = Machine(clock)
    other.device = replace(other.device, cpu="Another")
    with pytest.raises(UsageError, match="another device"):
        chosen(other, session=session)


def test_a_damaged_session_ends_in_a_sentence(clock: Clock) -> None:
    session = Session()
    session.add("measurement", "small", {"round": 1})
    with pytest.raises(DataError, match="damaged"):
        chosen(Machine(clock), session=session)


def test_the_time_of_a_tuning_is_also_for_building(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeGathering):
        def run(self) -> list[Contender]:
            clock.now += 1000.0
            return super().run()

    monkeypatch.setattr("hasten.practices.choose.run.Gathering", Slow)
    alone, tuned = (chosen(Machine(clock), ChooseRequest(plan=Plan(), own=own)) for own in ("", "mine.tflite"))
    assert alone.timing_seconds > 2 * tuned.timing_seconds
    assert any(row.latency is not None for row in tuned.models)


def test_a_target_that_does_not_answer_is_a_failure(clock: Clock) -> None:
    target = Machine(clock)
    target.refuses = Failure("start", "target", "no answer")
    assert run(ChooseRequest(), PLACE, Effort(on=target)) is target.refuses


def test_if_no_model_runs_one_of_them_is_named(clock: Clock) -> None:
    target = Machine(clock)
    for behaviour in target.behaviours.values():
        behaviour.fails = dict.fromkeys(range(20), "load")
    found = run(ChooseRequest(), PLACE, Effort(on=target))
    assert isinstance(found, FailedCandidate)
    assert "died" in found.failure.message
    fixed = run(ChooseRequest(plan=Plan()), PLACE, Effort(on=target))
    assert isinstance(fixed, FailedCandidate)


def test_data_that_fits_no_model_is_what_is_wrong(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(self: object, contender: Contender, *_: object) -> None:
        raise DataError(f"{contender.name} wants other inputs.")

    monkeypatch.setattr("hasten.practices.choose.accuracies.Accuracies.measure", measure)
    monkeypatch.setattr("hasten.practices.choose.accuracies.Accuracies.restore", lambda *_: False)
    with pytest.raises(DataError, match="small wants other inputs"):
        run(ChooseRequest(data=Data("images")), PLACE, Effort(on=Machine(clock)))


def test_data_that_does_not_fit_one_model_is_its_trouble(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(self: object, contender: Contender, *_: object) -> None:
        if contender.name == "large":
            raise DataError("large wants other inputs.")

    monkeypatch.setattr("hasten.practices.choose.accuracies.Accuracies.measure", measure)
    monkeypatch.setattr("hasten.practices.choose.accuracies.Accuracies.restore", lambda *_: False)
    found = chosen(Machine(clock), ChooseRequest(data=Data("images")))
    assert [trouble.where for trouble in found.troubles] == ["large"]


def test_thread_counts_double_up_to_all_cores() -> None:
    assert [thread_counts(cores) for cores in (1, 2, 4, 6)] == [[1], [1, 2], [1, 2, 4], [1, 2, 4, 6]]


def test_more_threads_must_prove_to_be_faster(clock: Clock) -> None:
    contender = FakeGathering(ChooseRequest(), Path(), Path(), None).run()[2]
    found = settle_threads(contender, Effort(on=Machine(clock)), 12.0, {})
    assert isinstance(found, Threads)
    assert [row.plan.threads for row in found.rows] == [1, 2, 4]
    assert found.count == 2


def test_rounds_of_the_session_are_measurements(clock: Clock) -> None:
    session = Session()
    chosen(Machine(clock), session=session)
    kinds = [line.kind for line in session.lines]
    assert kinds[:2] == ["settings", "environment"]
    assert set(kinds[2:]) == {"measurement"}
    assert all(set(Measurement.__dataclass_fields__) - {"other_doubts"} <= set(line.data) for line in session.lines[2:])

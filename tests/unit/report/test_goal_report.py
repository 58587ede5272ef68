"""Reports of searches for any goal: the curve of the best, what was left untried, the front and the steps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tune_session import Line, session_of, tune_lines

from hasten.core.codec import to_data
from hasten.core.comparison import Verdict
from hasten.core.floor import FloorState
from hasten.core.goal import Amount, Goal
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.core.trial import Status, Step, Trial, trial_data
from hasten.report.figures import best_rows, goal_of
from hasten.report.forms import markdown_report
from hasten.report.headline import tune_facts
from hasten.report.page import html_report
from hasten.report.steps import steps_of, steps_section
from hasten.report.summary import summarize
from hasten.report.trial_charts import front_spec, timeline_spec
from hasten.search.facts import BestSoFar, front_of
from hasten.show.blocks import Chart, Prose

if TYPE_CHECKING:
    from hasten.core.session import Session


def searched(goal: Goal, values: dict[str, float]) -> Session:
    """A session with a trial for each of these figures of the goal, and the best over time."""
    lines: list[Line] = [("settings", "tune", {"model": "m.tflite", "budget_s": 60.0, "goal": goal.value})]
    trials = []
    for place, (name, value) in enumerate(values.items()):
        trial = Trial(
            name,
            status=Status.KEPT,
            floor=FloorState.KEPT,
            latency=Interval(5.0, 4.9, 5.1),
            size_bytes=int(value) if goal is Goal.SIZE else 1000 + place,
            amounts={goal.value: Amount(value, (0.9 * value, 1.1 * value))},
            elapsed_s=10.0 * place,
        )
        trials.append(trial)
        lines.append(("trial", trial.id, trial_data(trial)))
        best = BestSoFar(trial.id, goal, Amount(value, (0.9 * value, 1.1 * value)), 10.0 * place, place == 2)
        lines.append(("best", trial.id, to_data(best)))
    untried = {"text": "1 recipe was not tried for lack of time: float16.", "hint": "Continue with --resume."}
    result = {"model": "m.tflite", "verdict": "Better.", "goal": {"name": goal.value}, "untried": [untried]}
    result["front"] = [{"id": trial.id} for trial in front_of(trials, [goal])]
    lines.append(("result", "tune", result))
    return session_of(lines)


def chart(session: Session, name: str) -> Chart:
    sections = summarize(session).sections
    blocks = [block for section in sections for block in section.blocks if isinstance(block, Chart)]
    return next(block for block in blocks if block.name == name)


VALUES = {"original": 40.0, "middling": 30.0, "best": 10.0}


@pytest.mark.parametrize("goal", list(Goal))
def test_the_curve_is_what_was_known_when(goal: Goal) -> None:
    session = searched(goal, VALUES)
    curve = chart(session, "timeline").spec["layer"][0]["data"]["values"]
    scale = 1e-6 if goal is Goal.SIZE else 1.0
    assert [point["seconds"] for point in curve][:3] == [0.0, 10.0, 20.0]
    assert [point["best"] for point in curve][:3] == pytest.approx([value * scale for value in VALUES.values()])
    assert curve[-1]["best"] == curve[-2]["best"], "it lasts to the end"
    assert "The best result over time" in html_report(session)
    text = markdown_report(session)
    assert "so far" in text
    assert "confirmed" in text


def test_a_setback_is_seen_on_the_curve() -> None:
    """A best that failed its confirmation was the best until then, and no longer."""
    session = searched(Goal.LATENCY, {"original": 4.0, "lucky": 1.0, "solid": 2.0})
    curve = chart(session, "timeline").spec["layer"][0]["data"]["values"]
    assert [point["best"] for point in curve][:3] == [4.0, 1.0, 2.0]


def test_an_older_session_has_the_lowest_that_came_out() -> None:
    session = session_of(tune_lines(20))
    summary = summarize(session)
    assert (summary.goal, summary.best, summary.untried) == (Goal.LATENCY, (), ())
    curve = chart(session, "timeline").spec["layer"][0]["data"]["values"]
    values = [point["best"] for point in curve]
    assert values == sorted(values, reverse=True)
    assert "untried" not in {section.name for section in summary.sections}


def test_what_was_left_untried_has_a_section_of_its_own() -> None:
    page = html_report(searched(Goal.LATENCY, VALUES))
    assert "What was left untried" in page
    assert "1 recipe was not tried for lack of time: float16." in page
    assert "Continue with --resume." in page


@pytest.mark.parametrize(
    ("goal", "title"),
    [
        (Goal.LATENCY, "latency, ms"),
        (Goal.ENERGY, "energy per inference, mJ"),
        (Goal.THROUGHPUT, "throughput, inferences/s"),
        (Goal.START, "start, ms"),
    ],
)
def test_the_front_is_drawn_by_the_goal(goal: Goal, title: str) -> None:
    rows = summarize(searched(goal, VALUES)).trials
    spec = front_spec(rows, None, goal)
    assert spec is not None
    assert title in json.dumps(spec)
    marked = [value["name"] for value in spec["data"]["values"] if value["front"]]
    best = "original" if goal.more_is_better else "best"
    if goal is not Goal.LATENCY:  # all have the same
        assert f"{best}@cpu, 1 thread" in marked


def test_without_accuracies_the_chart_does_not_speak_of_them() -> None:
    (front,) = [section for section in summarize(searched(Goal.LATENCY, VALUES)).sections if section.name == "front"]
    lead, drawn = front.blocks
    assert isinstance(lead, Prose)
    assert isinstance(drawn, Chart)
    assert drawn.spec["layer"][-2]["encoding"]["y"]["title"] == "size, MB"
    assert [front.title, drawn.title] == ["Latency and size", "Latency and size of the trials"]
    assert "Left is faster, down is smaller." in lead.text
    assert "accura" not in lead.text


def test_the_line_of_the_front_leaves_out_what_the_result_leaves_out() -> None:
    """Without data, the accuracy of quantized variants is unknown: they may not be chosen, however fast they are."""
    kept, unknown = FloorState.KEPT, FloorState.UNKNOWN
    trials = [
        Trial(name, plan, status=Status.TIMED, floor=floor, latency=Interval(ms, ms, ms), size_bytes=size)
        for name, plan, floor, ms, size in (
            ("original", Plan(), kept, 5.0, 1000),
            ("original", Plan(threads=2), kept, 3.0, 1000),
            ("static_int8", Plan(threads=2), unknown, 1.0, 300),
        )
    ]
    front = [one.id for one in front_of(trials, [Goal.LATENCY])]
    lines = [("trial", one.id, trial_data(one)) for one in trials]
    session = session_of([*lines, ("result", "tune", {"front": [{"id": name} for name in front]})])
    spec = front_spec(summarize(session).trials)
    assert spec is not None
    assert [value["name"] for value in spec["data"]["values"] if value["front"]] == front
    assert front == ["original@cpu, 2 threads"]


def test_no_other_plan_is_called_the_original_where_the_original_is_chosen() -> None:
    trials = [
        Trial("original", plan, status=status, latency=Interval(5.0, 4.9, 5.1), size_bytes=1000)
        for plan, status in ((Plan(), Status.CHOSEN), (Plan(threads=2), Status.KEPT))
    ]
    spec = front_spec(summarize(session_of([("trial", one.id, trial_data(one)) for one in trials])).trials)
    assert spec is not None
    assert [value["label"] for value in spec["data"]["values"]] == ["chosen", ""]


def test_goals_and_bests_that_cannot_be_read_are_left_out() -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"amount": 3, "elapsed_s": 1},
        {"amount": {"value": "x"}, "elapsed_s": 1},
        {"amount": {"value": 1.0}, "elapsed_s": None},
    ]
    session = session_of([("best", "a", data) for data in odd])
    assert best_rows(session.lines) == ()
    assert html_report(session)
    assert goal_of({"goal": "joy"}, {"goal": {"name": 3}}, None) is Goal.LATENCY
    assert goal_of(None, {"goal": "energy"}) is Goal.ENERGY


def test_steps_of_the_goal_are_drawn_and_all_are_in_the_table() -> None:
    what = remark("step.threads", threads=2, before=1)
    threads = Step("threads", 4.0, 2.0, 0.5, (0.48, 0.52), what, Verdict.FASTER)
    small = replace(threads, practice="quantize", ratio=0.25, goal=Goal.SIZE, amounts=(4_000_000.0, 1_000_000.0))
    lines = session_of([("step", step.practice, to_data(step)) for step in (threads, small)]).lines
    steps = steps_of(lines, None)
    assert [(step.before, step.after) for step in steps] == [(4.0, 2.0), (4_000_000.0, 1_000_000.0)]
    (section,) = steps_section(steps, Goal.SIZE)
    (drawn,) = section.blocks
    assert isinstance(drawn, Chart)
    assert [value["high"] for value in drawn.spec["data"]["values"]] == pytest.approx([4.0, 4.0, 1.0])
    assert "size, MB" in json.dumps(drawn.spec)
    assert len(drawn.table.rows) == 2
    assert drawn.description.startswith("From 4.00 MB to 1.00 MB")


def test_a_step_claims_what_its_verdict_does() -> None:
    """Few rounds of a slow model leave their verdict open, however narrow their interval is."""
    what = remark("step.threads", threads=2, before=1)
    step = Step("threads", 4.3, 4.0, 4.0 / 4.3, (0.90, 0.96), what)
    data = {"open": step, "same": replace(step, verdict=Verdict.SAME), "proven": replace(step, verdict=Verdict.FASTER)}
    lines = session_of([("step", name, to_data(one)) for name, one in data.items()]).lines
    rows = steps_of(lines, None)
    assert [row.change for row in rows] == [
        "undecided (time ratio 0.930, 95 % CI 0.900–0.960)",
        "equally fast (time ratio 0.930, 95 % CI 0.900–0.960)",
        "1.07× faster (95 % CI 1.04–1.11)",
    ]
    (section,) = steps_section(rows[:1])
    (drawn,) = section.blocks
    assert isinstance(drawn, Chart)
    assert drawn.description.endswith("saves 0.300 ms (undecided).")
    assert drawn.spec["data"]["values"][1]["told"] == "−0.300 ms (undecided)"
    older = session_of([("step", "threads", {**to_data(step), "verdict": None})]).lines
    assert steps_of(older, None)[0].change == "1.07× faster (95 % CI 1.04–1.11)"


def test_tiles_of_an_undecided_result_claim_nothing() -> None:
    goal = {"name": "energy", "original": {"value": 2.0}, "best": {"value": 1.4}, "ratio": 0.7, "ci95": [0.5, 1.0]}
    best = {"speedup": 1.43, "ci95": [1.1, 1.9], "verdict": "undecided"}
    energy, speed = tune_facts({"best": best, "goal": {**goal, "verdict": "undecided"}}, {}, (), None)
    assert energy.note == "undecided (energy ratio 0.700, 95 % CI 0.500–1.000)"
    assert (speed.value, speed.note) == ("undecided", "1.43×, 95 % CI 1.10–1.90")
    older = tune_facts({"best": {**best, "verdict": None}, "goal": goal}, {}, (), None)
    assert [fact.value for fact in older] == ["1.40 mJ", "1.43×"]


def test_more_throughput_is_a_gain() -> None:
    what = remark("step.threads", threads=2, before=1)
    step = Step("threads", 4.0, 5.0, 0.5, (0.48, 0.52), what, Verdict.FASTER, Goal.THROUGHPUT, (400.0, 800.0))
    (row,) = steps_of(session_of([("step", "threads", to_data(step))]).lines, None)
    assert row.is_gain
    (section,) = steps_section((row,), Goal.THROUGHPUT)
    (drawn,) = section.blocks
    assert isinstance(drawn, Chart)
    assert [value["kind"] for value in drawn.spec["data"]["values"]] == ["total", "gain", "total"]
    assert "adds 400/s" in drawn.description


def test_without_figures_of_the_goal_there_is_no_chart() -> None:
    rows = summarize(session_of(tune_lines(5))).trials
    assert timeline_spec(rows, (), 0.0, Goal.ENERGY) is None
    assert front_spec(rows, None, Goal.ENERGY) is None

"""The report of any session: what it says, that it is whole in itself, and that nothing in a session can break it."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from examples import comparison, measurement
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.practices.profile.examples import operator, profile
from tune_session import Line, session_of, tune_lines

from hasten.core.accuracy import Accuracy, Kind, PairedAccuracy
from hasten.core.codec import to_data
from hasten.core.comparison import compare_rounds
from hasten.core.finding import Finding, Standing
from hasten.core.floor import Floor, FloorState
from hasten.core.plan import Plan
from hasten.core.remark import said
from hasten.core.session import Session
from hasten.core.statistics import Interval
from hasten.core.trial import Status, Trial, trial_data
from hasten.measure.compare import ComparisonResult
from hasten.report.page import MISSING, chart_library, content, html_report
from hasten.report.summary import summarize

_HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\"'&amp;"


class Page(HTMLParser):
    """What a browser would find: elements, attributes, scripts and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif not self._open or self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        """As a person reads it."""
        plain = str.maketrans({"\N{NON-BREAKING HYPHEN}": "-", "\N{WORD JOINER}": ""})
        return " ".join(" ".join(self.words).translate(plain).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.tags if found == tag]

    def specs(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            next(text for attributes, text in self.scripts if attributes.get("id") == "chart-specs")
        )
        return found


def page_of(lines: list[Line], lost_lines: int = 0) -> Page:
    return Page(html_report(session_of(lines, lost_lines)))


def body_of(session: Session) -> Page:
    """The page without its scripts, which are the same for all sessions and take long to parse."""
    body, specs = content(summarize(session))
    json.dumps(specs, allow_nan=False)
    return Page(body)


@pytest.fixture(scope="module")
def tuned() -> Page:
    return page_of(tune_lines())


def test_it_opens_with_the_verdict_and_the_numbers_behind_it(tuned: Page) -> None:
    opening = tuned.text[:700]
    assert "4.0 times faster, 95 % interval 4.0-4.1, top-1 92.1 %" in opening
    assert "12.4 ms → 3.07 ms per inference" in opening
    assert "14.0 MB before" in opening


def test_nine_verdicts_each_with_its_standing(tuned: Page) -> None:
    for title in ("Model choice", "Quantization", "Application", "Accelerators"):
        assert title in tuned.text
    assert len([1 for tag, attributes in tuned.tags if (attributes.get("class") or "").startswith("badge")]) == 9
    assert "To do: Fuse the padding: worth about 2 %." in tuned.text


def test_every_section_that_a_tune_session_has(tuned: Page) -> None:
    sections = [attributes["id"] for attributes in tuned.all("section")]
    assert sections == [
        "verdicts",
        "front",
        "steps",
        "profile",
        "threads",
        "copies",
        "accelerators",
        "timeline",
        "doubts",
        "trials",
        "reproduce",
        "environment",
    ]
    links = {attributes["href"] for attributes in tuned.all("a")}
    assert {f"#{name}" for name in sections} <= links


def test_every_chart_has_words_and_the_same_numbers_as_a_table(tuned: Page) -> None:
    plots = [attributes for attributes in tuned.all("div") if "data-chart" in attributes]
    identifiers = {attributes.get("id") for _, attributes in tuned.tags}
    assert {plot["data-chart"] for plot in plots} == set(tuned.specs()) != set()
    for plot in plots:
        name = plot["data-chart"]
        assert plot["role"] == "img"
        assert {f"{name}-title", f"{name}-words", f"{name}-numbers"} <= identifiers
    assert len(tuned.all("details")) >= len(plots)


def test_identifiers_are_unique_and_elements_are_closed(tuned: Page) -> None:
    identifiers = [attributes["id"] for _, attributes in tuned.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    assert tuned.unbalanced == []


def test_nothing_is_loaded_from_elsewhere(tuned: Page) -> None:
    for tag, attributes in tuned.tags:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith(("#", "data:,")), tag
    policy = tuned.all("meta")[1]["content"] or ""
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy


def test_only_the_scripts_of_the_page_itself_may_run(tuned: Page) -> None:
    policy = tuned.all("meta")[1]["content"] or ""
    running = [text for attributes, text in tuned.scripts if attributes.get("type") != "application/json"]
    assert len(running) == 2
    for text in running:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_names_from_a_model_are_text_and_never_markup() -> None:
    lines = tune_lines(30, name=_HOSTILE)
    for _, _, data in lines:
        data.update({"why": _HOSTILE, "evidence": _HOSTILE, "verdict": _HOSTILE, _HOSTILE: _HOSTILE})
        if "ops" in data:
            data["ops"][0].update(location=_HOSTILE, op=_HOSTILE, kernel=_HOSTILE)
    page = page_of(lines)
    assert page.all("img") == []
    assert len(page.scripts) == 3
    assert page.unbalanced == []
    assert "alert(1)" in page.text
    raw = next(text for attributes, text in page.scripts if attributes.get("id") == "chart-specs")
    assert "<" not in raw
    assert "\u2028" not in raw


def test_five_hundred_trials_fit_without_their_raw_samples() -> None:
    lines = tune_lines(500)
    lines[2:2] = [("measurement", f"raw {number}", to_data(measurement(1.0))) for number in range(20)]
    text = html_report(session_of(lines))
    assert len(text.encode()) < 6_000_000
    assert "nanoseconds" not in text
    assert Page(text).text.count("hasten bench") > 20


def test_thousands_of_trials_are_all_in_json_and_the_telling_ones_on_the_page() -> None:
    session = session_of(tune_lines(5000))
    page = body_of(session)
    assert "All trials (5,000)" in page.text
    assert "3000 slower trials are left out here. --format json has them all." in page.text
    assert len(summarize(session).trials) == 5000


def test_a_later_line_of_a_trial_takes_the_place_of_the_earlier_one() -> None:
    lines = tune_lines(8)
    number = next(place for place, line in enumerate(lines) if line[0] == "trial")
    earlier = {**lines[number][2], "why": "an earlier remark"}
    page = page_of([*lines[:2], ("trial", lines[number][1], earlier), *lines[2:]])
    assert "an earlier remark" not in page.text


def test_a_result_that_more_trials_follow_is_not_the_last_word() -> None:
    lines = tune_lines(12)
    *before, result = lines
    interim = {**result[2], "verdict": "about 2 times faster so far"}
    page = page_of([*before[:6], ("result", "tune", interim), *before[6:10]])
    assert "About 2 times faster so far" in page.text
    assert "The session is not finished." in page.text
    stopped = page_of([*before, ("result", "tune", {**result[2], "interrupted": True})])
    assert "The session was interrupted." in stopped.text
    assert "not finished" not in page_of(lines).text


def variant_lines(metric: str = "top-1", kind: Kind = Kind.ACCURACY) -> list[Line]:
    """An original and three variants of 300 samples in each part; floors were decided after fewer."""
    half = Accuracy(metric, 0.91, 0.87, 0.94, 300, "data.npz", kind, higher_is_better=metric != "mae")
    early = [replace(half, value=0.957, samples=232), replace(half, value=0.95, samples=258), replace(half, samples=40)]
    times = [Interval(number, number, number) for number in (4.0, 1.0, 2.0, 3.0)]
    lost = PairedAccuracy(metric, 300, 0.0, -0.01, 0.01)
    kept, broken = FloorState.KEPT, FloorState.BROKEN
    judged: dict[str, Any] = {"reporting": half, "change": lost}
    trials = [
        Trial("original", size_bytes=900, floor=kept, reporting=half, latency=times[0]),
        Trial("static_int8", size_bytes=300, floor=kept, choosing=early[0], drop=0.004, latency=times[1], **judged),
        Trial("float16", size_bytes=500, floor=kept, choosing=early[1], drop=0.0, latency=times[2], **judged),
        Trial("static_int16", size_bytes=600, floor=broken, choosing=early[2], drop=0.125, latency=times[3]),
    ]
    return [("variant", trial.variant, trial_data(trial)) for trial in trials]


def test_accuracies_in_one_chart_are_of_the_same_samples() -> None:
    # The first three were reported on with the whole other part.
    spec = page_of(variant_lines()[:3]).specs()["front"]
    assert {value["name"]: value["y"] for value in spec["data"]["values"]} == {
        "original": 0.91,
        "static_int8": 0.91,
        "float16": 0.91,
    }
    assert "top-1, on the reporting part of the data" in json.dumps(spec)
    assert {(value["y_low"], value["y_high"]) for value in spec["data"]["values"]} == {(0.87, 0.94)}


def test_accuracies_of_other_samples_are_drawn_as_changes_against_the_original() -> None:
    page = page_of(variant_lines())
    spec = page.specs()["front"]
    told = {value["name"]: (value["y"], value["told_y"], value["label"]) for value in spec["data"]["values"]}
    assert told == {
        "original": (0.0, "+0.0 pp", "original"),
        "static_int8": (0.0, "+0.0 pp", ""),  # on the samples of its figure, not on those that it was chosen by
        "float16": (0.0, "+0.0 pp", ""),
        "static_int16": (-0.125, "−12.5 pp", ""),
    }
    assert "change of top-1 against the original" in json.dumps(spec)
    assert "on the samples that it was judged by" in page.text
    assert "95.7" not in page.text


def test_up_is_better_for_an_error_too_and_agreement_is_called_so() -> None:
    spec = page_of(variant_lines("mae", Kind.AGREEMENT)).specs()["front"]
    y = spec["layer"][0]["encoding"]["y"]
    assert (y["scale"]["reverse"], y["title"].startswith("change of deviation (mae)")) == (True, True)
    assert max(value["y"] for value in spec["data"]["values"]) == 0.125


def test_a_trial_is_drawn_by_the_samples_of_its_last_line() -> None:
    lines = tune_lines(10)
    for kind, _, data in list(lines):
        if kind == "trial" and data["accuracy"]:
            judged = {**data["accuracy"], "samples": 100 + len(data["id"])}
            lines.insert(2, ("trial", data["id"], {**data, "accuracy_on": "choosing", "accuracy": judged, "drop": 0.5}))
            data["drop"], data["accuracy"]["samples"] = 0.25, 1000 + len(lines)
    spec = page_of(lines).specs()["front"]
    assert {value["y"] for value in spec["data"]["values"]} == {-0.25}


def judged_lines() -> list[Line]:
    """Two variants that the reporting part left kept and undecided, and one that the choosing part refused."""
    floor = Floor(0.01, metric="top-1", original=0.91, allowed=0.01)
    reporting = Accuracy("top-1", 0.91, 0.87, 0.94, 400, "data.npz")
    choosing = replace(reporting, value=0.95, samples=200)

    def trial(name: str, ms: float, difference: float, width: float, *, reported: bool = True) -> Trial:
        change = PairedAccuracy("top-1", 400, difference, difference - width, difference + width)
        verdict = floor.judge(change)
        figures = {"reporting": reporting, "change": change, "reported": verdict} if reported else {"judged": verdict}
        time = Interval(ms, ms, ms)
        return Trial(name, size_bytes=300, floor=verdict.state, choosing=choosing, drop=0.3, latency=time, **figures)

    trials = [
        Trial("original", size_bytes=900, floor=FloorState.KEPT, reporting=reporting, latency=Interval(4, 4, 4)),
        trial("float16", 3.0, 0.001, 0.005),
        trial("static_int8", 1.0, 0.003, 0.02),
        trial("static_int8_mse", 0.9, -0.05, 0.03, reported=False),
    ]
    return [("floor", "quantize", to_data(floor)), *(("variant", one.variant, trial_data(one)) for one in trials)]


def test_figure_interval_mark_and_verdict_are_of_the_same_samples() -> None:
    page = page_of([*judged_lines(), ("chosen", "static_int8", {})])
    spec = page.specs()["front"]
    points = {value["name"]: value for value in spec["data"]["values"]}
    for value in points.values():  # what the eye sees is what the mark says
        kept, broken = value["y_low"] >= -0.01, value["y_high"] < -0.01
        assert value["status"] in (("kept",) if kept else ("broken",) if broken else ("undecided", "chosen"))
    assert (points["static_int8"]["y_low"], points["static_int8"]["y_high"]) == pytest.approx((-0.017, 0.023))
    assert points["static_int8_mse"]["status"] == "broken"
    assert {name for name, value in points.items() if value["front"]} == {"static_int8"}
    lines = [layer["data"]["values"] for layer in spec["layer"] if "data" in layer]
    assert lines == [[{"floor": -0.01}]]
    row = next(row for row in summarize(session_of(judged_lines())).trials if row.variant == "static_int8")
    assert (row.floor, row.status) == ("undecided", "undecided")
    assert "+0.3 pp (−1.7 pp to +2.3 pp)" in page.text


def test_the_card_of_a_tuning_without_labels_says_agreement() -> None:
    lines = tune_lines(10)
    assert "Agreement (top-1)" not in page_of(lines).text
    for _, _, data in lines:
        accuracy = data.get("best", data).get("accuracy")
        if isinstance(accuracy, dict):
            accuracy["kind"] = "agreement"
    assert "Agreement (top-1)" in page_of(lines).text
    (card,) = (fact for fact in summarize(session_of(lines)).facts if fact.title == "Agreement (top-1)")
    assert card.before == ""


def test_a_ratio_that_the_latencies_contradict_is_in_doubt() -> None:
    # As older releases wrote it: the blocks say half of the time, the measurements beside them twice.
    ratios = compare_rounds([-0.69, -0.70, -0.68, -0.69, -0.7])
    torn = ComparisonResult(ratios, measurement(), measurement(2.0), 14.2).as_data()
    told = page_of([("comparison", "final", torn)]).text
    assert told.index("The headline is in doubt.") < 400
    assert "that of the median latencies is 2.00" in told
    sound = comparison([0.69, 0.70, 0.68, 0.69, 0.7]).as_data()
    assert "that of the median latencies" not in page_of([("comparison", "final", sound)]).text


def tuned_twice(variant: str, plan: Plan, speedup: float, *, confirmed: bool) -> list[Line]:
    """A tuning that confirmed two threads, and what a later run of it ended with."""
    faster = Plan(threads=2)
    first, second = (measurement(latency_ms, plan=plan) for latency_ms, plan in ((4.0, Plan()), (2.0, faster)))
    proof = ComparisonResult(compare_rounds([-0.69, -0.70, -0.69, -0.69, -0.7]), first, second, 14.2)
    step = {"practice": "threads", "from_ms": 4.0, "to_ms": 2.0, "ratio": 0.5, "ci95": [0.49, 0.51]}
    before = {"variant": "original", "plan": to_data(faster), "speedup": 2.0, "confirmed": True}
    after = {"variant": variant, "plan": to_data(plan), "speedup": speedup, "confirmed": confirmed}
    trials = [
        Trial("original", Plan(), latency=Interval(4.0, 3.9, 4.1)),
        Trial("original", faster, latency=Interval(2.0, 1.9, 2.1), status=Status.CHOSEN),
    ]
    return [
        *(("trial", trial.id, trial_data(trial)) for trial in trials),
        ("comparison", "final", proof.as_data()),
        ("step", "threads", step),
        ("result", "tune", {"model": "m.tflite", "best": before, "steps": [step]}),
        ("result", "tune", {"model": "m.tflite", "best": after, "steps": [step] if confirmed else []}),
    ]


@pytest.mark.parametrize(
    ("variant", "plan", "speedup"),
    [("original", Plan(), 1.0), ("static_int8", Plan(threads=2), 1.8), ("original", Plan(threads=2), 1.9)],
    ids=["the original", "another model", "the same, not confirmed again"],
)
def test_an_earlier_confirmation_says_nothing_about_a_later_result(variant: str, plan: Plan, speedup: float) -> None:
    lines = tuned_twice(variant, plan, speedup, confirmed=False)
    found = summarize(session_of(lines))
    # The original has no speedup over itself.
    assert ("Speedup" in {fact.title for fact in found.facts}) == ((variant, plan) != ("original", Plan()))
    assert found.steps == ()
    told = page_of(lines).text
    assert "the result against the original" not in told
    assert "model.tflite, cpu, 2 threads against the original" in told


def test_the_confirmation_of_the_result_is_shown_with_it() -> None:
    lines = tuned_twice("original", Plan(threads=2), 2.0, confirmed=True)
    found = summarize(session_of(lines))
    (fact,) = (fact for fact in found.facts if fact.title == "Speedup")
    assert fact.before == "4.00 ms → 2.00 ms per inference"
    assert len(found.steps) == 1
    assert "the result against the original" in page_of(lines).text


def _finding() -> dict[str, Any]:
    return to_data(Finding("quantize", Standing.IMPROVED, said("int8 keeps the floor and is 60 % smaller")))


_SESSIONS: dict[str, tuple[list[Line], str]] = {
    "nothing": ([], "This session holds nothing yet."),
    "bench": ([("measurement", "folder/model.tflite", to_data(measurement(2.5)))], "2.50 ms per inference"),
    "compare": ([("comparison", "a b", comparison([0.69, 0.70, 0.68, 0.69, 0.7]).as_data())], "95 % CI"),
    "profile": (
        [("profile", "model.tflite", to_data(profile([operator(0), operator(1, "ADD", 0.1)])))],
        "of the time.",
    ),
    "quantize": ([("finding", "quantize", _finding())], "int8 keeps the floor"),
    "failure": ([("failure", "m.tflite", {"message": "the model is damaged", "hint": ""})], "the model is damaged"),
    "sustained": (
        [("sustained", "m.tflite", {"minutes": [{"minute": 1, "median_ms": 2.0, "ci95_ms": [None, None]}]})],
        "sustained run",
    ),
    "accelerators": (
        [line for line in tune_lines(2) if line[0] in ("accelerators", "finding") and line[1] != "help"],
        "XNNPACK on the CPU is the fastest.",
    ),
    "tune without a result": (tune_lines(12)[:10], "No verdict yet: 8 trials so far"),
}


@pytest.mark.parametrize("name", _SESSIONS)
def test_a_session_of_any_command_gives_a_page_that_says_what_it_found(name: str) -> None:
    lines, sentence = _SESSIONS[name]
    page = page_of(lines)
    assert sentence in page.text
    assert page.unbalanced == []
    assert len(page.all("h1")) == 1


def test_rounds_of_one_measurement_become_one_row() -> None:
    rounds: list[Line] = []
    for number in (1, 2, 3):
        for threads in (1, 2):
            data = to_data(measurement(4.0 / threads, plan=Plan(threads=threads)))
            beside = {"load": "quiet", "load_kind": "", "load_workers": 0, "round": number}
            rounds.append(("measurement", f"{threads} threads alone", {**data, **beside}))
    page = page_of(rounds)
    assert "All trials (2)" in page.text
    assert len(page.specs()["threads"]["data"]["values"]) == 2


def test_lost_lines_unknown_kinds_and_broken_lines_are_named() -> None:
    lines: list[Line] = [("horoscope", "", {"sign": "lion"}), ("measurement", "m", {"samples": "gone"})]
    page = page_of(lines, lost_lines=2)
    assert "2 lines of the session file could not be read" in page.text
    assert "No reason was found to doubt" not in page.text
    assert "horoscope (1)" in page.text
    assert "A line could not be understood: measurement m" in page.text


def test_without_the_charts_library_the_page_has_tables_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    chart_library.cache_clear()
    try:
        page = page_of(tune_lines(12))
    finally:
        chart_library.cache_clear()
    assert MISSING in page.text
    assert len(page.scripts) == 2
    assert [1 for attributes in page.all("div") if "data-chart" in attributes] == []
    assert all("open" in attributes for attributes in page.all("details"))


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _shorter(line: Line) -> Line:
    kind, label, data = line
    return kind, label, {**data, "ops": data["ops"][:8]} if "ops" in data else data


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_damaged_lines_never_keep_the_rest_from_being_shown(data: st.DataObject) -> None:
    """Any value of any line replaced by anything: still a page, with the verdicts of the other lines."""
    lines = [_shorter(line) for line in tune_lines(6)]
    place = data.draw(st.integers(0, len(lines) - 2))
    kind, label, good = lines[place]
    key = data.draw(st.sampled_from(sorted(good)))
    lines[place] = (kind, label, {**good, key: data.draw(_JSON)})
    page = body_of(session_of(lines))
    assert page.unbalanced == []
    assert "The practices of the guide" in page.text


_KINDS = [
    "trial",
    "measurement",
    "profile",
    "threads",
    "accelerators",
    "copies",
    "app",
    "variant",
    "sustained",
    "explanation",
    "result",
    "settings",
    "environment",
    "comparison",
    "step",
]


@given(st.sampled_from(_KINDS), _JSON)
@settings(max_examples=80, deadline=None)
def test_lines_of_nonsense_give_a_page(kind: str, data: Any) -> None:
    assert body_of(session_of([(kind, "label", data)])).unbalanced == []


def test_an_old_header_is_enough() -> None:
    assert "This session holds nothing yet." in html_report(Session({}, ()))

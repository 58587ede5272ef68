"""The program that looks for contradictions finds each kind of them, and none in a result that has none."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.consistency import Contradiction, Kind, contradictions, printed, session_lines, shown
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.units import milliseconds, times
from hasten.show.blocks import Cell, Chart, Section, Table, columns
from hasten.show.html import Html, element, joined, script_json, section_html

_RECORDED = Path(__file__).parents[2] / "data" / "contradictory"
_CPU = {"accelerator": "cpu", "threads": 1, "kernel": "delegate", "delegate": "", "cores": [], "precision": "default"}
_TWO = {**_CPU, "threads": 2}
_NPU = {**_TWO, "accelerator": "npu"}


def _comparison(ratio: float, verdict: str = "faster", rounds: int = 5) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "ratio": ratio,
        "ci95": [ratio * 0.98, ratio * 1.02],
        "smallest_detectable": 0.03,
        "rounds": rounds,
    }


def _compare() -> dict[str, Any]:
    return {**_comparison(0.5), "first": {"latency": {"median_ms": 2.4}}, "second": {"latency": {"median_ms": 1.2}}}


def _trial(variant: str, plan: dict[str, Any], ms: float, **more: Any) -> dict[str, Any]:
    against = None if ms == 2.4 else _comparison(ms / 2.4)
    named = {"variant": variant, "plan": plan, "latency": {"median_ms": ms}, "against": against, "status": "timed"}
    return {**named, "floor": "", "change": None, "why": {"code": "", "facts": {}}, **more}


def _session() -> list[dict[str, Any]]:
    trials = {
        "original@cpu, 1 thread": _trial("original", _CPU, 2.4),
        "original@cpu, 2 threads": _trial("original", _TWO, 1.2),
        "original@npu, 2 threads": _trial("original", _NPU, 0.9, status="chosen"),
        "float16@npu, 2 threads": _trial("float16", _NPU, 0.6),
    }
    return [{"kind": "trial", "label": name, "data": data} for name, data in trials.items()]


def _step(practice: str, before: float, after: float) -> dict[str, Any]:
    return {"practice": practice, "from_ms": before, "to_ms": after, "ratio": after / before, "ci95": [0.1, 0.9]}


def _tune() -> dict[str, Any]:
    rows = [{"threads": 1, "median_ms": 2.4}, {"threads": 2, "median_ms": 1.2}]
    npu = [{"name": "npu", "median_ms": 0.9, "ratio": 0.75}]
    return {
        "verdict": "2.7× faster (95 % CI 2.5–2.8).",
        "verdicts": [
            {"practice": "profile", "verdict": "good", "facts": {"latency_ms": 0.9}},
            {"practice": "threads", "verdict": "improved", "facts": {"rows": rows}},
            {"practice": "accelerators", "verdict": "improved", "facts": {"rows": npu}},
            {"practice": "quantize", "verdict": "to do", "facts": {"variant": "float16", "ratio": {"ratio": 2 / 3}}},
        ],
        "best": {
            "variant": "original",
            "plan": _NPU,
            "speedup": 2.4 / 0.9,
            "ci95": [2.5, 2.8],
            "verdict": "faster",
            "latency_ms": 0.9,
        },
        "goal": {"name": "latency", "compared_by": "latency", "verdict": "faster"},
        "front": [{"id": "original@npu, 2 threads", "latency_ms": 0.9}],
        "steps": [_step("threads", 2.4, 1.2), _step("accelerators", 1.2, 0.9)],
        "trials": 4,
        "max_drop": 0.01,
    }


def _page(
    *,
    speedup: str = "2.7×",
    arrow: str = "2.40 ms → 0.900 ms per inference",
    timed: str = "4 candidates",
    row_speedup: str = "4.0×",
    chosen_why: str = "10 % of the runs were outliers, far slower than the rest.",
    change: str = "2.0× faster (95 % CI 1.9–2.1)",
    told: str = "−1.20 ms",
    drawn: float = 0.6,
) -> str:
    """A page as the report makes it, with what may go wrong."""
    trials = Table(
        "trials-table",
        "Every trial",
        columns("trial", "status", "#latency", "#speedup", "why"),
        (
            tuple(map(Cell, ("original@cpu, 1 thread", "timed", "2.40 ms", "", ""))),
            tuple(map(Cell, ("original@npu, 2 threads", "chosen", "0.900 ms", "2.7×", chosen_why))),
            tuple(map(Cell, ("float16@npu, 2 threads", "timed", "0.600 ms", row_speedup, ""))),
        ),
    )
    steps = Table(
        "steps-table",
        "Steps",
        columns("practice", "#from", "#to", "change"),
        (tuple(map(Cell, ("Threads", "2.40 ms", "1.20 ms", change))),),
    )
    bars = [
        {"name": "original", "low": 0.0, "high": 2.4, "kind": "total", "told": "2.40 ms"},
        {"name": "Threads", "low": 1.2, "high": 2.4, "kind": "gain", "told": told},
        {"name": "Accelerators", "low": 0.9, "high": 1.2, "kind": "gain", "told": "−0.300 ms"},
        {"name": "result", "low": 0.0, "high": 0.9, "kind": "total", "told": "0.900 ms"},
    ]
    specs = {
        "steps": {"data": {"values": bars}},
        "front": {"data": {"values": [{"name": "float16@npu, 2 threads", "x": drawn}]}},
    }
    chart = Chart("steps", "Steps", "Steps.", {}, steps)
    tiles = [
        joined([element("dt", "Speedup"), element("dd", speedup, class_="value"), element("dd", arrow, class_="note")]),
        joined([element("dt", "Timed"), element("dd", timed, class_="value")]),
    ]
    parts = [
        element("h1", "2.7× faster (95 % CI 2.5–2.8)."),
        element("dl", joined([element("div", tile) for tile in tiles]), class_="tiles"),
        section_html(Section("steps", "Steps", (chart,)), set(), charts=True),
        section_html(Section("trials", "All trials (4)", (trials,)), set(), charts=True),
        element("script", Html(script_json(specs)), type="application/json", id="chart-specs"),
    ]
    return joined(parts)


def _kinds(found: list[Contradiction]) -> set[Kind]:
    return {entry.kind for entry in found}


def test_results_without_a_contradiction_have_none() -> None:
    assert contradictions(_compare()) == []
    assert contradictions(_tune(), _page(), _session()) == []


def test_recorded_results_of_an_earlier_release_contradict_themselves() -> None:
    """`compare demo demo@threads=2` and `tune demo --budget 1m` next to a busy loop, before there was one estimator."""
    found = {
        name: contradictions(
            json.loads((_RECORDED / f"{name}.json").read_text(encoding="utf-8")),
            (_RECORDED / f"{name}.html").read_text(encoding="utf-8"),
            session_lines(_RECORDED / f"{name}.jsonl") if name == "tune" else (),
        )
        for name in ("compare", "tune")
    }
    assert _kinds(found["compare"]) == {Kind.RATIO, Kind.DETECTABLE}
    assert _kinds(found["tune"]) >= {Kind.RATIO, Kind.DETECTABLE, Kind.ROUNDS, Kind.STEPS, Kind.TWO_VALUES}
    # The page alone shows it, too.
    assert any("latencies that make" in entry.said for entry in found["compare"])
    assert any(entry.where.startswith("trials-table") for entry in found["tune"])


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"ratio": 0.62, "ci95": [0.6, 0.64]}, Kind.RATIO),
        ({"ci95": [0.3, 1.1]}, Kind.INTERVAL),
        ({"ci95": [0.6, 0.7]}, Kind.INTERVAL),
        ({"verdict": "slower"}, Kind.INTERVAL),
        ({"verdict": "same"}, Kind.INTERVAL),
        ({"smallest_detectable": 0.76}, Kind.DETECTABLE),
        ({"smallest_detectable": None}, Kind.DETECTABLE),
        ({"verdict": "undecided"}, Kind.DETECTABLE),
        ({"rounds": 1}, Kind.ROUNDS),
    ],
)
def test_each_contradiction_of_a_comparison_is_found(change: dict[str, Any], kind: Kind) -> None:
    assert _kinds(contradictions({**_compare(), **change})) == {kind}


@pytest.mark.parametrize(
    ("path", "value", "kind"),
    [
        (("best", "speedup"), 3.9, Kind.RATIO),
        (("best", "latency_ms"), 0.861, Kind.TWO_VALUES),
        (("best", "ci95"), [2.7, 2.9], Kind.INTERVAL),
        (("steps", 0, "ratio"), 0.74, Kind.RATIO),
        (("steps", 1, "from_ms"), 1.3, Kind.TWO_VALUES),
        (("steps",), [_step("accelerators", 2.4, 0.9)], Kind.STEPS),
        (("verdicts", 0, "facts", "latency_ms"), 0.941, Kind.TWO_VALUES),
        (("verdicts", 1, "facts", "rows", 1, "median_ms"), 1.3, Kind.TWO_VALUES),
        (("verdicts", 2, "facts", "rows", 0, "ratio"), 0.6, Kind.RATIO),
        (("verdicts", 2, "facts", "rows", 0, "ratio"), 0.375, Kind.STEPS),
        (("verdicts", 3, "facts", "ratio", "ratio"), 0.25, Kind.STEPS),
        (("verdicts", 1, "facts", "rows", 0, "rounds"), 1, Kind.ROUNDS),
        (("front", 0, "latency_ms"), 0.8, Kind.TWO_VALUES),
        (("trials",), 5, Kind.TWO_VALUES),
        (("verdict",), "2.5× faster.", Kind.TWO_VALUES),
        (("verdict",), "As fast as the original (0.900 ms).", Kind.WORDS),
        (("verdict",), "Undecided whether it is faster than the original (time ratio 0.375).", Kind.WORDS),
        (("goal", "verdict"), "undecided", Kind.WORDS),
        (("goal", "verdict"), "undecided", Kind.TWO_VALUES),
        (("best", "verdict"), "undecided", Kind.WORDS),
        (("steps", 0, "verdict"), "undecided", Kind.WORDS),
    ],
)
def test_each_contradiction_of_a_tuning_is_found(path: tuple[Any, ...], value: Any, kind: Kind) -> None:
    document = copy.deepcopy(_tune())
    _put(document, path, value)
    assert kind in _kinds(contradictions(document, _page(), _session()))


@pytest.mark.parametrize(
    ("path", "value", "kind"),
    [
        ((2, "data", "why"), {"code": "trial.slower", "facts": {}}, Kind.CHOICE),
        ((2, "data", "floor"), "broken", Kind.CHOICE),
        ((3, "data", "why"), {"code": "x", "facts": {"ratio": 2.0, "than": "original@npu, 2 threads"}}, Kind.RATIO),
        ((3, "data", "against", "ratio"), 0.3, Kind.RATIO),
        ((1, "data", "against"), _comparison(0.5, "undecided"), Kind.ROUNDS),
        ((2, "data", "latency", "median_ms"), 0.95, Kind.TWO_VALUES),
        ((2, "data", "against", "verdict"), "undecided", Kind.TWO_VALUES),
        ((2, "data", "against", "verdict"), "undecided", Kind.DETECTABLE),
    ],
)
def test_each_contradiction_of_a_trial_is_found(path: tuple[Any, ...], value: Any, kind: Kind) -> None:
    session = copy.deepcopy(_session())
    _put(session, path, value)
    assert kind in _kinds(contradictions(_tune(), _page(), session))


def _of_chosen_variant() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A tuning that chose a variant on the CPU, and judges threads and accelerators by it."""
    rows = [{"threads": 1, "median_ms": 1.5}, {"threads": 2, "median_ms": 0.8}]
    session = [
        {"kind": "trial", "label": "original@cpu, 1 thread", "data": _trial("original", _CPU, 2.4)},
        {"kind": "trial", "label": "original@cpu, 2 threads", "data": _trial("original", _TWO, 1.2)},
        {"kind": "trial", "label": "dynamic@cpu, 1 thread", "data": _trial("dynamic", _CPU, 1.5)},
        {"kind": "trial", "label": "dynamic@cpu, 2 threads", "data": _trial("dynamic", _TWO, 0.8, status="chosen")},
        {"kind": "trial", "label": "dynamic@npu, 2 threads", "data": _trial("dynamic", _NPU, 1.0)},
    ]
    verdicts = [
        {"practice": "threads", "verdict": "good", "facts": {"rows": rows, "variant": "dynamic"}},
        {
            "practice": "accelerators",
            "verdict": "good",
            "facts": {"rows": [{"name": "npu", "median_ms": 1.0, "ratio": 1.25}]},
        },
    ]
    return {**_tune(), "verdicts": verdicts}, session


def _of_findings(document: dict[str, Any], session: list[dict[str, Any]]) -> set[Kind]:
    return _kinds([one for one in contradictions(document, "", session) if one.where.startswith("verdicts")])


def test_threads_and_accelerators_are_judged_by_the_chosen_variant() -> None:
    document, session = _of_chosen_variant()
    assert not _of_findings(document, session)
    _put(document, ("verdicts", 0, "facts", "rows", 1, "median_ms"), 1.2)  # the original's
    assert _of_findings(document, session) == {Kind.TWO_VALUES}
    document, _ = _of_chosen_variant()
    _put(document, ("verdicts", 1, "facts", "rows", 0, "ratio"), 1.0 / 1.2)  # against the original
    assert _of_findings(document, session) == {Kind.RATIO}
    _put(document, ("verdicts", 1, "facts", "rows", 0, "ratio"), 1.0 / 1.5)  # against one thread
    assert _of_findings(document, session) == {Kind.STEPS}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"speedup": "3.9×"}, Kind.RATIO),
        ({"arrow": "2.31 ms → 1.19 ms per inference"}, Kind.RATIO),
        ({"timed": "16 candidates"}, Kind.TWO_VALUES),
        ({"row_speedup": "2.2×"}, Kind.RATIO),
        ({"chosen_why": "Takes 2.48× as long as original@cpu, 2 threads."}, Kind.CHOICE),
        ({"change": "1.5× faster (95 % CI 1.4–1.6)"}, Kind.RATIO),
        ({"change": "2.0× faster (95 % CI 0.9–2.1)"}, Kind.INTERVAL),
        ({"change": "2.0× faster (95 % CI 2.2–2.4)"}, Kind.INTERVAL),
        ({"told": "−0.900 ms"}, Kind.TWO_VALUES),
        ({"drawn": 0.7}, Kind.TWO_VALUES),
    ],
)
def test_each_contradiction_of_a_page_is_found(change: dict[str, Any], kind: Kind) -> None:
    assert kind in _kinds(contradictions(_tune(), _page(**change), _session()))


@pytest.mark.parametrize(
    ("told", "verdict", "is_found"),
    [
        ("1.43× faster (95 % CI 1.10–1.90)", "undecided", True),
        ("12 % slower", "undecided", True),
        ("1.80× more energy-efficient", "slower", True),
        ("1.80× lower throughput", "slower", False),
        ("undecided (time ratio 0.700, 95 % CI 0.600–0.900)", "undecided", False),
        ("undecided (time ratio 0.700)", "faster", True),
        ("equally fast (time ratio 1.001)", "undecided", True),
        ("equally fast (time ratio 1.001)", "same", False),
        ("Same energy per inference as the original (8.90 mJ), 62 % smaller.", "undecided", True),
        ("not proven faster (1.02×, 95 % CI 0.98–1.06)", "undecided", False),
        ("1.07× faster (95 % CI 1.04–1.11)", None, False),
    ],
)
def test_words_claim_what_the_verdict_does(told: str, verdict: str | None, is_found: bool) -> None:
    document = {**_tune(), "verdict": told, "goal": {"compared_by": "energy", "verdict": verdict}}
    assert (Kind.WORDS in _kinds(contradictions(document))) is is_found


def test_a_size_is_exact_whatever_the_verdict_on_latency_is() -> None:
    document = {
        **_tune(),
        "verdict": "62 % smaller, 1.2× slower.",
        "goal": {"compared_by": "size", "verdict": "faster"},
    }
    assert contradictions(document, "", _session()) == []


def test_a_headline_that_is_kept_together_on_a_page_is_the_same() -> None:
    told = "2.7× faster (95 % CI 2.5–2.8), top-1 99.0 %."
    kept = "2.7×\u00a0faster (95\u00a0%\u00a0CI 2.5–\u20602.8), top\u20111 99.0\u00a0%."
    page = _page().replace("2.7× faster (95 % CI 2.5–2.8).", kept)
    assert kept in page
    assert contradictions({**_tune(), "verdict": told}, page, _session()) == []


def test_the_confirmation_has_the_verdict_of_the_result() -> None:
    final = {"kind": "comparison", "label": "final", "data": _comparison(0.375)}
    assert contradictions(_tune(), "", [*_session(), final]) == []
    final["data"] = {**_comparison(0.375, "undecided"), "smallest_detectable": None}
    assert _kinds(contradictions(_tune(), "", [*_session(), final])) == {Kind.TWO_VALUES}


def _gate(row: str, interval: list[float], **more: Any) -> dict[str, Any]:
    limit = {"what": "latency", "measured": sum(interval) / 2, "limit": 5, "verdict": row, "interval": interval}
    return {"passed": row == "passed", "rows": [limit], **more}


@pytest.mark.parametrize(
    ("document", "is_found"),
    [
        (_gate("passed", [2.2, 2.6]), False),
        (_gate("passed", [2.2, 5.6]), True),
        (_gate("failed", [5.2, 5.6]), False),
        (_gate("failed", [4.9, 5.6]), True),
        (_gate("undecided", [4.9, 5.6], passed=True), True),
        (_gate("undecided", [4.9, 5.6], verdict="undecided", undecided="fail"), False),
        (_gate("undecided", [4.9, 5.6], verdict="undecided", undecided="pass", passed=True), False),
        (_gate("undecided", [4.9, 5.6], verdict="passed", undecided="pass", passed=True), True),
        (_gate("failed", [5.2, 5.6], verdict="failed", undecided="pass", passed=True), True),
    ],
)
def test_a_gate_agrees_with_its_intervals(document: dict[str, Any], is_found: bool) -> None:
    assert _kinds(contradictions(document)) == ({Kind.LIMIT} if is_found else set())


@pytest.mark.parametrize(
    ("floor", "interval", "is_found"),
    [
        ("kept", [-0.028, 0.015], True),
        ("broken", [-0.048, 0.022], True),
        ("kept", [-0.008, 0.004], False),
        ("broken", [-0.048, -0.015], False),
        ("undecided", [-0.028, 0.015], False),
    ],
)
def test_kept_and_broken_agree_with_the_interval(floor: str, interval: list[float], is_found: bool) -> None:
    change = {"difference": sum(interval) / 2, "ci95": interval, "higher_is_better": True}
    variants = [_trial("original", _CPU, 2.4), _trial("static_int8", _CPU, 1.2, floor=floor, change=change)]
    found = contradictions({"variants": variants, "max_drop": 0.01})
    assert _kinds(found) == ({Kind.LIMIT} if is_found else set())
    judged = {"state": floor, "drop": -sum(interval) / 2, "ci95": [-interval[1], -interval[0]]}
    variants[1] = _trial("static_int8", _CPU, 1.2, floor=floor, judged=judged)
    found = contradictions({"variants": variants, "max_drop": 0.01})
    assert _kinds(found) == ({Kind.LIMIT} if is_found else set())


def test_accelerators_follow_from_the_row_of_the_cpu() -> None:
    cpu = {"name": "xnnpack", "latency": {"median_ms": 2.4}, "against_cpu": None}
    npu = {"name": "npu", "latency": {"median_ms": 0.9}, "against_cpu": _comparison(0.375)}
    assert contradictions({"rows": [cpu, npu]}) == []
    two = {"name": "xnnpack 2 threads", "latency": {"median_ms": 1.2}, "against_cpu": _comparison(0.5)}
    beside = {**npu, "against_all_cores": _comparison(0.75), "cpu_threads": 2}
    assert contradictions({"rows": [cpu, two, beside]}) == []
    beside["against_all_cores"] = _comparison(0.375)
    assert _kinds(contradictions({"rows": [cpu, two, beside]})) == {Kind.RATIO}
    npu["latency"] = {"median_ms": 1.1}
    assert _kinds(contradictions({"rows": [cpu, npu]})) == {Kind.RATIO}


def test_threads_follow_from_their_rows() -> None:
    rows = [{"threads": n, "cores": [], "load": "quiet", "median_ms": ms} for n, ms in ((1, 2.4), (2, 1.2))]
    step = {"threads": 2, "cores": [], "against_threads": 1, "against_cores": [], "took_the_lead": True, "rounds": 5}
    step |= {"ratio": 0.5, "ci95": [0.49, 0.51]}
    choice = {"threads": 2, "sure": True, "steps": [step]}
    document = {"rows": rows, "by_load": {"quiet": choice}, "load": "quiet", "recommended": 2}
    assert contradictions(document) == []
    assert _kinds(contradictions({**document, "recommended": 1})) == {Kind.TWO_VALUES}
    for change, kind in (
        ({"ratio": 0.6}, Kind.RATIO),
        ({"ci95": [0.4, 1.2]}, Kind.INTERVAL),
        ({"rounds": 1}, Kind.ROUNDS),
    ):
        wrong = {**document, "by_load": {"quiet": {**choice, "steps": [{**step, **change}]}}}
        assert _kinds(contradictions(wrong)) == {kind}


@given(st.floats(1e-3, 9e3), st.floats(1e-3, 9e3))
def test_what_is_printed_from_true_numbers_is_no_contradiction(one: float, other: float) -> None:
    """Whatever the latencies are, their rounded quotient agrees with the rounded latencies."""
    before, after = (text.split(" ") for text in (milliseconds(one), milliseconds(other)))
    units = {"µs": 1e-3, "ms": 1.0, "s": 1e3}
    quotient = printed(before[0], units[before[1]]).over(printed(after[0], units[after[1]]))
    assert printed(times(one / other).removesuffix("×")).agrees(quotient)
    assert shown(one / other).agrees(shown(one).over(shown(other)))


def _put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value

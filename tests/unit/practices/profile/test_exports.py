"""Files for other programs: CSV, Chrome's trace format, Model Explorer's node data."""

from __future__ import annotations

import csv
import io
import itertools
import json
from typing import Any

import pytest

from hasten.core.block import ProfiledRun
from hasten.core.printable import printable
from hasten.practices.profile.exports import MOST_RUNS, ProfileTimeline, profile_csv, profile_node_data
from tests.unit.practices.profile.examples import event, operator, profile, raw
from tests.unit.show.hostile import HOSTILE

OPERATORS = [
    operator(i, op=name or "EMPTY", location=f"{i} {name}", kernels=(name, name)) for i, name in enumerate(HOSTILE)
]


def harmless(name: str) -> str:
    """The name in one line, and never a formula to a spreadsheet."""
    return ("'" if name[:1] in ("=", "-", "+", "@") else "") + printable(name)


class TestCsv:
    def rows(self, text: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(text, newline="")))

    def test_parses_back_with_hostile_names(self) -> None:
        rows = self.rows(profile_csv(profile(OPERATORS)))
        assert [row["location"] for row in rows] == [harmless(op.location) for op in OPERATORS]
        assert [row["op"] for row in rows] == [harmless(op.op) for op in OPERATORS]
        assert [float(row["ms"]) for row in rows] == [op.ms for op in OPERATORS]

    def test_unknown_is_empty(self) -> None:
        (row,) = self.rows(profile_csv(profile([operator(0, macs=None, headroom_ms=None, kernels=())])))
        assert (row["macs"], row["headroom_ms"], row["kernel"]) == ("", "", "")

    def test_keys_are_those_that_the_command_line_promises(self) -> None:
        (row,) = self.rows(profile_csv(profile([operator(0, fused=("1 MUL", "2 ADD"))])))
        promised = {
            "index",
            "op",
            "kernel",
            "location",
            "ms",
            "share",
            "macs",
            "bytes",
            "gflops",
            "headroom_ms",
            "mapped",
        }
        assert promised <= set(row)
        assert row["fused"] == "1 MUL; 2 ADD"


class TestModelExplorer:
    def test_has_the_documented_keys(self) -> None:
        data = json.loads(profile_node_data(profile(OPERATORS)))
        assert {"results", "gradient"} <= set(data)
        assert data["results"]["0 plain"] == {"value": 0.5}
        stops = [stop["stop"] for stop in data["gradient"]]
        assert stops[0] == 0
        assert stops[-1] == 1
        assert all(stop["bgColor"].startswith("#") for stop in data["gradient"])

    def test_names_are_literal(self) -> None:
        data = json.loads(profile_node_data(profile(OPERATORS)))
        assert set(data["results"]) == {op.location for op in OPERATORS}

    def test_no_operator_hides_another_of_its_name(self) -> None:
        twins = [operator(3, location="twin", ms=1.0), operator(5, location="twin", ms=2.0), operator(7, location="")]
        results = json.loads(profile_node_data(profile([*twins, operator(8, location="own", ms=4.0)])))["results"]
        assert set(results) == {"3", "5", "7", "own"}
        assert (results["3"]["value"], results["5"]["value"], results["own"]["value"]) == (1.0, 2.0, 4.0)

    def test_whole_partitions_have_no_node_to_color(self) -> None:
        assert json.loads(profile_node_data(profile([operator(-1, op="DELEGATE")])))["results"] == {}


def run_at(start_us: int) -> ProfiledRun:
    """Two kernels, an operator of the engine, and a loop with a body that is delegated."""
    return ProfiledRun(
        1010.0,
        (
            event("invoke", "Invoke", 0, start_us, 1000),
            event("kernel", "Convolution", 0, 0, 100),
            event("kernel", "Softmax", 1, 0, 50),
            event("operator", "WHILE", 2, start_us + 160, 500),
            event("invoke", "Invoke", 0, start_us + 170, 200, 1),
            event("operator", "ADD", 0, start_us + 175, 20, 1),
            event("kernel", "Convolution", 0, 0, 70, 1),
            event("kernel", "Convolution", 1, 0, 60, 1),
            event("invoke", "Invoke", 0, start_us + 400, 200, 1),
            event("operator", "ADD", 0, start_us + 405, 20, 1),
            event("kernel", "Convolution", 0, 0, 70, 1),
            event("kernel", "Convolution", 1, 0, 60, 1),
            event("kernel", "Convolution", 0, 0, 200),
        ),
    )


def trace_of(*runs: ProfiledRun, name: str = "CONV_2D") -> list[dict[str, Any]]:
    operators = [operator(0, op=name), operator(1, op="SOFTMAX"), operator(2, op="WHILE"), operator(3, events=(12,))]
    return list(json.loads(ProfileTimeline(profile(operators), raw(*runs)).trace_json())["traceEvents"])


def timed(events: list[dict[str, Any]], thread: int) -> list[dict[str, Any]]:
    return [entry for entry in events if entry["ph"] == "X" and entry["tid"] == thread]


class TestTrace:
    def test_events_have_what_the_format_needs(self) -> None:
        for entry in trace_of(run_at(5000), run_at(7000)):
            assert entry["ph"] in ("X", "M")
            assert isinstance(entry["name"], str)
            assert "pid" in entry
            if entry["ph"] == "X":
                assert {"ts", "dur", "tid", "cat", "args"} <= set(entry)
                assert entry["ts"] >= 0
                assert entry["dur"] >= 0

    def test_events_nest_and_never_cross(self) -> None:
        for thread in (1, 2):
            spans = [(e["ts"], e["ts"] + e["dur"]) for e in timed(trace_of(run_at(5000), run_at(7000)), thread)]
            for (a, b), (c, d) in itertools.combinations(spans, 2):
                apart = b <= c or d <= a
                inside = (a <= c and d <= b) or (c <= a and b <= d)
                assert apart or inside

    def test_events_lie_inside_their_invoke(self) -> None:
        events = timed(trace_of(run_at(5000), run_at(7000)), 1)
        invokes = [e for e in events if e["name"].startswith("Invoke")]
        assert [e["name"] for e in invokes] == ["Invoke 0", "Invoke 1"]
        assert invokes[0]["ts"] == 0
        for entry in events:
            assert any(i["ts"] <= entry["ts"] and entry["ts"] + entry["dur"] <= i["ts"] + i["dur"] for i in invokes)

    def test_kernels_of_a_body_lie_inside_the_loop(self) -> None:
        events = timed(trace_of(run_at(5000)), 1)
        loop = next(e for e in events if e["name"] == "WHILE")
        body = [e for e in events if e["name"] == "Convolution"]
        assert len(body) == 4
        assert all(loop["ts"] <= e["ts"] and e["ts"] + e["dur"] <= loop["ts"] + loop["dur"] for e in body)

    def test_operators_carry_their_layer(self) -> None:
        entry = next(e for e in timed(trace_of(run_at(5000)), 1) if e["name"] == "SOFTMAX")
        assert entry["args"]["location"] == "layer_1/out"
        assert entry["args"]["kernel"] == "Softmax"

    def test_start_up_is_a_track_of_its_own(self) -> None:
        steps = timed(trace_of(run_at(5000)), 2)
        assert [step["name"] for step in steps] == ["environment", "compile", "first run"]
        assert [step["dur"] for step in steps] == [10_000, 20_000, 5_000]

    def test_long_recordings_are_cut(self) -> None:
        events = trace_of(*(run_at(5000 + 2000 * i) for i in range(MOST_RUNS + 30)))
        assert len([e for e in events if e["name"].startswith("Invoke")]) == MOST_RUNS

    def test_run_without_an_invoke_event(self) -> None:
        run = ProfiledRun(100.0, (event("kernel", "Convolution", 0, 0, 90),))
        assert [e["dur"] for e in timed(trace_of(run), 1)] == [90]

    @pytest.mark.parametrize("name", HOSTILE)
    def test_names_are_literal(self, name: str) -> None:
        assert name in [e["name"] for e in timed(trace_of(run_at(5000), name=name), 1)]

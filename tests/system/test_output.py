"""What the commands print and keep: text for people, one JSON document for programs, files that are never lost."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest
from commandline import QUICK, hasten, model_file

from hasten.core.codec import from_data
from hasten.core.measurement import Measurement
from hasten.core.session import merged_rounds, read_session
from hasten.demo import MODEL

if TYPE_CHECKING:
    from pathlib import Path

BENCH_KEYS = {*("model", "plan", "effective", "latency", "init_ms", "first_run_ms", "peak_memory_mb", "doubts")}
COMPARE_KEYS = {"verdict", "ratio", "ci95", "smallest_detectable", "seconds"}
OPERATOR_KEYS = {
    *("index", "op", "kernel", "location", "ms", "share", "macs", "bytes", "gflops", "headroom_ms", "mapped")
}


def long_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > 80]


def test_bench_in_text() -> None:
    shown = hasten("bench", MODEL, *QUICK)
    assert shown.code == 0
    assert "digits.tflite" in shown.output
    assert "latency" in shown.output
    assert long_lines(shown.output) == []
    assert shown.errors == ""


def test_bench_as_json() -> None:
    shown = hasten("bench", MODEL, "--seconds", "1", "--json")
    found = shown.json()
    assert found.keys() >= BENCH_KEYS
    assert found["latency"].keys() >= {"median_ms", "ci95_ms", "p95_ms", "min_ms", "samples"}
    assert len(found["latency"]["ci95_ms"]) == 2
    assert 0 < found["latency"]["min_ms"] <= found["latency"]["median_ms"] <= found["latency"]["p95_ms"]
    assert found["model"]["path"] == str(MODEL)
    assert found["effective"]["threads"] == 1
    assert shown.errors == ""


def test_demo_is_the_embedded_model(tmp_path: Path) -> None:
    assert hasten("bench", "demo", *QUICK, "--json", cwd=tmp_path).json()["model"]["path"] == str(MODEL)


def test_the_threads_asked_for_are_the_threads_in_effect() -> None:
    found = hasten("bench", MODEL, "--threads", "2", *QUICK, "--json").json()
    assert (found["plan"]["threads"], found["effective"]["threads"]) == (2, 2)


def test_bench_sustained(tmp_path: Path) -> None:
    model, session = model_file(tmp_path, "one_operator"), tmp_path / "session.jsonl"
    arguments = ("bench", model, "--sustained", "0.01")
    shown = hasten(*arguments)
    assert shown.code == 0
    assert long_lines(shown.output) == []
    found = hasten(*arguments, "--json", "--session", session).json()
    assert found["sustained"]["minutes"]
    assert [trial.kind for trial in read_session(session).lines] == ["sustained"]


def test_compare_in_text_and_json(tmp_path: Path) -> None:
    model = model_file(tmp_path, "mobilenet_like")
    shown = hasten("compare", model, "@threads=2", "--seconds", "2")
    assert shown.code == 0
    assert "2 threads" in shown.output
    assert long_lines(shown.output) == []
    found = hasten("compare", model, f"{model}@threads=2", "--seconds", "2", "--json").json()
    assert found.keys() >= COMPARE_KEYS
    assert found["verdict"] in ("faster", "slower", "same", "undecided")
    assert len(found["ci95"]) == 2
    assert found["first"].keys() >= BENCH_KEYS
    assert (found["first"]["effective"]["threads"], found["second"]["effective"]["threads"]) == (1, 2)


def test_a_comparison_cut_short_stays_readable(tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    shown = hasten("compare", model, "@kernel=builtin", "--seconds", "0.1")
    assert shown.code == 0
    assert long_lines(shown.output) == []
    assert "inf" not in shown.output


def test_profile_in_text_and_json() -> None:
    shown = hasten("profile", MODEL, *QUICK)
    assert shown.code == 0
    assert "CONV_2D" in shown.output
    assert long_lines(shown.output) == []
    found = hasten("profile", MODEL, *QUICK, "--no-roofline", "--json").json()
    assert found.keys() >= {"invoke_ms", "coverage", "ops", "partitions"}
    assert all(operator.keys() >= OPERATOR_KEYS for operator in found["ops"])
    assert 0.8 <= sum(operator["share"] for operator in found["ops"]) <= 1.001


def test_devices_and_doctor() -> None:
    for command, key in (("devices", "devices"), ("doctor", "checks")):
        shown = hasten(command)
        assert shown.code == 0
        assert long_lines(shown.output) == []
        found = hasten(command, "--json").json()
        assert found[key]
        assert all(entry["name"] for entry in found[key])


def test_trace_writes_what_perfetto_opens(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    shown = hasten("trace", MODEL, "-o", trace, *QUICK)
    assert shown.code == 0
    assert str(trace) in shown.output
    events = json.loads(trace.read_text())["traceEvents"]
    assert any(event.get("ph") == "X" and event["dur"] >= 0 for event in events)
    found = hasten("trace", MODEL, "-o", trace, *QUICK, "--force", "--json").json()
    assert found["trace"] == str(trace)


def test_exports_of_a_profile(tmp_path: Path) -> None:
    table, nodes = tmp_path / "operators.csv", tmp_path / "nodes.json"
    arguments = ("profile", MODEL, *QUICK, "--no-roofline", "--csv", table, "--model-explorer", nodes)
    found = hasten(*arguments, "--json").json()
    with table.open() as stream:
        assert len(list(csv.DictReader(stream))) == len(found["ops"])
    assert json.loads(nodes.read_text())


@pytest.mark.parametrize(
    "arguments", [("profile", "--csv"), ("profile", "--model-explorer"), ("trace", "-o")], ids=lambda value: value[1]
)
def test_a_file_is_replaced_only_with_force(arguments: tuple[str, str], tmp_path: Path) -> None:
    command, option = arguments
    there = tmp_path / "there"
    there.write_text("precious")
    shown = hasten(command, MODEL, *QUICK, option, there)
    assert shown.code == 2
    assert "--force" in shown.errors
    assert there.read_text() == "precious"
    roofline = ("--no-roofline",) if command == "profile" else ()
    assert hasten(command, MODEL, *QUICK, option, there, "--force", *roofline).code == 0
    assert there.read_text() != "precious"


def test_a_session_holds_the_raw_samples_of_what_was_printed(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    printed = [hasten("bench", MODEL, *QUICK, "--json", "--session", session).json() for _ in range(2)]
    kept = read_session(session)
    assert kept.lost_lines == 0
    whole = merged_rounds(kept.lines)
    assert [trial.kind for trial in whole] == ["measurement", "measurement"]
    for trial, shown in zip(whole, printed, strict=True):
        samples = from_data(Measurement, trial.data).samples
        assert samples.count == shown["latency"]["samples"] == len(samples.milliseconds)
        assert samples.median_ms == pytest.approx(shown["latency"]["median_ms"])
        assert samples.min_ms == pytest.approx(shown["latency"]["min_ms"])


def test_sessions_of_compare_and_profile(tmp_path: Path) -> None:
    session, model = tmp_path / "session.jsonl", model_file(tmp_path, "mobilenet_like")
    assert hasten("compare", model, "@threads=2", "--seconds", "1", "--session", session).code == 0
    assert hasten("profile", model, *QUICK, "--no-roofline", "--session", session).code == 0
    kinds = [trial.kind for trial in read_session(session).lines]
    assert kinds == ["comparison", "profile"]


def test_a_session_is_never_written_over_another_file(tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("precious\n")
    shown = hasten("bench", MODEL, *QUICK, "--session", foreign)
    assert shown.code == 2
    assert "notes.txt" in shown.errors
    assert foreign.read_text() == "precious\n"
    model = model_file(tmp_path, "one_operator")
    before = model.read_bytes()
    assert hasten("bench", model, *QUICK, "--session", model).code == 2
    assert model.read_bytes() == before


def test_a_place_that_cannot_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    shown = hasten("bench", MODEL, "--seconds", "60", "--session", tmp_path / "nowhere" / "session.jsonl")
    assert shown.code == 3
    assert "cannot be written" in shown.errors


def test_a_terminal_without_special_letters(tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    for arguments in (("bench", model, *QUICK), ("bench", "--help"), ("profile", model, *QUICK, "--no-roofline")):
        assert hasten(*arguments, environment={"PYTHONIOENCODING": "ascii"}).code == 0

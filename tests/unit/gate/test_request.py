"""Files of limits: what they ask for, and what is wrong with them."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from hasten.core.errors import DataError, UsageError
from hasten.core.plan import Plan
from hasten.data.request import Data
from hasten.gate.facts import Limits
from hasten.gate.request import LIMIT_NAMES, CheckRequest, request_from, request_from_file

WHOLE = """
[limits]
latency = "5 ms"
size = "2 MB"
accuracy = 0.95
max_slowdown = "3 %"

[plan]
threads = 2
cores = [0, 1]
options = {"cpu.flags" = 1}

[workload]
shapes = {image = [1, 8, 8, 3]}

[data]
path = "data.npz"
preprocess = "mean=127.5,std=127.5"
label_offset = 1
samples = 500

[baseline]
model = "old.tflite"

[gate]
undecided = "pass"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "limits.toml"
    path.write_text(text)
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "data.npz").touch()
    asked = request_from(written(tmp_path, WHOLE))
    assert asked.limits == Limits(latency_ms=5.0, size_bytes=2e6, accuracy=0.95, max_slowdown=0.03)
    assert asked.plan == Plan(threads=2, cores=(0, 1), options=(("cpu.flags", "1"),))
    assert asked.workload.shape_of("image") == (1, 8, 8, 3)
    assert asked.data.source == str(tmp_path / "data.npz"), "a path is taken from where the file lies"
    assert asked.data.preprocess == "mean=127.5,std=127.5"
    assert (asked.data.label_offset, asked.data.samples) == (1, 500)
    assert asked.undecided == "pass"
    assert asked.baseline_model == "old.tflite", "what is not there stays as it is, for whoever says so"


def test_a_gate_that_cannot_decide_is_shut_unless_asked_otherwise(tmp_path: Path) -> None:
    assert request_from(written(tmp_path, '[limits]\nlatency = "5 ms"\n')).undecided == "fail"
    assert request_from({"latency": "5 ms"}).undecided == "fail"


@pytest.mark.parametrize(
    ("name", "changes", "refused"),
    [
        ("max_slowdown", {}, True),
        ("max_slowdown", {"data": Data("d.npz")}, True),
        ("max_slowdown", {"baseline_session": "s.jsonl"}, False),
        ("max_slowdown", {"baseline_model": "old.tflite"}, False),
        ("max_drop", {}, True),
        ("max_drop", {"baseline_session": "s.jsonl", "data": Data("d.npz")}, True),
        ("max_drop", {"baseline_model": "old.tflite"}, True),
        ("max_drop", {"baseline_model": "old.tflite", "data": Data("d.npz")}, False),
    ],
)
def test_a_limit_that_nothing_is_compared_with_is_refused(name: str, changes: dict[str, Any], refused: bool) -> None:
    asked = replace(request_from({"latency": "5 ms", name: "3 %"}), **changes)
    if refused:
        with pytest.raises(UsageError, match=f"{name} needs") as caught:
            asked.checked()
        assert "--baseline-model OLD.tflite" in caught.value.hint
    else:
        assert asked.checked() is asked
    request_from({"latency": "5 ms"}).checked()  # the usual ones are nobody's wish


def test_the_older_name_of_the_section(tmp_path: Path) -> None:
    assert request_from(written(tmp_path, '[budget]\nlatency = "5 ms"\n')).limits == Limits(latency_ms=5.0)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[limts]\n", "'limts'", "limits, budget, plan, workload, data, baseline, gate"),
        ("[gate]\nundecided = 'maybe'", "'maybe'", 'undecided = "fail"'),
        ("[gate]\nundecided = []", "[]", 'undecided = "fail"'),
        ("[gate]\nstrict = true", "no 'strict' in [gate]", "undecided"),
        ("[limits]\nmax_slowdown = 3", "would allow 300 %", 'max_slowdown = "3 %"'),
        ("[limits]\nlatncy = '5 ms'", "no 'latncy' in [limits]", "latency"),
        ("[plan]\nthread = 2", "no 'thread' in [plan]", "threads"),
        ("[data]\nfile = 'x'", "no 'file' in [data]", "path"),
        ("limits = 3", "must be a section", "[limits]"),
        ("[limits]\nlatency = 5", "latency = 5", 'latency = "5 ms"'),
        ("[plan]\nthreads = 'many'", "whole number", ""),
        ("[plan]\naccelerator = 'tpu'", "tpu", "cpu, gpu, npu"),
        ("[plan]\noptions = 3", "table", "cpu.flags"),
        ("[workload]\nshapes = {x = '1x2'}", "shapes", "[1, 224"),
        ("[data]\nsamples = 'all'", "samples", ""),
        ("[limits", "not TOML", ""),
    ],
)
def test_mistakes_name_the_file_and_what_is_known(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        request_from_file(written(tmp_path, text))
    assert "limits.toml" in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        request_from_file(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not TOML"):
        request_from_file(tmp_path / "odd.toml")


def test_limits_given_apart_take_the_place_of_the_files(tmp_path: Path) -> None:
    asked = request_from(written(tmp_path, WHOLE)).with_limits({"latency": "7 ms", "max_slowdown": "2 %"})
    assert asked.limits == Limits(latency_ms=7.0, size_bytes=2e6, accuracy=0.95, max_slowdown=0.02)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (CheckRequest(), "nothing to check"),
        (CheckRequest(baseline_model="a", baseline_session="b"), "two baselines"),
        (CheckRequest(limits=Limits(accuracy=0.9)), "needs data"),
        (CheckRequest(limits=Limits(latency_ms=1.0, max_drop=0.02)), "max_drop needs"),
        (CheckRequest(limits=Limits(latency_ms=1.0), undecided="maybe"), "'maybe' is no choice"),
    ],
)
def test_a_request_that_cannot_be_met(asked: CheckRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        asked.checked()
    assert caught.value.hint


def test_the_documentation_has_every_key_and_an_example_that_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "check.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    asked = request_from(written(tmp_path, example)).checked()
    assert (asked.limits.latency_ms, asked.limits.memory_mb, asked.limits.size_bytes) == (10.0, 20.0, 2e6)
    keys = {*LIMIT_NAMES, *(item.name for item in fields(Plan)), *(item.name for item in fields(Data))}
    keys = keys - {"source", "calibration"} | {"path", "signature", "shapes", "model", "session", "undecided"}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []

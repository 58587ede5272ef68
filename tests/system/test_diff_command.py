"""`hasten diff`: text, JSON, session, overlay and exit codes, as a user has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import hasten, model_file
from tests import example_models

from hasten.core.session import read_session
from hasten.model.edit.model import EditedModel

if TYPE_CHECKING:
    from pathlib import Path

NODE = 2


def with_a_fault(folder: Path) -> Path:
    """The model of `model_file(folder, "mobilenet_like")` with the wrong sign in one node's weights."""
    model = EditedModel.from_bytes(example_models.mobilenet_like())
    graph = model.main
    weights = graph.operators[NODE].inputs[1]
    values = graph.constant(weights)
    assert values is not None
    graph.tensor(weights).buffer = model.parts.add_buffer(np.frombuffer((-values).tobytes(), np.uint8))
    path = folder / "changed.tflite"
    model.write(path)
    return path


def test_a_fault_is_named_and_ends_with_1(tmp_path: Path) -> None:
    """Text, session, report and overlay of one run."""
    model, changed = model_file(tmp_path, "mobilenet_like"), with_a_fault(tmp_path)
    session, overlay, report = tmp_path / "session.jsonl", tmp_path / "nodes.json", tmp_path / "report.md"
    shown = hasten("diff", model, changed, "--session", session, "--model-explorer", overlay)
    assert shown.code == 1, shown.errors
    assert f"#{NODE} DEPTHWISE_CONV_2D" in " ".join(shown.output.split())
    assert all(len(line) <= 80 for line in shown.output.splitlines())
    assert [line.kind for line in read_session(session).lines] == ["diff"]
    assert len(json.loads(overlay.read_text())["results"]) == 1
    assert hasten("report", session, "--format", "md", "-o", report).code == 0
    assert "Where the models diverge" in report.read_text(encoding="utf-8")


def test_one_model_on_two_kinds_of_kernels_is_equal_up_to_rounding(tmp_path: Path) -> None:
    """As JSON, on data of the user; a plan alone means the first model."""
    model, data = model_file(tmp_path, "mobilenet_like"), tmp_path / "data.npz"
    np.savez(data, x=np.random.default_rng(0).random((3, 32, 32, 3), dtype=np.float32))
    done = hasten("diff", model, "@kernel=reference", "--data", data, "--json")
    found = done.json()
    assert (done.code, found["first"], found["has_fault"]) == (0, None, False), found["verdict"]
    assert (found["samples"], found["random"], found["after"]["plan"]["kernel"]) == (3, False, "reference")
    assert found["before"]["model"]["sha256"] == found["after"]["model"]["sha256"]
    assert all(node.keys() >= {"index", "op", "snr_db", "max_error", "status"} for node in found["nodes"])


def test_models_with_other_inputs_are_refused(tmp_path: Path) -> None:
    shown = hasten("diff", model_file(tmp_path, "one_operator"), model_file(tmp_path, "mobilenet_like"))
    assert shown.code == 3
    assert "same inputs" in " ".join(shown.errors.split())
    assert shown.output == ""


def test_mistakes_are_said_before_the_work(tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    there = tmp_path / "nodes.json"
    there.write_text("mine")
    for words, code in (
        (("--preprocess", "std=255"), 2),
        (("--data", "nowhere.npz"), 3),
        (("--model-explorer", str(there)), 2),
        (("--model-explorer", str(model)), 2),
    ):
        shown = hasten("diff", model, "@threads=2", *words)
        assert (shown.code, shown.output) == (code, "")
    assert there.read_text() == "mine"


def test_a_model_that_does_not_run_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tflite"
    bad.write_bytes(example_models.custom_operator())
    shown = hasten("diff", model_file(tmp_path, "no_signature"), bad)
    assert shown.code == 3
    assert "bad.tflite" in shown.errors


@pytest.mark.slow
def test_odd_models_end_in_a_sentence(tmp_path: Path) -> None:
    """State, loops, branches, old files, plain types: compared as far as they can be."""
    names = ("accumulator", "counting_loop", "branch", "two_signatures", "no_signature", "old_schema", "dynamic_batch")
    for name in names:
        model = model_file(tmp_path, name)
        done = hasten("diff", model, "@kernel=builtin", "--json")
        assert done.code == 0, (name, done.errors, done.output)
        assert done.json()["first"] is None, name


@pytest.mark.slow
def test_a_signature_of_its_own_graph(tmp_path: Path) -> None:
    model = model_file(tmp_path, "two_signatures")
    done = hasten("diff", model, "@kernel=builtin", "--signature", "multiply", "--json")
    found = done.json()
    assert (done.code, found["first"]) == (0, None), done.errors
    assert {output["name"] for output in found["outputs"]} == {"product", "sum"}
    assert [node["op"] for node in found["nodes"]] == ["MUL", "ADD"]

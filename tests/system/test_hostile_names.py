"""Names that would steer a terminal, break a line or be a formula: in models, files, bundles, data and sessions."""

from __future__ import annotations

import csv
import json
import re
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import QUICK, ROOT, Finished, hasten
from tests import example_models

from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.demo import DATA, MODEL
from hasten.model.edit.file import bytes_from_object, object_from_bytes

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "=\x1b]0;title\x07\x1b[31mred\nhasten: all is well\r\n  | hasten: all is well"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose own name, and those of its tensors, signature and description, are hostile."""
    content = object_from_bytes(example_models.mobilenet_like())
    content.description = EVIL.encode()
    for graph in content.subgraphs:
        graph.name = EVIL.encode()
        for number, tensor in enumerate(graph.tensors):
            tensor.name = f"{EVIL}{number}".encode()
    for signature in content.signatureDefs or []:
        signature.signatureKey = EVIL.encode()
        for number, entry in enumerate([*signature.inputs, *signature.outputs]):
            entry.name = f"{EVIL}{number}".encode()
    path = tmp_path_factory.mktemp("models") / f"{EVIL}.tflite"
    path.write_bytes(bytes_from_object(content))
    return path


def check(shown: Finished) -> Finished:
    for text in (shown.output, shown.errors):
        assert not CONTROL.search(text), repr(text)
        assert "\nhasten: all is well" not in text
        assert "\n  | hasten: all is well" not in text, "it would look like a line of a log"
    return shown


COMMANDS = [
    ("bench", "MODEL", *QUICK),
    ("bench", "MODEL", *QUICK, "--json"),
    ("bench", "MODEL", "--shape", "nosuch=1x4"),
    ("bench", "MODEL", "--signature", "nosuch"),
    ("bench", "MODEL", "--delegate", EVIL),
    ("bench", "MODEL", "--option", f"cpu.flags={EVIL}"),
    ("bench", EVIL),
    (EVIL,),
    ("profile", "MODEL", *QUICK, "--verbose"),
    ("compare", "MODEL", "demo", *QUICK),
    ("copies", "MODEL", *QUICK),
    ("check", "MODEL", *QUICK, "--limit", "latency=1 s"),
    ("operators", "MODEL", "--cut", "0:1", "-o", "part.tflite"),
    ("operators", "MODEL", "--new-kernel", "kernel", "--for", "0"),
    ("diff", "MODEL", "@threads=2"),
    ("check", "MODEL", "--limits", EVIL),
    ("run", "MODEL", "--input", EVIL),
    ("run", "MODEL", "--input", "wrong.npy"),
    ("quantize", "MODEL", "-o", "out", "--data", EVIL),
    ("report", EVIL, "-o", "x.html"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: repr(" ".join(command))[1:40])
def test_no_command_lets_them_through(model: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((3, 3)))
    shown = check(hasten(*(str(model) if word == "MODEL" else word for word in command), cwd=tmp_path))
    assert shown.code != 70


def test_files_are_free_of_them(model: Path, tmp_path: Path) -> None:
    shown = hasten("profile", model, *QUICK, "--csv", "x.csv", cwd=tmp_path)
    assert shown.code == 0, shown.errors
    content = (tmp_path / "x.csv").read_text()
    assert not CONTROL.search(content)
    rows = list(csv.DictReader(content.splitlines()))
    assert rows[0]["location"].startswith("'=")
    assert len(rows) == len(content.splitlines()) - 1, "each operator is one line"
    assert hasten("check", model, *QUICK, "--limit", "latency=1 s", "--markdown", "x.md", cwd=tmp_path).code == 0
    assert not CONTROL.search((tmp_path / "x.md").read_text())


def test_labels_of_a_bundle(tmp_path: Path) -> None:
    bundle = write_bundle(MODEL, Bundle(tmp_path / "tuned", labels=tuple(f"{EVIL}{i}" for i in range(10))))
    with np.load(DATA) as arrays:
        np.save(tmp_path / "x.npy", arrays["x"][3])
    shown = check(hasten("run", bundle.folder, "--input", tmp_path / "x.npy"))
    assert shown.code == 0, shown.errors
    assert "red" in shown.output


def test_names_of_classes(tmp_path: Path) -> None:
    for name in (EVIL, "other"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / f"{EVIL}.png").write_bytes(b"no picture")
    shown = check(hasten("check", "demo", "--data", tmp_path / "data", "--limit", "accuracy=98 %", *QUICK))
    assert shown.code == 3, shown.errors


def test_a_session_and_a_trace(tmp_path: Path) -> None:
    session = tmp_path / "s.jsonl"
    shutil.copy(ROOT / "tests" / "data" / "sessions" / "bench.jsonl", session)
    with session.open("a") as stream:
        for kind in ("failure", "note", EVIL):
            stream.write(json.dumps({"kind": kind, "label": EVIL, "at": EVIL, "data": {"message": EVIL}}) + "\n")
    shown = check(hasten("report", session, "--format", "md"))
    assert shown.code == 0, shown.errors
    trace = {"traceEvents": [{"ph": "X", "name": EVIL, "cat": EVIL, "ts": 1, "dur": 5, "pid": 1, "tid": 1}]}
    trace["traceEvents"].append({"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": EVIL}})
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    check(hasten("app", "--from", tmp_path / "trace.json"))

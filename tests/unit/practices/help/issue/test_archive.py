"""Issue bundles: everything that a maintainer asks for, and of a private model nothing but its structure."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten import api
from hasten.core.errors import UsageError
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.model.reader import read_constant, read_graph
from hasten.practices.help.examination import model_candidate
from hasten.practices.help.facts import ModelFound
from hasten.practices.help.issue.archive import issue_files, operators_csv
from hasten.practices.help.issue.scrub import Scrubber
from hasten.targets.local import LocalTarget
from tests import example_models
from tests.model_builder import ModelBuilder
from tests.unit.practices.help import planted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hasten.practices.help.facts import IssueBundle

USER, HOST = "mallory", "crypt-17"
SECRET = "acme_super_secret"
FILES = {"issue.md", "commands.txt", "reproduce.py", "doctor.json", "environment.json", "operators.csv"}
WINDOW = 16


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Somebody's home folder, on a machine with a name."""
    folder = tmp_path_factory.mktemp("people") / USER
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        for name in ("USER", "LOGNAME"):
            patch.setenv(name, USER)
        patch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
        patch.setattr("platform.node", lambda: HOST)
        yield folder


def secret_model(data: bytes) -> bytes:
    """The model with names that nobody else may read."""

    def rename(model: Any) -> None:
        model.description = f"{SECRET} description"
        for number, tensor in enumerate(model.subgraphs[0].tensors):
            tensor.name = f"{SECRET}/layer_{number}"
        for signature in model.signatureDefs:
            signature.signatureKey = f"{SECRET}_call"
            for entry in (*signature.inputs, *signature.outputs):
                entry.name = f"{SECRET}_{entry.tensorIndex}"

    return planted.changed(data, rename)


def made(model: Path, out: Path, **options: Any) -> tuple[ModelFound, dict[str, bytes]]:
    found = api.doctor_model(model, options=api.DoctorOptions(**options), out=out, effort=api.Effort(0.4))
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        return found, {name: archive.read(name) for name in archive.namelist()}


def packed(model: Path, *, private: bool = False) -> dict[str, bytes]:
    """The files of a bundle about a model that was not run."""
    candidate, graph = model_candidate(model, Plan())
    return issue_files(ModelFound(candidate.model, Plan(), (), ()), graph, None, private=private).files


def test_a_bundle_holds_what_maintainers_ask_for(home: Path) -> None:
    model, out = planted.written(home, example_models.mobilenet_like(), "net.tflite"), home / "issue.zip"
    listed: list[IssueBundle] = []

    def announce(bundle: IssueBundle) -> None:
        assert not out.exists()
        listed.append(bundle)

    found = api.doctor_model(model, out=out, announce=announce, effort=api.Effort(0.4))
    with zipfile.ZipFile(out) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert found.bundle == listed[0]
    assert [entry.name for entry in listed[0].entries] == list(files)
    assert files.keys() == FILES | {"model.tflite"}
    assert files["model.tflite"] == model.read_bytes()
    text = files["issue.md"].decode()
    assert found.machine is not None
    for needed in (found.machine.engine, found.machine.python, "CONV", "hasten bench model.tflite"):
        assert needed in text
    told = json.loads(files["doctor.json"])
    assert told.keys() >= {"checks", "bundle", "delegates", "latency"}
    assert all(check.keys() >= {"name", "status", "facts", "what_to_do"} for check in told["checks"])
    rows = files["operators.csv"].decode().splitlines()
    assert len(rows) == 1 + len(read_graph(model).main.nodes)
    assert rows[0].endswith("xnnpack,gpu,nnapi,hexagon")
    for name, content in files.items():
        for word in (str(home), USER, HOST):
            assert word.encode() not in content, (name, word)
    before = out.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        api.doctor_model(model, out=out)
    assert out.read_bytes() == before


@pytest.mark.slow
def test_the_script_of_a_bundle_runs_without_hasten(home: Path) -> None:
    model = planted.written(home, example_models.mobilenet_like(), "script.tflite")
    candidate, graph = model_candidate(model, Plan())
    found = ModelFound(candidate.model, Plan(), (), (), machine=LocalTarget().machine())
    for name, content in issue_files(found, graph, None, private=False).files.items():
        (home / name).write_bytes(content)
    command = [sys.executable, "-I", "reproduce.py"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "median latency" in done.stdout


def test_a_model_whose_names_hold_the_user_gets_other_names(home: Path) -> None:
    def rename(model: Any) -> None:
        model.subgraphs[0].tensors[0].name = f"/home/{USER}/train/x"

    model = planted.written(home, planted.changed(example_models.mobilenet_like(), rename), "users.tflite")
    files = packed(model)
    assert USER.encode() not in files["model.tflite"]
    again = read_graph(planted.written(home, files["model.tflite"], "again.tflite"))
    assert [node.op for node in again.main.nodes] == [node.op for node in read_graph(model).main.nodes]


@pytest.mark.parametrize("dtype", ["float32", pytest.param("int8", marks=pytest.mark.slow)])
def test_a_private_bundle_searched_byte_by_byte(dtype: str, home: Path) -> None:
    data = secret_model(example_models.mobilenet_like(8, 2, dtype=dtype))
    model = planted.written(home, data, f"{SECRET}_{dtype}.tflite")
    graph, out = read_graph(model), home / f"{dtype}.zip"
    _, files = made(model, out, private=True)
    contents = {**files, "the archive itself": out.read_bytes()}
    for name, content in contents.items():
        for word in (SECRET, str(home), USER, HOST, graph.sha256):
            assert word.encode() not in content, (name, word)
    windows = {raw[at : at + WINDOW] for raw in weights_of(model) for at in range(0, len(raw) - WINDOW, 4)}
    assert len(windows) > 1000
    for name, content in contents.items():
        held = {content[at : at + WINDOW] for at in range(len(content) - WINDOW)}
        assert not windows & held, name
    private = planted.written(home, files["model.tflite"], "private.tflite")
    assert [node.op for node in read_graph(private).main.nodes] == [node.op for node in graph.main.nodes]
    assert api.bench(private, effort=api.Effort(0.1)).samples.count > 0


def weights_of(model: Path) -> list[bytes]:
    """The bytes of every weight that is not the same number throughout."""
    graph = read_graph(model)
    arrays = [read_constant(graph, tensor) for tensor in graph.main.tensors if tensor.is_weight]
    return [values.tobytes() for values in arrays if values is not None and np.ptp(values.astype(np.float64)) > 0]


def test_a_model_that_crashes_gets_a_bundle_with_the_failure(home: Path) -> None:
    model = planted.written(home, example_models.aborting())
    found, files = made(model, home / "crash.zip")
    assert found.is_broken
    assert found.failure is not None
    assert found.failure.message.encode() in files["issue.md"] or b"crashed" in files["issue.md"]
    assert "log.txt" in files or not found.failure.log


def test_names_of_custom_operators_stay_private(home: Path) -> None:
    model = planted.written(home, example_models.custom_operator("AcmeOp"), "custom.tflite")
    for name, content in packed(model, private=True).items():
        assert b"AcmeOp" not in content, name


@pytest.mark.slow
def test_a_crash_is_packed_as_its_smallest_part(home: Path) -> None:
    model = planted.written(home, planted.crashing_chain(), "big.tflite")
    found, files = made(model, home / "smallest.zip", minimize="crash", private=True)
    assert found.minimized is not None
    assert found.minimized.private_shows
    assert "smallest.tflite" in files
    assert "model.tflite" not in files
    small = read_graph(planted.written(home, files["smallest.tflite"], "s.tflite"))
    assert len(small.main.nodes) <= 3
    again = api.doctor_model(small.path, effort=api.Effort(0.5))
    assert again.failure is not None
    assert (again.failure.stage, again.failure.kind) == (found.minimized.part.facts["stage"], "crash")


def test_the_same_findings_give_the_same_bytes(home: Path) -> None:
    model = planted.written(home, example_models.one_operator(), "one.tflite")
    assert packed(model, private=True) == packed(model, private=True)


def test_options_that_need_a_bundle_say_so(home: Path) -> None:
    model = planted.written(home, example_models.one_operator())
    for options in (api.DoctorOptions(minimize="crash"), api.DoctorOptions(private=True)):
        with pytest.raises(UsageError, match="issue bundle"):
            api.doctor_model(model, options=options)
    with pytest.raises(UsageError, match="--against"):
        api.doctor_model(model, options=api.DoctorOptions(against=("", Plan())), out=home / "x.zip")


def test_no_cell_of_a_table_is_a_formula_or_steers_a_terminal(tmp_path: Path) -> None:
    builder = ModelBuilder()
    value = builder.custom('=HYPERLINK("evil")\x1b[2J', [builder.input("x", (1, 4))], (1, 4))
    builder.output(value, "y")
    path = planted.written(tmp_path, builder.build())
    graph = read_graph(path)
    found = ModelFound(Model(str(path), graph.size_bytes, graph.sha256), Plan(), (), ())
    rows = list(csv.DictReader(operators_csv(found, graph, Scrubber(())).splitlines()))
    assert [row["operator"] for row in rows] == ['\'=HYPERLINK("evil") [2J']

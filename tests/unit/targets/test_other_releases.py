"""Environments of other releases: the program runs in them for real, and trouble is a failure that says what to do.

In place of a release that would have to be downloaded, a folder stands for an environment whose Python is this one.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests import example_models
from tests.processes import has_ended

from hasten.core.errors import UsageError
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.practices.help.releases.run import snr_of
from hasten.targets.other_releases import ReleaseAnswer, ReleaseEnvironment

if TYPE_CHECKING:
    from pathlib import Path


def environment(folder: Path, program: str = 'exec "{python}" "$@"', seconds: float = 60.0) -> ReleaseEnvironment:
    """An environment that is ready; its Python is a shell script."""
    made = ReleaseEnvironment("2.3.0", folder, seconds)
    made.python.parent.mkdir(parents=True)
    made.python.write_text("#!/bin/sh\n" + program.format(python=sys.executable) + "\n")
    made.python.chmod(0o755)
    (made.folder / "hasten-ready").write_text("2.3.0")
    return made


def model(folder: Path, data: bytes) -> Path:
    path = folder / "m.tflite"
    path.write_bytes(data)
    return path


def failure_of(made: ReleaseEnvironment, path: Path) -> Failure:
    found = made.run(path, threads=1, resolver="AUTO", seconds=0.0)
    assert isinstance(found, Failure)
    return found


@pytest.mark.parametrize("dtype", ["float32", pytest.param("int8", marks=pytest.mark.slow)])
def test_a_model_is_run_and_timed_by_the_classic_interpreter(dtype: str, tmp_path: Path) -> None:
    made = environment(tmp_path / "releases")
    assert made.prepare() is None
    path = model(tmp_path, example_models.mobilenet_like(dtype=dtype))
    answers = [made.run(path, threads=1, resolver=name, seconds=0.05) for name in ("AUTO", "BUILTIN_REF")]
    first, second = answers
    assert isinstance(first, ReleaseAnswer)
    assert isinstance(second, ReleaseAnswer)
    assert min(first.nanoseconds) > 0
    assert [(output[0], output[2] is None) for output in first.outputs] == [(dtype, dtype == "float32")]
    assert snr_of(second, first) > 20
    again = made.run(path, threads=1, resolver="AUTO", seconds=0.0)
    assert isinstance(again, ReleaseAnswer)
    assert again.outputs == first.outputs


def test_a_model_that_kills_the_program_is_a_failure(tmp_path: Path) -> None:
    made = environment(tmp_path / "releases")
    assert failure_of(made, model(tmp_path, example_models.aborting())).kind == "crash"


def test_a_file_that_is_no_model_is_a_failure(tmp_path: Path) -> None:
    made = environment(tmp_path / "releases")
    failure = failure_of(made, model(tmp_path, b"no model"))
    assert failure.kind == "crash"
    assert failure.log


def test_a_program_that_hangs_is_stopped(tmp_path: Path) -> None:
    made = environment(tmp_path / "releases", "exec sleep 1000", seconds=0.2)
    assert failure_of(made, model(tmp_path, example_models.one_operator())).kind == "hang"


# A program that gives no answer, and its parent.
WAITING = """
import os, runpy, signal, sys
module = runpy.run_path(sys.argv[2])
module["main"].__globals__["_answer"] = lambda request: (os.mkfifo(request["model"]), signal.pause())
module["main"]()
"""
PARENT = """
import sys
from pathlib import Path
from hasten.targets.other_releases import ReleaseEnvironment
folder = Path(sys.argv[1])
ReleaseEnvironment("2.3.0", folder / "releases", 1000).run(folder / "m", threads=1, resolver="AUTO", seconds=0)
"""


def test_a_program_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    environment(tmp_path / "releases", f'echo $$ > "{tmp_path}/pid"; exec "{{python}}" "{tmp_path}/waiting.py" "$@"')
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)]) as parent:
        while not (tmp_path / "m").exists():
            assert parent.poll() is None
        parent.kill()
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_a_program_without_an_answer_is_a_failure(tmp_path: Path) -> None:
    made = environment(tmp_path / "releases", "exit 0")
    assert failure_of(made, model(tmp_path, example_models.one_operator())).kind == "bug"


def test_an_environment_that_was_not_finished_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = environment(tmp_path / "releases")
    (made.folder / "hasten-ready").unlink()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    failure = made.prepare()
    assert failure is not None
    assert failure.code == NOT_INSTALLED
    assert "2.3.0" in failure.message
    assert not made.is_ready


def test_releases_that_could_be_options_are_refused() -> None:
    for name in ("--index-url=x", "2.3.0; rm", "", "latest", "2"):
        with pytest.raises(UsageError, match="no release"):
            ReleaseEnvironment(name)


def test_outputs_of_another_number_are_wrong() -> None:
    empty, one = ReleaseAnswer(0, (1,), ()), ReleaseAnswer(0, (1,), (("int8", "AA==", None),))
    assert snr_of(empty, one) == -np.inf
    assert snr_of(one, one) == np.inf

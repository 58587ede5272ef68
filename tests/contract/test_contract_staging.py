"""Callers hand over paths of the host; what a device gets is a staged file, a path of its own, or nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.failure import RunnerFailed
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan, Workload
from hasten.measure.bench import bench
from hasten.measure.rounds import Candidate
from hasten.runner.background_load import KINDS
from hasten.runner.protocol import Message
from hasten.targets.base import Limits
from hasten.targets.link import ProcessLink
from hasten.targets.sent_samples import SentSamples
from hasten.targets.staged import StagedTarget, runner_archive
from tests import example_models

from .folder_transport import FolderTransport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.targets.base import Target
    from hasten.targets.link import Program

    WriteModel = Callable[[bytes], Path]


class CountingTransport(FolderTransport):
    """Counts the copies; a device without room refuses them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, sys.executable, {})
        self.copied: list[str] = []
        self.has_room = True

    def put(self, content: bytes | Path, name: str, digest: str) -> None:
        if not self.has_room:
            raise OSError("no space left on device")
        self.copied.append(name.rpartition("/")[2])
        super().put(content, name, digest)


@pytest.fixture
def transport(tmp_path: Path) -> CountingTransport:
    return CountingTransport(tmp_path / "device")


@pytest.fixture
def staged(transport: CountingTransport) -> StagedTarget:
    return StagedTarget("staged", transport, Limits(answer_seconds=60.0))


def failure_of(target: Target, path: Path, plan: Plan) -> Any:
    with target.start(plan) as runner, pytest.raises(RunnerFailed) as caught:
        runner.load(path, Workload())
    return caught.value.failure


def test_each_content_is_copied_once(
    staged: StagedTarget, transport: CountingTransport, write_model: WriteModel
) -> None:
    path = write_model(example_models.one_operator())
    for target in (staged, StagedTarget("another session", transport)):
        for _ in range(2):
            with target.start(Plan()) as runner:
                runner.load(path, Workload())
    assert transport.copied == ["runner.zip", "model.tflite"]
    write_model(example_models.mobilenet_like(8))
    with staged.start(Plan()) as runner:
        assert runner.load(path, Workload()).inputs[0].shape == (1, 32, 32, 3)
    assert transport.copied == ["runner.zip", "model.tflite", "model.tflite"]


def test_a_staged_file_outlives_the_hosts(staged: StagedTarget, write_model: WriteModel, planted: Path) -> None:
    path = write_model(example_models.one_operator())
    place = staged.stage(path)
    path.unlink()
    with staged.start(Plan()) as runner:
        runner._link.ask(load_request(place), stage="load", seconds=60)
    assert not place.startswith("/")
    assert planted.name in staged.stage(planted)


def load_request(path: str) -> Any:
    from dataclasses import asdict

    return Message({"request": "load", "path": path, "plan": asdict(Plan()), "workload": asdict(Workload())})


def test_a_path_of_the_host_is_refused(staged: StagedTarget, write_model: WriteModel) -> None:
    path = write_model(example_models.one_operator())
    with staged.start(Plan()) as runner, pytest.raises(RunnerFailed) as caught:
        runner._link.ask(load_request(str(path)), stage="load", seconds=60)
    assert caught.value.failure.kind == "usage"


def test_a_cache_folder_is_one_of_the_device(staged: StagedTarget, tmp_path: Path, write_model: WriteModel) -> None:
    with staged.start(Plan(cache="cache/model")) as runner:
        runner.load(write_model(example_models.mobilenet_like(8)), Workload())
    assert (tmp_path / "device/cache/model").is_dir()


def test_samples_are_sent_once(
    staged: StagedTarget, tmp_path: Path, write_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second model's evaluation reads what the first one's brought; what was lost is sent again."""
    monkeypatch.setattr(SentSamples, "pays", True)
    source = np.random.default_rng(0)
    samples = [[source.random((1, 32, 32, 3), np.float32).tobytes()] for _ in range(12)]
    sent: list[int] = []
    ask = ProcessLink.ask

    def counted(self: ProcessLink, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        if request.body["request"] == "evaluate_many":
            sent.append(len(request.frames))
        return ask(self, request, stage=stage, seconds=seconds, most_bytes=most_bytes)

    monkeypatch.setattr(ProcessLink, "ask", counted)
    path = write_model(example_models.mobilenet_like(8))
    answers = []
    for part in (samples[:8], samples, samples):
        with staged.start(Plan()) as runner:
            runner.load(path, Workload())
            answers.append(runner.evaluate_many(part))
    assert sent == [8, 4, 0]
    assert answers[1] == answers[2]
    assert answers[0] == answers[2][:8]
    next((tmp_path / "device" / "samples").iterdir()).unlink()
    with staged.start(Plan()) as runner:
        runner.load(path, Workload())
        assert runner.evaluate_many(samples) == answers[2]
    assert sent == [8, 4, 0, 0, 1]


def test_a_copy_that_fails_is_a_failure_of_the_target(
    staged: StagedTarget, transport: CountingTransport, write_model: WriteModel
) -> None:
    path = write_model(example_models.one_operator())
    staged.machine()
    transport.has_room = False
    failure = failure_of(staged, path, Plan())
    assert (failure.stage, failure.kind) == ("load", "target")
    assert "model.tflite cannot be copied to staged: no space left" in failure.message
    with pytest.raises(RunnerFailed, match="runner cannot be copied"):
        StagedTarget("empty", FullTransport(path.parent / "other")).machine()


class FullTransport(CountingTransport):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.has_room = False

    def program(self, arguments: tuple[str, ...], name: str) -> Program:
        raise AssertionError("nothing can be started there")


def test_the_archive_is_unpacked_once_and_its_modules_compiled_once(staged: StagedTarget, tmp_path: Path) -> None:
    compiled = []
    for _ in range(2):
        with staged.start(Plan()) as first, staged.start(Plan()) as second:
            assert first.hello().engine == second.hello().engine
        (folder,) = (tmp_path / "device" / "files").glob("*/runner.zip*.d")
        compiled.append({path: path.stat().st_mtime_ns for path in folder.rglob("*.pyc")})
    assert compiled[0]
    assert compiled[0] == compiled[1]
    assert len(list(folder.parent.iterdir())) == 2, "the archive and its folder, nothing half made"


def test_the_archive_needs_nothing_of_the_host(tmp_path: Path) -> None:
    """Without site-packages there is neither an installed hasten nor NumPy."""
    archive = tmp_path / "runner.zip"
    archive.write_bytes(runner_archive())
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import hasten.runner.server, hasten.runner.__main__\n"
        "import hasten.runner.background_load\n"
        "files = [m.__file__ for n, m in sys.modules.items() if n.startswith('hasten.')]\n"
        "assert all(f.startswith(sys.path[0]) for f in files), files; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, cwd=tmp_path, timeout=60)


@pytest.mark.parametrize("kind", KINDS)
def test_cores_can_be_kept_busy_there(target: Target, kind: str) -> None:
    assert target.capabilities.background_load
    with target.start_load(kind, 1) as load:
        load.check()


def test_a_model_is_timed_there(target: Target, write_model: WriteModel) -> None:
    path = write_model(example_models.mobilenet_like(8))
    candidate = Candidate("model", path, Model(str(path), path.stat().st_size, ""))
    result = bench(target, candidate, 0.3)
    assert isinstance(result, Measurement)
    assert result.plan == Plan()
    target.close()

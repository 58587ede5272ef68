"""The parent's side of a runner: its requests as typed calls."""

from __future__ import annotations

import functools
import time
from array import array
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hasten.core.block import Block, Conditions, ProfiledRun, RawEvent
from hasten.core.codec import record, typed_from_data
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.machine import Machine
from hasten.core.placement import Placement
from hasten.core.remark import remark_from_data
from hasten.runner.memory import memory_bytes
from hasten.runner.protocol import UNLOAD, VERSION, Message
from hasten.targets.link import understood
from hasten.targets.sent_samples import FEWEST_BYTES, byte_count, sample_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.plan import Plan, Workload
    from hasten.core.remark import Remark
    from hasten.targets.sent_samples import SentSamples


# What outputs whose shapes depend on values may take beyond what the loaded model told.
_ROOM_BYTES: Final = 1 << 30
_GROWTH: Final = 16
_WITHOUT_KNOWN_MEMORY: Final = 1 << 32
# Feeding, running and reading.
_STEPS: Final = 3


class Link(Protocol):
    """Anything that carries messages to a runner and back."""

    def ask(self, request: Message, *, stage: str, seconds: float, most_bytes: int = 0) -> Message:
        """Send a request and wait for its answer, with this many bytes of tensors at most."""

    def close(self) -> None:
        """End the runner."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output of a loaded model, with its shape in effect."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    zero_copy: bool


@record
class LoadReport:
    """What the runner says after loading: times, and what was really placed where."""

    init_ms: float
    load_times: dict[str, float]
    first_run_ms: float
    api: str
    extra_threads: int
    fully_accelerated: bool | None
    without_cpu: bool
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    placement: Placement | None = None
    """None where it cannot be seen: built-in kernels only, or the classic interface."""


@record
class _BlockAnswer:
    """What a runner tells about a block of runs, next to their times."""

    conditions: Conditions
    peak_memory_mb: float | None


class RunnerClient:
    """A live runner with at most one model. Use it in a `with`, so that it ends whatever happens.

    `stage` brings a file of the host to the runner's device and returns its path there; `sent` knows which samples the
    device has kept, where it can keep some.
    """

    def __init__(
        self,
        link: Link,
        plan: Plan,
        answer_seconds: float,
        stage: Callable[[Path], str] = str,
        sent: SentSamples | None = None,
    ) -> None:
        self.plan = plan
        self.peak_memory_mb: float | None = None
        self._output_bytes = 0
        self._link, self._answer_seconds, self._stage, self._sent = link, answer_seconds, stage, sent

    def __enter__(self) -> RunnerClient:
        return self

    def hurry(self, seconds: float) -> None:
        """Wait for no answer longer than this from now on, even if a user's limit would allow it."""
        self._answer_seconds = min(self._answer_seconds, seconds)

    def __exit__(self, *_: object) -> None:
        self.close()

    def hello(self) -> Machine:
        """The machine as this runner sees it."""
        body = self._ask("start", "hello").body
        if body.get("protocol") != VERSION:
            message = f"The runner uses version {body.get('protocol')} of the protocol, not {VERSION}."
            raise RunnerFailed(Failure("start", "target", message, "Install the same hasten on both sides."))
        with understood("start"):
            return typed_from_data(Machine, body["machine"])

    def load(self, path: Path, workload: Workload, *, profiling: bool = False) -> LoadReport:
        """Load a model and run it once."""
        body = self._ask("load", "load", **self._on_device(path, workload), profiling=profiling).body
        with understood("load"):
            report = typed_from_data(LoadReport, {**body, "init_ms": sum(body["load_times"].values())})
        self._output_bytes = sum(tensor.bytes for tensor in report.outputs)
        return report

    def unload(self) -> None:
        """Let the model go, so that the runner can load another one, for whatever plan of its kind."""
        self._ask("load", UNLOAD)

    def block(self, seconds: float, most: int, *, runner: int = 0, lead: int = 0) -> Block:
        """Time runs until the seconds are over or `most` runs are done, after `lead` runs that do not count."""
        return self._timed(Block(runner, time.monotonic(), array("q")), seconds, most, lead, goes_on=False)

    def more_of(self, block: Block, seconds: float, most: int, *, lead: int = 0) -> Block:
        """The last block with more runs, after other runners had their turns; its conditions are those of all of it."""
        return self._timed(block, seconds, most, lead, goes_on=True)

    def _timed(self, block: Block, seconds: float, most: int, lead: int, *, goes_on: bool) -> Block:
        fields = {"seconds": seconds, "most": most, "lead": lead, "goes_on": goes_on}
        reply = self._ask("run", "block", beyond=seconds, most_bytes=_times_bytes(most), **fields)
        with understood("run"):
            told = typed_from_data(_BlockAnswer, reply.body)
            nanoseconds, *_ = _forwards(reply.frames[:1])
        self.peak_memory_mb, conditions = told.peak_memory_mb, told.conditions
        backwards = len(reply.frames[0]) // nanoseconds.itemsize - len(nanoseconds)
        backwards += block.conditions.clock_backwards or 0
        if backwards:
            conditions = replace(conditions, clock_backwards=backwards)
        return replace(block, nanoseconds=block.nanoseconds + nanoseconds, conditions=conditions)

    def profile(self, runs: int) -> list[ProfiledRun]:
        """Profile this number of runs of a model that was loaded for it."""
        body = self._ask("profile", "profile", runs=runs).body
        with understood("profile"):
            return [
                ProfiledRun(run["total_us"], tuple(RawEvent(**event) for event in run["events"]))
                for run in body["runs"]
            ]

    def layers(self, path: Path, workload: Workload, seconds: float) -> list[dict[str, Any]]:
        """The layers of a model on the NPU, as OpenVINO counts them in about this time."""
        where = self._on_device(path, workload)
        body = self._ask("profile", "layers", beyond=seconds, seconds=seconds, **where).body
        with understood("profile"):
            return list(body["layers"])

    def evaluate(self, inputs: Sequence[bytes | memoryview]) -> tuple[bytes | memoryview, ...]:
        """Run once on these inputs, and return the outputs' bytes."""
        request = Message({"request": "evaluate"}, tuple(inputs))
        return self._evaluated(request, 1).frames

    def evaluate_many(
        self, samples: Sequence[Sequence[bytes | memoryview]], *, fresh: bool = False
    ) -> list[tuple[bytes | memoryview, ...]]:
        """Run once on each sample's inputs, and return the outputs' bytes of each; `fresh` loads the model for each."""
        if self._sent is not None and self._sent.pays and byte_count(samples) >= FEWEST_BYTES:
            answers = self._evaluate_kept(self._sent, samples, fresh)
        else:
            frames = tuple(frame for inputs in samples for frame in inputs)
            request = Message({"request": "evaluate_many", "fresh": fresh}, frames)
            answers = self._evaluated(request, len(samples)).frames
        width = len(answers) // max(1, len(samples))
        return [answers[width * i : width * (i + 1)] for i in range(len(samples))]

    def _evaluate_kept(
        self, sent: SentSamples, samples: Sequence[Sequence[bytes | memoryview]], fresh: bool
    ) -> tuple[bytes | memoryview, ...]:
        """Send only what the device does not have; if it has lost something, all of it."""
        keys = [sample_key(sample) for sample in samples]
        while True:
            there = sent.there(keys)
            places = [place for place, key in enumerate(keys) if key not in there]
            given = [samples[place] for place in places]
            body = {"request": "evaluate_many", "fresh": fresh, "keys": keys, "sent": places}
            request = Message(body, tuple(frame for sample in given for frame in sample))
            begin = time.monotonic()
            reply = self._evaluated(request, len(samples))
            with understood("evaluate"):
                if not reply.body["missing"]:
                    sent.learn(reply.body, byte_count(given), time.monotonic() - begin)
                    return reply.frames
                sent.forget(reply.body["missing"])

    def _evaluated(self, request: Message, samples: int) -> Message:
        """The answer with the outputs of this number of samples.

        Shapes may depend on values, so outputs may be larger than the loaded model told; but not without limit.
        """
        most_bytes = min(_most_answer_bytes(), _ROOM_BYTES + _GROWTH * self._output_bytes * samples)
        return self._link.ask(request, stage="evaluate", seconds=self._answer_seconds, most_bytes=most_bytes)

    def copies(self, path: Path, workload: Workload, family: str) -> tuple[list[str], dict[str, Remark]]:
        """Make a family of ways to feed and read the loaded model ready: which can be gone, and why others cannot."""
        body = self._ask("load", "copies", **self._on_device(path, workload), family=family).body
        with understood("load"):
            return body["available"], {key: remark_from_data(reason) for key, reason in body["reasons"].items()}

    def copies_block(self, way: str, seconds: float, most: int) -> tuple[list[array[int]], Conditions]:
        """Time cycles of one way: nanoseconds of each one's feeding, running and reading."""
        fields = {"way": way, "seconds": seconds, "most": most}
        reply = self._ask("run", "copies_block", beyond=seconds, most_bytes=_STEPS * _times_bytes(most), **fields)
        with understood("run"):
            return _forwards(reply.frames), typed_from_data(Conditions, reply.body["conditions"])

    def close(self) -> None:
        """End the runner."""
        self._link.close()

    def _on_device(self, path: Path, workload: Workload) -> dict[str, Any]:
        """The model, how to run it and what of it, with every file of the host where it is on the device."""
        plan = self.plan
        library, colon, options = plan.delegate.partition(":")
        if Path(library).is_file():
            plan = replace(plan, delegate=self._stage(Path(library)) + colon + options)
        plan = replace(plan, kernels=tuple(map(self._staged_kernels, plan.kernels)))
        return {"path": self._stage(path), "plan": asdict(plan), "workload": asdict(workload)}

    def _staged_kernels(self, setting: str) -> str:
        """A kernel library, and the Python file behind it if there is one, where they are on the device."""
        paths = [Path(path) for path in setting.split(":")]
        return ":".join(self._stage(path) if path.is_file() else str(path) for path in paths)

    def _ask(self, stage: str, request: str, *, beyond: float = 0.0, most_bytes: int = 0, **fields: Any) -> Message:
        message = Message({"request": request, **fields})
        return self._link.ask(message, stage=stage, seconds=self._answer_seconds + beyond, most_bytes=most_bytes)


@functools.cache
def _most_answer_bytes() -> int:
    """The most tensors that one answer may bring: they are in memory twice while they are read."""
    return memory_bytes() // 4 or _WITHOUT_KNOWN_MEMORY


def _times_bytes(runs: int) -> int:
    return array("q").itemsize * max(1, runs)


def _forwards(frames: Sequence[bytes | memoryview]) -> list[array[int]]:
    """The steps of each run in nanoseconds, without the runs during which the clock went backwards."""
    steps = [array("q", bytes(frame)) for frame in frames]
    if all(min(times, default=0) >= 0 for times in steps):
        return steps
    kept = [place for place, run in enumerate(zip(*steps, strict=True)) if min(run) >= 0]
    if not kept:
        raise RunnerFailed(Failure("run", "target", "The clock of the device went backwards during every run."))
    return [array("q", (times[place] for place in kept)) for times in steps]


def runner_arguments(plan: Plan, memory_mb: int) -> tuple[str, ...]:
    """What a runner must know before it has loaded anything."""
    return ("--accelerator", "cpu" if plan.delegate else plan.accelerator, "--memory-mb", str(memory_mb))

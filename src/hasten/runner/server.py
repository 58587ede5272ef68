"""Answers requests: hello, load, block, profile, evaluate (one sample or many), unload, close. One model at a time."""

from __future__ import annotations

import errno
import mmap
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import AcceleratorError, DataError, HastenError, ModelError, UsageError
from hasten.core.failure import MEMORY_LIMIT, UNSUPPORTED, Failure, failure_from_error
from hasten.core.plan import plan_from_mapping, workload_from_mapping
from hasten.engine import abi, library
from hasten.engine.accelerators import process_environment
from hasten.engine.classic import ClassicModel
from hasten.engine.compiled import CompiledModel
from hasten.engine.library import EngineError
from hasten.engine.loading import load_model
from hasten.engine.model_file import check_model_file
from hasten.engine.profiler import Profiler
from hasten.runner.core_speed import core_times_us
from hasten.runner.kept_samples import KeptSamples
from hasten.runner.machine import ConditionsMeter, MemoryMeter, describe_machine, keep_to_cores
from hasten.runner.protocol import UNLOAD, VERSION, Message
from hasten.runner.serving import failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.placement import Placement
    from hasten.core.plan import Plan
    from hasten.engine.classic import ClassicTensor
    from hasten.engine.tensors import Tensor
    from hasten.runner.copies import CopyWays


_OUT_OF_MEMORY: Final = (
    "out of memory",
    "The runner ran out of memory.",
    "Close other programs, raise --memory-limit, or use a smaller model.",
)


@dataclass(frozen=True, slots=True)
class _Block:
    """What a block began with, for as long as more of it may follow."""

    core_times_us: tuple[float, ...]
    meter: ConditionsMeter


class Server:
    """Holds the one model and answers what is asked of it."""

    def __init__(self, store: Path | None = None, samples: Path | None = None) -> None:
        self._store, self._kept = store, KeptSamples(samples) if samples else None
        self._model: CompiledModel | ClassicModel | None = None
        self._profiler: Profiler | None = None
        self._copy_ways: CopyWays | None = None
        self._memory = MemoryMeter()
        self._last_block: _Block | None = None
        self._handlers: dict[str, tuple[str, Callable[[Message], Message]]] = {
            "hello": ("start", self._hello),
            "load": ("load", self._load),
            "block": ("run", self._block),
            "profile": ("profile", self._profile),
            "layers": ("profile", self._layers),
            UNLOAD: ("load", self._unload),
            "evaluate": ("evaluate", self._evaluate),
            "evaluate_many": ("evaluate", self._evaluate_many),
            "copies": ("load", self._copies),
            "copies_block": ("run", self._copies_block),
        }

    def answer(self, request: Message) -> Message:
        """The answer to one request. Whatever goes wrong is an answer, too."""
        stage, handler = self._handlers.get(str(request.body.get("request")), ("start", self._unknown))
        try:
            reply = handler(request)
        except HastenError as error:
            return failed(failure_from_error(error, stage))
        except EngineError as error:
            if stage == "load" and _lacks_room_for(self._path(request)):
                return failed(Failure(stage, *_OUT_OF_MEMORY, code=MEMORY_LIMIT))
            code = UNSUPPORTED if error.status == abi.STATUS_UNSUPPORTED else ""
            return failed(Failure(stage, "engine", f"{error}.", code=code))
        except MemoryError:
            return failed(Failure(stage, *_OUT_OF_MEMORY, code=MEMORY_LIMIT))
        except Exception as error:  # noqa: BLE001 - the parent must get an answer whatever happened here
            return failed(Failure(stage, "bug", f"{type(error).__name__}: {error}", "Please report this."))
        return Message({"ok": True, **reply.body}, reply.frames)

    def _hello(self, _request: Message) -> Message:
        return Message({"protocol": VERSION, "machine": asdict(describe_machine())})

    def _load(self, request: Message) -> Message:
        if self._model is not None:
            raise UsageError("This runner has loaded a model already.", "Start another runner.")
        plan, workload = plan_from_mapping(request.body["plan"]), workload_from_mapping(request.body["workload"])
        process_environment(plan)  # says what is missing before the engine does, and better
        keep_to_cores(plan.cores)  # now, as the threads that the engine starts inherit it
        path, profiling = self._path(request), bool(request.body.get("profiling"))
        check_model_file(path)
        self._memory.start()
        loaded = load_model(path, plan, workload, profiling=profiling)
        placement = loaded.model.placement()
        _refuse_unused(plan, placement)
        self._model = loaded.model
        self._load_again = partial(type(loaded.model), path, plan, workload)
        if profiling and isinstance(self._model, CompiledModel):
            self._profiler = Profiler(library.load(), self._model)
        return Message(
            {
                "load_times": asdict(self._model.load_times),
                "first_run_ms": loaded.first_run_ms,
                "api": self._model.api,
                "extra_threads": loaded.extra_threads,
                "fully_accelerated": self._model.is_fully_accelerated(),
                "without_cpu": self._model.runs_without_cpu(),
                "placement": None if placement is None else asdict(placement),
                "inputs": [_describe(tensor) for tensor in self._model.inputs],
                "outputs": [_describe(tensor) for tensor in self._model.outputs],
            }
        )

    def _unload(self, _request: Message) -> Message:
        """Let the model go, so that an evaluation of the next one needs no other process. Timings have fresh ones."""
        self._loaded().close()
        self._model = None
        self._profiler = self._copy_ways = self._last_block = None
        return Message({})

    def _block(self, request: Message) -> Message:
        """Timed runs: a block, or more of the last one, with the conditions of all of it."""
        model = self._loaded()
        if self._last_block is None or not request.body.get("goes_on"):
            self._last_block = _Block(core_times_us(), ConditionsMeter())
        for _ in range(int(request.body.get("lead", 0))):
            model.run()
        self._last_block.meter.go_on()
        durations = model.time_runs(float(request.body["seconds"]), int(request.body["most"]))
        conditions = self._last_block.meter.finish()
        if cores := self._last_block.core_times_us:
            conditions = replace(conditions, quickest_core_us=min(cores), slowest_core_us=max(cores))
        return Message(
            {"conditions": asdict(conditions), "peak_memory_mb": self._memory.peak_mb()}, (durations.tobytes(),)
        )

    def _profile(self, request: Message) -> Message:
        if self._profiler is None:
            raise ModelError(
                "LiteRT 2.3 runs this model only through its classic interface, which has no profiler.",
                "Time the whole model with hasten bench.",
            )
        runs = []
        for _ in range(int(request.body["runs"])):
            begin = time.perf_counter_ns()
            events = self._profiler.profile_run()
            total_us = (time.perf_counter_ns() - begin) / 1e3
            runs.append({"total_us": total_us, "events": [asdict(event) for event in events]})
        return Message({"runs": runs})

    def _layers(self, request: Message) -> Message:
        """The layers of the NPU's back end, by its own counters. No model needs to be loaded."""
        from hasten.engine.openvino_layers import counted_layers  # brings NumPy along

        plan, workload = plan_from_mapping(request.body["plan"]), workload_from_mapping(request.body["workload"])
        process_environment(plan)
        layers = counted_layers(self._path(request), plan, workload, float(request.body["seconds"]))
        return Message({"layers": [asdict(layer) for layer in layers]})

    def _evaluate(self, request: Message) -> Message:
        model = self._loaded()
        if len(request.frames) != len(model.inputs):
            raise DataError(f"The model takes {len(model.inputs)} inputs, not {len(request.frames)}.")
        return Message({}, _predict(model, request.frames))

    def _evaluate_many(self, request: Message) -> Message:
        """Sample after sample. `fresh` loads the model anew for each: the only way to clear resource variables."""
        if "keys" in request.body and self._kept is not None:
            return self._evaluate_kept(request, self._kept)
        return Message({}, self._answers(request.frames, fresh=bool(request.body.get("fresh"))))

    def _evaluate_kept(self, request: Message, kept: KeptSamples) -> Message:
        """Samples by their keys: those that were sent are kept, the others are read. All of them, or none is run."""
        keys, sent, width = request.body["keys"], set(request.body["sent"]), len(self._loaded().inputs)
        given, clock = iter(request.frames), time.perf_counter
        begin = clock()
        samples = [tuple(islice(given, width)) if n in sent else kept.read(key) for n, key in enumerate(keys)]
        if missing := [key for key, sample in zip(keys, samples, strict=True) if sample is None]:
            return Message({"missing": missing})
        was_read = clock()
        answers = self._answers(
            tuple(frame for sample in samples for frame in sample or ()), fresh=bool(request.body.get("fresh"))
        )
        has_run = clock()
        stored = [keys[place] for place in request.body["sent"] if kept.keep(keys[place], samples[place] or ())]
        read_bytes = sum(len(frame) for n, sample in enumerate(samples) if n not in sent for frame in sample or ())
        told = {"read_s": was_read - begin, "read_bytes": read_bytes, "run_s": has_run - was_read}
        return Message({"missing": [], "kept": stored, "keep_s": clock() - has_run, **told}, answers)

    def _answers(self, frames: tuple[bytes | memoryview, ...], *, fresh: bool) -> tuple[bytes, ...]:
        model = self._loaded()
        width = len(model.inputs)
        if not width or len(frames) % width:
            raise DataError(f"The model takes {width} inputs per sample, and {len(frames)} is not a multiple of that.")
        answers: list[bytes] = []
        for start in range(0, len(frames), width):
            if fresh:
                model = self._load_again()
            answers.extend(_predict(model, frames[start : start + width]))
            if model is not self._model:
                model.close()
        return tuple(answers)

    def _copies(self, request: Message) -> Message:
        """Make a family of ways to feed and read the model ready to be timed; those that cannot be gone say why."""
        from hasten.runner.copies import CopyWays  # brings NumPy along

        if self._copy_ways is None:
            plan, workload = plan_from_mapping(request.body["plan"]), workload_from_mapping(request.body["workload"])
            self._copy_ways = CopyWays(self._loaded(), self._path(request), plan, workload)
        ways = self._copy_ways
        ways.open(str(request.body["family"]))
        reasons = {key: {"code": reason.code, "facts": dict(reason.facts)} for key, reason in ways.reasons.items()}
        return Message({"available": ways.available, "reasons": reasons})

    def _copies_block(self, request: Message) -> Message:
        if self._copy_ways is None:
            raise UsageError("This runner has prepared no way to feed and read the model.", "Request copies first.")
        body, meter = request.body, ConditionsMeter()
        steps = self._copy_ways.time(str(body["way"]), float(body["seconds"]), int(body["most"]))
        return Message({"conditions": asdict(meter.finish())}, tuple(durations.tobytes() for durations in steps))

    def _unknown(self, request: Message) -> Message:
        raise UsageError(
            f"A runner has no request {request.body.get('request')!r}.", "Use the same hasten on both sides."
        )

    def _path(self, request: Message) -> Path:
        """The model file. On a device with a store, a path of the host must not be found there by accident."""
        path = Path(request.body["path"])
        if self._store and not path.resolve().is_relative_to(self._store.resolve()):
            raise UsageError(f"This runner loads no model from outside of its folder: {path}.", "Stage the file first.")
        return path

    def _loaded(self) -> CompiledModel | ClassicModel:
        if self._model is None:
            raise UsageError("This runner has not loaded a model.", "Load one first.")
        return self._model


def _lacks_room_for(path: Path) -> bool:
    """Whether this process may not have as much memory as the file is large: XNNPACK packs all weights into new memory,
    and does not report why it failed."""
    try:
        mmap.mmap(-1, path.stat().st_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (AttributeError, ValueError):  # a system without such memory; a file without content
        return False
    except OSError as error:
        return error.errno == errno.ENOMEM
    return False


def _predict(model: CompiledModel | ClassicModel, frames: tuple[bytes | memoryview, ...]) -> tuple[bytes, ...]:
    """One run on these inputs; the outputs' bytes."""
    inputs: tuple[Tensor | ClassicTensor, ...] = model.inputs
    for tensor, frame in zip(inputs, frames, strict=True):
        tensor.write(frame)
    if isinstance(model, ClassicModel):
        model.forget()  # one sample must not influence the next
    model.run()
    return tuple(tensor.read() for tensor in model.outputs)


def _refuse_unused(plan: Plan, placement: Placement | None) -> None:
    """The CPU would do all the work, and its time would be printed as the accelerator's."""
    if plan.runs_on_cpu or placement is None or placement.accelerated:
        return
    name = f"delegate {Path(plan.delegate.partition(':')[0]).name}" if plan.delegate else plan.accelerator
    raise AcceleratorError(
        f"The {name} took none of the model's {placement.total} operators; the whole model would run on the CPU.",
        "Look up which operators and types it supports.",
    )


def _describe(tensor: Any) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "bytes": tensor.byte_count,
        "zero_copy": tensor.is_shared,
    }

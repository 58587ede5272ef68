"""The machine's own peaks, measured through the engine: arithmetic by matrix products, bandwidth by sums of vectors.

A peak from a data sheet would blame the engine for what the machine cannot do, and one from another library for what
this engine never does. Results are kept in the user's cache folder, by machine, engine and number of threads: for good
if the machine was quiet, else for minutes, as it may become so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core import doubts
from hasten.core.cache_folder import cache_folder
from hasten.core.codec import checked_from_data, record, to_data
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Measurement, Model
from hasten.core.plan import Plan
from hasten.core.profile import Peaks
from hasten.core.whole_file import write_whole
from hasten.measure.rounds import Candidate, Progress, Rounds, no_progress
from hasten.model import example_models

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.machine import Machine
    from hasten.measure.effort import Effort
    from hasten.targets.base import Target

_FORMAT: Final = 4
_SECONDS_EACH: Final = 0.35
_DOUBTFUL_SECONDS: Final = 600.0
_LOUD: Final = (doubts.OTHER_LOAD, doubts.STOLEN_TIME, doubts.THROTTLING)
# Of a progress bar that then begins anew.
_PART: Final = 0.3
# A run takes about a millisecond: short enough to fit between the turns of other programs.
_ROWS, _UNITS, _LAYERS = 256, 512, 1
_MATMUL_FLOPS: Final = 2 * _LAYERS * _ROWS * _UNITS * _UNITS
# Bytes that one ADD touches: two vectors read, one written. From well inside a core's own cache to main memory.
_STREAM_MEGABYTES: Final = (0.0625, 0.25, 1, 4, 32)
_VECTORS: Final = 3


@record
class _Measured:
    """Peaks as they are kept."""

    peaks: Peaks
    quiet: bool
    """Whether nothing else had the cores while each of them was measured."""


def measure_peaks(target: Target, threads: int, progress: Progress = no_progress) -> Peaks | Failure:
    """The peaks of the target's machine, from the cache if they are known."""
    try:
        machine = target.machine()
    except RunnerFailed as failed:
        return failed.failure
    cache = _cache_file(machine, threads)
    known = _read(cache)
    if known is not None:
        return known.peaks
    found = _measure(target, threads, progress)
    if isinstance(found, Failure):
        return found
    _write(cache, found)
    return found.peaks


def peaks_first(effort: Effort, threads: int) -> Peaks | Failure:
    """The peaks, measured once for a machine, on the way to something else whose progress begins anew."""
    return measure_peaks(effort.target, threads, lambda share, text: effort.progress(share * _PART, text))


def _measure(target: Target, threads: int, progress: Progress) -> _Measured | Failure:
    loads: dict[str, Callable[[], bytes]] = {
        "float arithmetic": lambda: example_models.matmul_chain(_ROWS, _UNITS, _LAYERS),
        "int8 arithmetic": lambda: example_models.matmul_chain(_ROWS, _UNITS, _LAYERS, dtype="int8"),
    }
    for size in _STREAM_MEGABYTES:
        loads[f"bandwidth at {size:g} MB"] = lambda size=size: example_models.stream(size)  # type: ignore[misc]
    seconds: dict[str, float] = {}
    all_quiet = True
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        for number, (name, build) in enumerate(loads.items()):
            progress(number / len(loads), f"measuring this machine: {name}")
            path = Path(folder) / f"{number}.tflite"
            path.write_bytes(build())
            result = _quickest_seconds(target, path, threads)
            if isinstance(result, Failure):
                return result
            seconds[name], quiet = result
            all_quiet = all_quiet and quiet
    progress(1.0, "measured")
    streams = [seconds[f"bandwidth at {size:g} MB"] for size in _STREAM_MEGABYTES]
    touched = [int(size * 2**20) * _VECTORS for size in _STREAM_MEGABYTES]
    peaks = Peaks(
        threads=threads,
        float_gflops=_MATMUL_FLOPS / seconds["float arithmetic"] / 1e9,
        int8_gops=_MATMUL_FLOPS / seconds["int8 arithmetic"] / 1e9,
        bandwidth=tuple((size, size / time / 1e9) for size, time in zip(touched, streams, strict=True)),
    )
    return _Measured(peaks, all_quiet)


def _quickest_seconds(target: Target, path: Path, threads: int) -> tuple[float, bool] | Failure:
    """A peak is what the machine does when nothing disturbs it, so the quickest run counts, not the usual one; and
    whether the machine was quiet."""
    rounds = Rounds(target, [Candidate("peak", path, Model(path.name, 0, ""), Plan(threads=threads))])
    rounds.run_one(_SECONDS_EACH)
    result = rounds.tracks[0].result()
    if not isinstance(result, Measurement):
        return result
    return result.samples.min_ms / 1e3, not any(doubt.code in _LOUD for doubt in result.doubts)


def _cache_file(machine: Machine, threads: int) -> Path:
    stable = [_FORMAT, machine.engine, threads, machine.cpu, machine.device, machine.cores, machine.instructions]
    key = hashlib.sha256(json.dumps(stable).encode()).hexdigest()[:16]
    return cache_folder() / f"peaks-{key}.json"


def _read(path: Path) -> _Measured | None:
    """Peaks from the cache; None if it has none, has had doubtful ones for too long, or was damaged."""
    with contextlib.suppress(OSError, ValueError):
        known = checked_from_data(_Measured, json.loads(path.read_text()))
        rates = (known.peaks.float_gflops, known.peaks.int8_gops, *(gbs for _, gbs in known.peaks.bandwidth))
        is_fresh = known.quiet or time.time() - path.stat().st_mtime < _DOUBTFUL_SECONDS
        return known if known.peaks.bandwidth and min(rates) > 0 and is_fresh else None
    return None


def _write(path: Path, found: _Measured) -> None:
    """A cache that cannot be written costs time, nothing else."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(to_data(found)))

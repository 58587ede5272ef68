"""All candidates of a tuning in one race: rounds of fresh processes, each result saved the moment its round ends."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.comparison import compare_rounds
from hasten.core.doubts import doubts_data
from hasten.core.errors import ModelError
from hasten.core.failure import Failure
from hasten.core.racing import log_ratios, relative
from hasten.core.samples import Samples
from hasten.core.tuning import BROKEN, CHOSEN, DROPPED, FAILED, KEPT, ORIGINAL, TIMED, TuneTrial, trial_id
from hasten.evaluate.fingerprint import file_hash
from hasten.measure.rounds import Candidate, Rounds, Track

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hasten.core.block import Block
    from hasten.core.plan import Plan
    from hasten.targets.base import Target
    from hasten.tune.folder import TuneFolder

# Each entrant of a round is a process with the model loaded, all at once: more would not fit into a small machine.
MOST_AT_ONCE: Final = 6


@dataclass(slots=True)
class Lane:
    """One candidate, what is known of it, and what was measured of it in this run."""

    trial: TuneTrial
    candidate: Candidate
    track: Track

    @property
    def is_racing(self) -> bool:
        """Whether it may still win: not failed, not dropped, and not known to break the floor."""
        return self.trial.status in (TIMED, KEPT, CHOSEN) and self.trial.floor not in (BROKEN, FAILED)


class Field:
    """The lanes by id. The first one, the original as it runs now, is in every round: all are compared with it."""

    def __init__(self, target: Target, folder: TuneFolder, base: Candidate, begin: float) -> None:
        self.lanes: dict[str, Lane] = {}
        self._folder, self._begin, self._base = folder, begin, base
        self._stamp = _stamp(base.path)
        self._rounds = Rounds(target, [])
        before = [number for trial in folder.trials.values() for number in trial.levels]
        self._number = max(before, default=0)
        self.base = self.enter(ORIGINAL, base)

    def enter(self, variant: str, candidate: Candidate, zipped_bytes: int = 0) -> Lane:
        """The candidate's lane; with what an earlier run has found."""
        plan = candidate.plan
        name = trial_id(variant, plan)
        if name not in self.lanes:
            fresh = TuneTrial(variant, plan, size_bytes=candidate.model.size_bytes, zipped_bytes=zipped_bytes)
            track = Track(replace(candidate, label=name))
            self._rounds.tracks.append(track)
            trial = self._folder.trials.get(name, fresh)
            if trial.status == CHOSEN:  # by an earlier run: it has to stand the race again
                trial = replace(trial, status=KEPT)
            self.lanes[name] = Lane(trial, track.candidate, track)
        return self.lanes[name]

    def lane_of(self, variant: str, plan: Plan) -> Lane | None:
        """The lane of a variant with a plan, if it has one."""
        return self.lanes.get(trial_id(variant, plan))

    @property
    def elapsed_s(self) -> float:
        """Since the beginning, with what earlier runs took."""
        return self._folder.elapsed_s + time.monotonic() - self._begin

    def update(self, lane: Lane, **changes: Any) -> None:
        """Save what has become known of a lane."""
        lane.trial = replace(lane.trial, elapsed_s=self.elapsed_s, **changes)
        self._folder.save(lane.trial)

    def relative(self, lane: Lane) -> float:
        """The logarithm of its time over the base's; infinite where it is not known."""
        return 0.0 if lane is self.base else relative(lane.trial.levels, self.base.trial.levels)

    def run_round(self, entrants: Sequence[Lane], seconds_each: float) -> None:
        """One round of the base and these; a trial is on the disk as soon as the round ends."""
        self.refuse_changed()
        racing = [self.base, *(lane for lane in entrants if lane is not self.base)]
        for lane in self.lanes.values():
            lane.track.retired = lane not in racing
        counts = [len(lane.track.rounds) for lane in racing]
        self._rounds.run_one(seconds_each)
        self._number += 1
        for lane, count in zip(racing, counts, strict=True):
            if len(lane.track.rounds) > count:
                level = round_level(lane.track.rounds[-1])
                lane.trial = replace(lane.trial, levels={**lane.trial.levels, self._number: level})
        for lane, count in zip(racing, counts, strict=True):
            if len(lane.track.rounds) > count:
                self._save_round(lane)
            elif lane.track.failure is not None:
                self.update(lane, status=FAILED, why=lane.track.failure.message)

    def _save_round(self, lane: Lane) -> None:
        measured = lane.track.result()
        assert not isinstance(measured, Failure)
        ratios = log_ratios(self.base.trial.levels, lane.trial.levels)
        latest = replace(measured, samples=Samples(tuple(lane.track.rounds[-1]), lane.track.timer_step_ns))
        self._folder.keep("measurement", lane.trial.id, {**to_data(latest), "round": self._number})
        self.update(
            lane,
            latency=measured.samples.latency,
            init_ms=measured.init_ms,
            peak_memory_mb=measured.peak_memory_mb,
            against=compare_rounds(ratios) if ratios and lane is not self.base else None,
            doubts=tuple(doubts_data(measured.doubts)),
        )

    def drop(self, lane: Lane, why: str) -> None:
        """Take a lane out of the race; what was measured stays."""
        self.update(lane, status=DROPPED, why=why)

    def refuse_changed(self) -> None:
        """Figures of two models do not belong in one race."""
        path, model = self._base.path, self._base.model
        try:
            stamp = _stamp(path)
            changed = stamp != self._stamp and file_hash(path) != model.sha256
        except OSError as error:
            raise ModelError(f"{path} cannot be read any more: {error.strerror}", _GO_ON) from error
        if changed:
            raise ModelError(f"{path} has changed since the tuning began", _GO_ON)
        self._stamp = stamp


_GO_ON: Final = "What was measured is saved: put the file back and go on with --resume, or begin anew with another -o."


def round_level(blocks: Sequence[Block]) -> float:
    """The logarithm of the milliseconds of one round: the middle of its blocks."""
    return median(math.log(max(median(block.nanoseconds), 1.0) / 1e6) for block in blocks)


def chunks(lanes: Sequence[Lane], key: Callable[[Lane], Any]) -> list[list[Lane]]:
    """Groups small enough for one round, neighbours by the key together."""
    ordered = sorted(lanes, key=key)
    return [ordered[start : start + MOST_AT_ONCE] for start in range(0, len(ordered), MOST_AT_ONCE)]


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size

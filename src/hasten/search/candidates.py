"""The candidates of a search, measured together: rounds of fresh processes, each result saved as its round ends."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.comparison import compare_rounds
from hasten.core.errors import ModelError
from hasten.core.failure import Failure
from hasten.core.remark import remark
from hasten.core.samples import Samples
from hasten.core.trial import FloorState, Status, trial_id
from hasten.engine.model_file import file_hash
from hasten.measure.rounds import Candidate, Rounds, Track
from hasten.search.round_ratios import log_ratios, relative

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hasten.core.block import Block
    from hasten.core.plan import Plan
    from hasten.core.remark import Remark
    from hasten.core.trial import Trial
    from hasten.search.folder import SearchFolder
    from hasten.targets.base import Target

# Each entrant of a round is a process with the model loaded, all at once: more would not fit into a small machine.
MOST_AT_ONCE: Final = 6
_RACING: Final = (Status.TIMED, Status.KEPT, Status.CHOSEN)


@dataclass(slots=True)
class Entrant:
    """One candidate, what is known of it, and what was measured of it in this run."""

    trial: Trial
    candidate: Candidate
    track: Track

    @property
    def is_racing(self) -> bool:
        """Whether it may still win: not failed, not dropped, and not known to break the floor."""
        return self.trial.status in _RACING and self.trial.floor not in (FloorState.BROKEN, FloorState.FAILED)


class Candidates:
    """The entrants by id. The first one, the original as it runs now, is in every round: all are compared with it."""

    def __init__(self, target: Target, folder: SearchFolder, base: tuple[Trial, Candidate], begin: float) -> None:
        self.entrants: dict[str, Entrant] = {}
        self._folder, self._begin, self._base = folder, begin, base[1]
        self._stamp = _stamp(self._base.path)
        self._rounds = Rounds(target, [])
        before = [number for trial in folder.trials.values() for number in trial.levels]
        self._number = max(before, default=0)
        self.base = self.enter(*base)

    def enter(self, trial: Trial, candidate: Candidate) -> Entrant:
        """The trial's entrant; with what an earlier run has found."""
        if trial.id not in self.entrants:
            track = Track(replace(candidate, label=trial.id))
            self._rounds.tracks.append(track)
            # A session may have been made by anybody: what runs is what was asked for now.
            known = replace(self._folder.trials.get(trial.id, trial), plan=trial.plan)
            if known.status is Status.CHOSEN:  # by an earlier run: it has to stand the race again
                known = replace(known, status=Status.KEPT)
            self.entrants[trial.id] = Entrant(known, track.candidate, track)
        return self.entrants[trial.id]

    def entrant_of(self, variant: str, plan: Plan) -> Entrant | None:
        """The entrant of a variant with a plan, if it has one."""
        return self.entrants.get(trial_id(variant, plan))

    @property
    def elapsed_s(self) -> float:
        """Since the beginning, with what earlier runs took."""
        return self._folder.elapsed_s + time.monotonic() - self._begin

    def update(self, entrant: Entrant, **changes: Any) -> None:
        """Save what has become known of an entrant."""
        entrant.trial = replace(entrant.trial, elapsed_s=self.elapsed_s, **changes)
        self._folder.save_trial(entrant.trial)

    def relative(self, entrant: Entrant) -> float:
        """The logarithm of its time over the base's; infinite where it is not known."""
        return 0.0 if entrant is self.base else relative(entrant.trial.levels, self.base.trial.levels)

    def run_round(self, entrants: Sequence[Entrant], seconds_each: float) -> None:
        """One round of the base and these; a trial is on the disk as soon as the round ends."""
        self.refuse_changed()
        racing = [self.base, *(entrant for entrant in entrants if entrant is not self.base)]
        for entrant in self.entrants.values():
            entrant.track.retired = entrant not in racing
        counts = [len(entrant.track.rounds) for entrant in racing]
        self._rounds.run_one(seconds_each)
        self._number += 1
        for entrant, count in zip(racing, counts, strict=True):
            if len(entrant.track.rounds) > count:
                level = round_level(entrant.track.rounds[-1])
                entrant.trial = replace(entrant.trial, levels={**entrant.trial.levels, self._number: level})
        for entrant, count in zip(racing, counts, strict=True):
            if len(entrant.track.rounds) > count:
                self._save_round(entrant)
            elif entrant.track.failure is not None:
                self.fail(entrant, entrant.track.failure.message)

    def _save_round(self, entrant: Entrant) -> None:
        measured = entrant.track.result()
        assert not isinstance(measured, Failure)
        ratios = log_ratios(self.base.trial.levels, entrant.trial.levels)
        latest = replace(measured, samples=Samples(tuple(entrant.track.rounds[-1]), entrant.track.timer_step_ns))
        self._folder.keep("measurement", entrant.trial.id, {**to_data(latest), "round": self._number})
        self.update(
            entrant,
            latency=measured.samples.latency,
            init_ms=measured.init_ms,
            peak_memory_mb=measured.peak_memory_mb,
            against=compare_rounds(ratios) if ratios and entrant is not self.base else None,
            doubts=tuple(measured.doubts),
        )

    def drop(self, entrant: Entrant, why: Remark, **changes: Any) -> None:
        """Take an entrant out of the race; what was measured stays."""
        self.update(entrant, status=Status.DROPPED, why=why, **changes)

    def fail(self, entrant: Entrant, message: str, **changes: Any) -> None:
        """Take an entrant out of the race that does not run."""
        self.update(entrant, status=Status.FAILED, why=remark("trial.failed", message=message), **changes)

    def refuse_changed(self) -> None:
        """Figures of two models do not belong in one race."""
        path, model = self._base.path, self._base.model
        try:
            stamp = _stamp(path)
            changed = stamp != self._stamp and file_hash(path) != model.sha256
        except OSError as error:
            raise ModelError(f"{path} can no longer be read: {error.strerror}.", _GO_ON) from error
        if changed:
            raise ModelError(f"{path} has changed since the tuning began.", _GO_ON)
        self._stamp = stamp


_GO_ON: Final = (
    "Put the file back and continue with --resume, or begin again with another -o. Everything measured so far is saved."
)


def round_level(blocks: Sequence[Block]) -> float:
    """The logarithm of the milliseconds of one round: the middle of its blocks."""
    return median(math.log(max(median(block.nanoseconds), 1.0) / 1e6) for block in blocks)


def chunks(entrants: Sequence[Entrant], key: Callable[[Entrant], Any]) -> list[list[Entrant]]:
    """Groups small enough for one round, neighbors by the key together."""
    ordered = sorted(entrants, key=key)
    return [ordered[start : start + MOST_AT_ONCE] for start in range(0, len(ordered), MOST_AT_ONCE)]


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size

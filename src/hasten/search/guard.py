"""The accuracy guard: which candidates keep the floor. Each is tested where it runs, and only until that is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.remark import Remark, remark
from hasten.core.trial import CHOOSING, NOTHING, ORIGINAL, REPORTING, FloorState, Stage, Status, status_of
from hasten.evaluate.words import floor_data
from hasten.search.plans import keeps_numbers, numbers_of

if TYPE_CHECKING:
    from hasten.core.trial import Trial
    from hasten.search.field import Field, Lane
    from hasten.search.workshop import Workshop


@dataclass(slots=True)
class Guard:
    """Judges lanes. All lanes of one variant that compute alike share one judgment."""

    workshop: Workshop
    field: Field
    has_data: bool

    def open(self) -> None:
        """What needs no test: the original, computed as it is now. With data, its own accuracy."""
        base, judge = self.field.base, self.workshop.judge
        if base.trial.floor and (base.trial.accuracy is not None or not self.has_data):
            return  # an earlier run knows it
        known: dict[str, Any] = {"floor": FloorState.KEPT, "status": Status.KEPT}
        if self.has_data:
            known |= {"choosing": judge.original(CHOOSING).accuracy, "drop": 0.0}
            self.workshop.folder.save_floor(floor_data(judge.floor(CHOOSING)))
        self.field.update(base, **known)

    def look_up(self, lane: Lane) -> bool:
        """Take over what is known from a lane that computes alike; whether there was any."""
        if lane.trial.floor:
            return True
        for other in self.field.lanes.values():
            if other.trial.floor and _alike(lane, other):
                self._share(other.trial, lane)
                return True
        return False

    def judge(self, lane: Lane) -> None:
        """Decide whether the lane keeps the floor, on the half of the data by which is chosen."""
        if self.look_up(lane):
            return
        if not self.has_data:
            same = lane.trial.variant == ORIGINAL and keeps_numbers(lane.trial.plan, self.field.base.trial.plan)
            why = NOTHING if same else remark("trial.no-data")
            state = FloorState.KEPT if same else FloorState.UNKNOWN
            self.field.update(lane, floor=state, stage=Stage.ACCURACY, why=why)
            return
        self.field.refuse_changed()
        found = self.workshop.judge.judged(lane.trial, lane.candidate)
        if found.status is Status.FAILED:
            self.field.update(lane, status=Status.FAILED, stage=Stage.ACCURACY, why=found.why)
            return
        self._take(found, lane)

    def take(self, judged: Trial, lane: Lane) -> None:
        """Take over what the search for a mix has found of a variant on this lane's plan."""
        if not lane.trial.floor and judged.floor:
            self._take(judged, lane)

    def report(self, lane: Lane) -> bool:
        """Evaluate the lane on the other half of the data, which had no part in the choice; whether it keeps the floor
        there. What computes as the original does always keeps it."""
        self.field.refuse_changed()
        base, judge = self.field.base, self.workshop.judge
        original = judge.original(REPORTING)
        if base.trial.reporting is None:
            self.field.update(base, reporting=original.accuracy)
        if _alike(lane, base):
            if lane is not base:
                self._share(base.trial, lane)
            return True
        found = judge.reported(lane.trial, lane.candidate)
        self.field.update(
            lane, reporting=found.reporting, change=found.change, floor=found.floor, status=found.status, why=found.why
        )
        if judge.against_choosing != NOTHING:  # seen only now that the original ran on both halves
            self.field.update(lane, status=Status.TIMED, floor=FloorState.UNKNOWN, why=judge.against_choosing)
            return False
        return found.floor is not FloorState.BROKEN

    def _take(self, found: Trial, lane: Lane) -> None:
        why = self._why(found)
        self.field.update(
            lane,
            floor=found.floor,
            status=status_of(found.floor) if lane.is_racing else lane.trial.status,
            stage=Stage.ACCURACY,
            choosing=found.choosing,
            drop=found.drop,
            why=lane.trial.why if why == NOTHING and not lane.is_racing else why,
        )
        for other in self.field.lanes.values():
            if other is not lane and not other.trial.floor and other.is_racing and _alike(lane, other):
                self._share(lane.trial, other)

    def _why(self, found: Trial) -> Remark:
        judge = self.workshop.judge
        if found.floor is FloorState.BROKEN and found.why == NOTHING:
            return remark("trial.loses", lost=judge.lost(CHOOSING, found.drop or 0.0))
        return judge.against_choosing if found.floor is FloorState.UNKNOWN else found.why

    def _share(self, known: Trial, other: Lane) -> None:
        self.field.update(
            other,
            floor=known.floor,
            status=status_of(known.floor) if other.is_racing else other.trial.status,
            choosing=known.choosing,
            reporting=known.reporting,
            drop=known.drop,
            change=known.change,
            why=known.why if known.floor is FloorState.BROKEN else other.trial.why,
        )


def _alike(one: Lane, other: Lane) -> bool:
    a, b = one.trial, other.trial
    return a.variant == b.variant and numbers_of(a.plan) == numbers_of(b.plan)

"""The accuracy guard: which candidates keep the floor. Each is tested where it runs, and only until that is sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.errors import HastenError, UsageError
from hasten.core.quantization import floor_of
from hasten.core.tuning import ACCURACY, BROKEN, CHOOSING, FAILED, KEPT, ORIGINAL, REPORTING, TIMED, UNKNOWN
from hasten.evaluate.evaluation import compare_evaluations
from hasten.evaluate.sequential_test import Decision
from hasten.evaluate.words import floor_data, loss_text
from hasten.tune.plans import keeps_numbers, numbers_of

if TYPE_CHECKING:
    from hasten.core.accuracy import PairedAccuracy
    from hasten.tune.field import Field, Lane
    from hasten.tune.workshop import Workshop


@dataclass(slots=True)
class Guard:
    """Judges lanes. All lanes of one variant that compute alike share one judgement."""

    workshop: Workshop
    field: Field
    max_drop: float
    has_data: bool

    def open(self) -> None:
        """What needs no test: the original, computed as it is now. With data, its own accuracy."""
        base = self.field.base
        if base.trial.floor and (base.trial.accuracy is not None or not self.has_data):
            return  # an earlier run knows it
        known: dict[str, Any] = {"floor": KEPT, "status": KEPT}
        if self.has_data:
            known |= {"accuracy": self.workshop.judge.original(CHOOSING).accuracy, "accuracy_on": CHOOSING, "drop": 0.0}
            self.workshop.folder.save_floor(floor_data(self.workshop.judge.floor(CHOOSING)))
        self.field.update(base, **known)

    def look_up(self, lane: Lane) -> bool:
        """Take over what is known from a lane that computes alike; whether there was any."""
        if lane.trial.floor:
            return True
        for other in self.field.lanes.values():
            if other.trial.floor and _alike(lane, other):
                self._share(other, lane)
                return True
        return False

    def judge(self, lane: Lane) -> None:
        """Decide whether the lane keeps the floor, on the half of the data by which is chosen."""
        if self.look_up(lane):
            return
        if not self.has_data:
            same = lane.trial.variant == ORIGINAL and keeps_numbers(lane.trial.plan, self.field.base.trial.plan)
            why = "" if same else "without data nothing shows that it keeps its accuracy"
            self.field.update(lane, floor=KEPT if same else UNKNOWN, stage=ACCURACY, why=why)
            return
        self.field.refuse_changed()
        try:
            found = self.workshop.judge.against_floor(lane.candidate)
        except UsageError:
            raise
        except HastenError as error:
            self.field.update(lane, status=FAILED, stage=ACCURACY, why=error.message)
            return
        decision, drop = (found.decision.decision, found.decision.mean_drop) if found.decision else (None, None)
        kept = None if decision is Decision.UNSURE else decision is Decision.KEPT
        floor = floor_of(found.accuracy.kind, kept)
        why = self._why(lane, floor, drop or 0.0)
        status = _status(floor) if lane.is_racing else lane.trial.status
        why = why or ("" if lane.is_racing else lane.trial.why)
        self.field.update(
            lane,
            floor=floor,
            status=status,
            stage=ACCURACY,
            accuracy=found.accuracy,
            accuracy_on=CHOOSING,
            drop=drop,
            why=why,
        )
        for other in self.field.lanes.values():
            if other is not lane and not other.trial.floor and other.is_racing and _alike(lane, other):
                self._share(lane, other)

    def report(self, lane: Lane) -> PairedAccuracy | None:
        """The lane's accuracy on the other half, which had no part in the choice; None for the original itself."""
        self.field.refuse_changed()
        original = self.workshop.judge.original(REPORTING)
        base = self.field.base
        if base.trial.accuracy_on != REPORTING:
            self.field.update(base, accuracy=original.accuracy, accuracy_on=REPORTING)
        if _alike(lane, base):
            if lane is not base:
                self._share(base, lane)
            return None
        found = self.workshop.judge.reported(lane.candidate)
        change = compare_evaluations(original, found)
        self.field.update(lane, accuracy=found.accuracy, accuracy_on=REPORTING, drop=change.drop)
        return change

    def _why(self, lane: Lane, floor: str, drop: float) -> str:
        judge = self.workshop.judge
        if floor == BROKEN:
            remark = judge.remarks.get(lane.candidate.label)
            return remark or f"it loses {loss_text(judge.floor(CHOOSING), drop)}, more than the floor allows"
        return judge.against_choosing if floor == UNKNOWN else ""

    def _share(self, known: Lane, other: Lane) -> None:
        trial = known.trial
        status = _status(trial.floor) if other.is_racing else other.trial.status
        self.field.update(
            other,
            floor=trial.floor,
            status=status,
            accuracy=trial.accuracy,
            accuracy_on=trial.accuracy_on,
            drop=trial.drop,
            why=trial.why if trial.floor == BROKEN else other.trial.why,
        )


def _alike(one: Lane, other: Lane) -> bool:
    a, b = one.trial, other.trial
    return a.variant == b.variant and numbers_of(a.plan) == numbers_of(b.plan)


def _status(floor: str) -> str:
    return {KEPT: KEPT, BROKEN: BROKEN}.get(floor, TIMED)

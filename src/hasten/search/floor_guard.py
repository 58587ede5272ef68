"""The accuracy guard: which candidates keep the floor. Each is tested where it runs, and only until that is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.floor import FloorState
from hasten.core.remark import Remark, remark
from hasten.core.trial import CHOOSING, NOTHING, REPORTING, Stage, Status, status_of
from hasten.evaluate.words import floor_data
from hasten.search.plans import keeps_numbers, numbers_of

if TYPE_CHECKING:
    from hasten.core.trial import Trial
    from hasten.search.candidates import Candidates, Entrant
    from hasten.search.variant_store import VariantStore

_OF_ACCURACY: Final = (
    "floor",
    "refused",
    "judged",
    "reported",
    "choosing",
    "reporting",
    "drop",
    "change",
    "optimistic",
)


@dataclass(slots=True)
class Guard:
    """Judges entrants. All entrants of one variant that compute alike share one judgment."""

    store: VariantStore
    candidates: Candidates
    has_data: bool
    budget_s: float
    """Of the whole search: judging takes a share of it."""

    def open(self) -> None:
        """Mark the original as keeping the floor; evaluate it if there is data."""
        base, judge, folder = self.candidates.base, self.store.judge, self.store.folder
        is_known = base.trial.floor and (base.trial.accuracy is not None or not self.has_data)
        if self.has_data:
            judge.fit_budget(self.budget_s, base.trial.median_ms / 1000, folder.floor if is_known else None)
        if is_known:
            return  # by an earlier run
        known: dict[str, Any] = {"floor": FloorState.KEPT, "status": Status.KEPT}
        if self.has_data:
            known |= {"choosing": judge.original(CHOOSING).accuracy, "drop": 0.0}
            folder.save_floor({**floor_data(judge.floor(CHOOSING)), **judge.limits_data})
        self.candidates.update(base, **known)

    def look_up(self, entrant: Entrant) -> bool:
        """Take over what is known from an entrant that computes alike; whether there was any."""
        if entrant.trial.floor:
            return True
        for other in self.candidates.entrants.values():
            if other.trial.floor and _alike(entrant, other):
                self._share(other.trial, entrant)
                return True
        return False

    def judge(self, entrant: Entrant) -> None:
        """Decide whether the entrant keeps the floor, on the part of the data for choosing."""
        if self.look_up(entrant):
            return
        if not self.has_data:
            # A rewritten model was compared with the original when it was made.
            same = entrant.trial.computes_as_original and keeps_numbers(
                entrant.trial.plan, self.candidates.base.trial.plan
            )
            why = NOTHING if same else remark("trial.no-data")
            state = FloorState.KEPT if same else FloorState.UNKNOWN
            self.candidates.update(entrant, floor=state, stage=Stage.ACCURACY, why=why)
            return
        self.candidates.refuse_changed()
        found = self.store.judge.judged(entrant.trial, entrant.candidate)
        if found.status is Status.FAILED:
            self.candidates.update(entrant, status=Status.FAILED, stage=Stage.ACCURACY, why=found.why)
            return
        self._take(found, entrant)

    def take(self, judged: Trial, entrant: Entrant) -> None:
        """Take over what the search for a mix has found of a variant on this entrant's plan."""
        if not entrant.trial.floor and judged.floor:
            self._take(judged, entrant)

    def report(self, entrant: Entrant, *, choosing: bool = True) -> bool:
        """Evaluate the entrant on the reporting part of the data; return whether it may still be chosen.

        What computes as the original does always may. Where nothing is chosen any more, only the figures change.
        """
        self.candidates.refuse_changed()
        base, judge = self.candidates.base, self.store.judge
        original = judge.original(REPORTING)
        if base.trial.reporting is None:
            self.candidates.update(base, reporting=original.accuracy)
        if _alike(entrant, base):
            if entrant is not base:
                self._share(base.trial, entrant)
            return True
        if entrant.trial.reported is None:
            others = [one.trial for one in self.candidates.entrants.values() if one is not entrant]
            flattered = any(one.is_refused and one.reported is not None for one in others)
            found = judge.reported(entrant.trial, entrant.candidate, optimistic=flattered and choosing)
            status = found.status if entrant.is_racing else entrant.trial.status
            self.candidates.update(entrant, **known_of(found), status=status, why=found.why)
            self._share_with_alike(entrant)
        if judge.against_choosing != NOTHING:  # seen only now that the original ran on both parts
            self.candidates.update(entrant, status=Status.TIMED, floor=FloorState.UNKNOWN, why=judge.against_choosing)
        return entrant.trial.may_be_chosen

    def _take(self, found: Trial, entrant: Entrant) -> None:
        why = self._why(found)
        self.candidates.update(
            entrant,
            **known_of(found),
            status=status_of(found.floor) if entrant.is_racing else entrant.trial.status,
            stage=Stage.ACCURACY,
            why=entrant.trial.why if why == NOTHING and not entrant.is_racing else why,
        )
        for other in self.candidates.entrants.values():
            if other is not entrant and not other.trial.floor and other.is_racing and _alike(entrant, other):
                self._share(entrant.trial, other)

    def _share_with_alike(self, entrant: Entrant) -> None:
        """What was found on the reporting part, with all that computes alike and was judged."""
        for other in self.candidates.entrants.values():
            if other is not entrant and other.trial.judged is not None and _alike(entrant, other):
                self._share(entrant.trial, other)

    def _why(self, found: Trial) -> Remark:
        judge = self.store.judge
        if found.floor is FloorState.BROKEN and found.why == NOTHING:
            assert found.judged is not None, "it was judged"
            return remark("trial.loses", lost=judge.lost(CHOOSING, found.judged))
        return judge.against_choosing if found.floor is FloorState.UNKNOWN else found.why

    def _share(self, known: Trial, other: Entrant) -> None:
        self.candidates.update(
            other,
            **known_of(known),
            status=status_of(known.floor) if other.is_racing else other.trial.status,
            why=known.why if known.is_refused else other.trial.why,
        )


def known_of(trial: Trial) -> dict[str, Any]:
    """What is known of a trial's accuracy, which all that computes alike shares."""
    return {name: getattr(trial, name) for name in _OF_ACCURACY}


def _alike(one: Entrant, other: Entrant) -> bool:
    a, b = one.trial, other.trial
    return a.variant == b.variant and numbers_of(a.plan) == numbers_of(b.plan)

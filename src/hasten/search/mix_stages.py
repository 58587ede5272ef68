"""Variants that would win but break the floor: mixed precision, and a last layer that is fitted to labels."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hasten.core.floor import FloorState
from hasten.core.remark import Remark, remark
from hasten.core.trial import Purpose, Trial
from hasten.search.floor_guard import known_of
from hasten.search.mixing import Mixer
from hasten.search.refitting import refit
from hasten.search.variant_store import VariantRequest
from hasten.variants.recipes import recipe_from_name

if TYPE_CHECKING:
    from hasten.core.plan import Plan
    from hasten.search.candidates import Entrant
    from hasten.search.search import Search

# A recipe that breaks the floor is worth a mix if it would save this share; a mix takes its time.
_WORTH_A_MIX: Final = 0.05
_MIX_SECONDS: Final = 45.0


@dataclass(slots=True)
class MixStages:
    """What is made of refused variants, so that they keep the floor."""

    search: Search

    def mix(self) -> None:
        """Mixed precision, where a broken recipe promises more than the best and there is time for it."""
        search = self.search
        search.stage = "mixed precision"
        wanted = [
            entrant for entrant in search.elimination.promising_refused(_WORTH_A_MIX) if search.is_recipe(entrant.trial)
        ]
        left = search.until - time.monotonic()
        if not wanted or not search.has_data:
            return
        if not search.settings.mix or left < _MIX_SECONDS:
            why = "untried.mix" if search.settings.mix else "untried.mix-option"
            search.skipped.append(remark(why, variant=wanted[0].trial.variant))
            return
        plan = wanted[0].trial.plan
        mixer = self._mixer(plan, search.until - left / 4)
        found = self._mixes_of(mixer, search.store.variant(wanted[0].trial.variant))
        if found:
            search.elimination.settle([search.best, *(search.enter_judged(mix, plan) for mix in found)], search.until)
        elif mixer.is_out_of_time:
            search.folder.note(remark("search.mix-out-of-time", variant=wanted[0].trial.variant))

    def refit_head(self) -> None:
        """The fastest int8 variant that broke the floor once more, with its last layer fitted to labels, if allowed."""
        search = self.search
        if not search.settings.refit_head or not search.has_data:
            return
        search.stage = "last layer"
        refused = [entrant.trial for entrant in search.elimination.promising_refused(0.0)]
        wanted = [one for one in refused if search.is_recipe(one) and recipe_from_name(one.recipe).is_static_int8]
        if not wanted:
            return
        if time.monotonic() >= search.until:
            search.skipped.append(remark("untried.last-layer", variant=wanted[0].variant))
            return
        plan = wanted[0].plan
        found = refit(search.store, replace(search.store.variant(wanted[0].variant), plan=plan))
        if isinstance(found, Remark):
            search.folder.note(found)
        elif found.path:
            search.elimination.settle([search.best, search.enter_judged(found, plan)], search.until)

    def further(self, trial: Trial, until: float) -> list[Entrant]:
        """A mix that keeps more nodes in float than one that has broken the floor on the reporting part of the data."""
        variant = self.search.store.variant(trial.variant)
        mix = self._mixer(trial.plan, until).further(variant) if trial.is_step else None
        return [self.search.enter_judged(mix, trial.plan)] if mix is not None and mix.path else []

    def _mixer(self, plan: Plan, until: float) -> Mixer:
        search = self.search

        def attempt(request: VariantRequest) -> Trial:
            known = search.store.known(request)
            raced = None if known is None else search.candidates.entrant_of(known.variant, plan)
            if known is not None and raced is not None and raced.trial.judged is not None:
                return replace(known, plan=plan, **known_of(raced.trial))
            if known is not None and known.plan != plan:  # judged elsewhere, if at all
                search.folder.variants[known.variant] = replace(known, floor=FloorState.NOT_JUDGED)
            return search.store.attempt(request, plan)

        return Mixer(search.store, plan, attempt, until)

    def _mixes_of(self, mixer: Mixer, variant: Trial) -> list[Trial]:
        """Mixes of a refused variant that may be chosen: without the nodes that integers slow down here if that is
        enough, else with as many more nodes in float as it takes."""
        search = self.search
        entrant = search.candidates.entrant_of(variant.variant, mixer.plan)
        broken = [replace(variant, drop=None if entrant is None else entrant.trial.drop)]
        if recipe_from_name(variant.recipe).is_static_int8:
            for nodes in search.store.slow_nodes(variant, mixer.plan):
                if mixer.is_out_of_time:
                    break
                slow = mixer.attempt(VariantRequest(variant.recipe, nodes, Purpose.SLOW_NODES, variant.variant))
                if slow.may_be_chosen:
                    return [slow]
                broken = [slow, *broken] if slow.is_refused else broken
        for trial in broken:
            mix = mixer.search(trial)
            if mix is not None and mix.path:
                return [mix]
        return []

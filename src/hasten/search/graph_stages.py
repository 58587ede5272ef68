"""Changed graphs in the search: rewritten models, and with kernels where those were asked for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hasten.core.codec import to_data
from hasten.core.comparison import Verdict
from hasten.core.floor import FloorState
from hasten.core.remark import remark
from hasten.core.trial import ORIGINAL, Purpose, Trial
from hasten.search.rewriting import Rewriter
from hasten.search.round_ratios import MARGIN
from hasten.search.search import BEST_VARIANTS, FIRST_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.search.candidates import Entrant
    from hasten.search.search import Search

_ROUNDS: Final = 4
# A rewritten model is written, compared with its source in fresh processes, and needs a few rounds.
_REWRITE_SECONDS: Final = 10.0


@dataclass(slots=True)
class GraphStages:
    """The original and the fastest variants with their graphs changed."""

    search: Search
    rewriter: Rewriter = field(init=False)

    def __post_init__(self) -> None:
        self.rewriter = Rewriter(self.search.store)

    def build_kernels(self) -> None:
        """Have the kernels that were asked for ready before time goes to anything else."""
        if self.search.settings.kernels:
            self.rewriter.build_kernels()

    def race_original(self) -> None:
        """The rewritten model next to the original; variants are made of it where it is faster, and slower nowhere.
        Then the faster of them with kernels, where those were asked for."""
        search, original = self.search, self.search.store.original
        search.stage = "rewrites"
        made = self._equal(self.rewriter.rewritten(original)) if search.settings.rewrites else None
        if made is not None and time.monotonic() >= search.until:
            search.skipped.append(remark("untried.rewrites"))
        elif made is not None:
            self._race_next_to_original(made)
        if search.settings.kernels:
            if not self.rewriter.kernels_for(original):
                search.folder.note(remark("search.no-kernel-applies"))
            alike = [one for one in self._fastest(kernels=True) if one.trial.computes_as_original]
            self._race_pairs(self._with_kernels(alike[:1]))

    def _race_next_to_original(self, made: Trial) -> None:
        search = self.search
        plans = search.plans_for_variants()
        pairs = [(search.enter(ORIGINAL, plan), search.enter(made.variant, plan)) for plan in plans]
        entrants = [entrant for pair in pairs for entrant in pair]
        search.elimination.settle(entrants, search.until, FIRST_ROUNDS)
        timed = [pair for pair in pairs if search.candidates.is_timed(pair[1])]
        if not any(search.candidates.gap(other, one) < -MARGIN for one, other in timed):
            return  # as fast as the original, as most rewritten models are
        search.elimination.settle(entrants, search.until, _ROUNDS)
        found = [search.candidates.compared(one, other) for one, other in pairs]
        verdicts = {one.verdict for one in found if one is not None}
        if Verdict.FASTER in verdicts and Verdict.SLOWER not in verdicts:
            search.store.build_on(made)

    def race_variants(self) -> None:
        """The fastest variants with their own graphs rewritten, and with kernels where those were asked for."""
        search = self.search
        search.stage = "rewrites"
        pairs: list[tuple[Entrant, Entrant]] = []
        if search.settings.rewrites:
            left_out = []
            for entrant in self._fastest_variants():
                if search.until - time.monotonic() < _REWRITE_SECONDS:
                    left_out += [entrant.trial.variant] if self.rewriter.applies(self._variant_of(entrant)) else []
                else:
                    pairs += self._entered(entrant, [self.rewriter.rewritten(self._variant_of(entrant))])
            search.skipped += [remark("untried.rewrites-of", variants=left_out)] if left_out else []
        if search.settings.kernels:
            pairs += self._with_kernels(self._fastest_variants(kernels=True))
        self._race_pairs(pairs)

    def _with_kernels(self, entrants: Sequence[Entrant]) -> list[tuple[Entrant, Entrant]]:
        """Each with those that are made of it by kernels."""
        search = self.search
        found: list[tuple[Entrant, Entrant]] = []
        for entrant in entrants:
            if search.until - time.monotonic() < _REWRITE_SECONDS:
                search.skipped.append(remark("untried.kernels", variant=entrant.trial.variant))
            else:
                found += self._entered(entrant, self.rewriter.with_kernels(self._variant_of(entrant)))
        return found

    def _entered(self, entrant: Entrant, made: Sequence[Trial | None]) -> list[tuple[Entrant, Entrant]]:
        """An entrant with each that was made of its variant, on the same plan."""
        equal = [one for one in map(self._equal, made) if one is not None]
        return [(entrant, self.search.enter(one.variant, entrant.trial.plan)) for one in equal]

    def _race_pairs(self, pairs: Sequence[tuple[Entrant, Entrant]]) -> None:
        if pairs:
            entrants = [self.search.best, *(entrant for pair in pairs for entrant in pair)]
            self.search.elimination.settle(list({one.trial.id: one for one in entrants}.values()), self.search.until)

    def _variant_of(self, entrant: Entrant) -> Trial:
        return self.search.store.variant(entrant.trial.variant)

    def _fastest_variants(self, *, kernels: bool = False) -> list[Entrant]:
        """The fastest variants with other numbers than the original's, in graphs that were not changed yet."""
        found = [one for one in self._fastest(kernels=kernels) if not one.trial.computes_as_original]
        return [one for one in found if one.trial.purpose is not Purpose.REWRITE][:BEST_VARIANTS]

    def _fastest(self, *, kernels: bool) -> list[Entrant]:
        """Each variant on its fastest plan, the fastest first; only plans that take kernels, if that is asked."""
        candidates = self.search.candidates
        racing = [one for one in candidates.entrants.values() if one.is_racing and candidates.is_timed(one)]
        found: dict[str, Entrant] = {}
        for entrant in sorted(racing, key=candidates.relative):
            if entrant.trial.plan.takes_kernels or not kernels:
                found.setdefault(entrant.trial.variant, entrant)
        return list(found.values())

    def _equal(self, made: Trial | None) -> Trial | None:
        """A rewritten model, unless its outputs are not its source's; that is noted."""
        if made is None or made.floor is not FloorState.FAILED:
            return made
        self.search.folder.note(remark("search.rewriting-refused", variant=made.variant, why=to_data(made.why)))
        return None

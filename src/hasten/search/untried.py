"""What a search has left untried, and why: for lack of time, by an option, or because the like of it was far behind.

Nothing here measures. `--resume` goes on with what time was lacking for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.remark import Remark, remark
from hasten.core.trial import NOTHING, Purpose, Status
from hasten.search.plans import alike_in_speed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.trial import Trial
    from hasten.search.candidates import Entrant
    from hasten.search.search import Search

_CLOSE: Final = "untried.undecided"
# What leaves no candidate for more time: it was left out on purpose, or timed and close, or is no candidate.
_NO_CANDIDATES: Final = ("untried.mix-option", "untried.combinations", "untried.practices", _CLOSE)


def left_untried(search: Search, practices: Sequence[str] = ()) -> tuple[Remark, ...]:
    """Everything that was left out, the most telling first; with the practices that were not run in full."""
    entrants = list(search.candidates.entrants.values())
    found = [
        *_untimed(entrants),
        *_recipes(search),
        *_named("untried.accuracy", search.elimination.unjudged(entrants)),
        *dict.fromkeys(search.skipped),
        *([remark("untried.practices", practices=list(practices))] if practices else []),
        *_combinations(entrants),
    ]
    return tuple(found)


def lacked_time(untried: Sequence[Remark]) -> bool:
    """Whether a search that goes on would try more candidates."""
    return any(one.code not in _NO_CANDIDATES for one in untried)


def undecided_at_the_end(search: Search) -> list[Remark]:
    """Candidates of the race that more rounds might have made the choice. A confirmation gives the winner figures from
    other rounds, so that this is asked before it."""
    return _named(_CLOSE, search.elimination.undecided(list(search.candidates.entrants.values())))


def without_chosen(skipped: Sequence[Remark], chosen: str) -> list[Remark]:
    """The remarks, where what a confirmation has chosen in the end did not merely come close to the best."""
    found: list[Remark] = []
    for told in skipped:
        others = [name for name in told.facts["trials"] if name != chosen] if told.code == _CLOSE else []
        found += [remark(_CLOSE, trials=others)] if others else [told] if told.code != _CLOSE else []
    return found


def _untimed(entrants: Sequence[Entrant]) -> list[Remark]:
    waiting = [one for one in entrants if one.is_racing and not one.trial.levels and one.trial.status is Status.TIMED]
    return _named("untried.plans", waiting)


def _named(code: str, entrants: Sequence[Entrant]) -> list[Remark]:
    return [remark(code, trials=[one.trial.id for one in entrants])] if entrants else []


def _recipes(search: Search) -> list[Remark]:
    """Recipes that were asked for and not made; where one with the same kernels may be chosen, none is needed."""
    variants = search.folder.variants.values()
    if search.store.already != NOTHING or any(note.code == "search.no-variants" for note in search.folder.notes):
        return []
    made = {trial.recipe for trial in variants if trial.purpose is Purpose.RECIPE}
    trials = [entrant.trial for entrant in search.candidates.entrants.values()]
    absent = [name for name in search.settings.recipes if name not in made]
    needed = [name for name in absent if not _is_covered(name, trials)]
    return [remark("untried.recipes", recipes=needed)] if needed else []


def _is_covered(recipe: str, trials: Sequence[Trial]) -> bool:
    """Whether a recipe that runs as fast was made, and was not refused for its accuracy."""
    alike = [trial for trial in trials if trial.recipe in alike_in_speed(recipe) and trial.purpose is Purpose.RECIPE]
    return any(not trial.is_refused for trial in alike)


def _combinations(entrants: Sequence[Entrant]) -> list[Remark]:
    """How many pairs of a variant and a plan were not timed: one of the two was far behind in other pairs."""
    timed = [one.trial for one in entrants if one.trial.latency is not None]
    total = len({trial.variant for trial in timed}) * len({trial.plan for trial in timed})
    missing = total - len(timed)
    return [remark("untried.combinations", count=missing, total=total)] if missing > 0 else []

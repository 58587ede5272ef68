"""A mix of float and integers that keeps the floor, where a promising recipe breaks it.

Quantising one node at a time shows which ones hurt; then a search finds how many of them must stay float, with a few
evaluations where giving back one layer after the other takes up to as many as there are layers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.mixing import MixSearch, Sensitivity
from hasten.core.quantization import BUT, FOR_SIZE, SIZE, VariantRow, choose, worth_mixing
from hasten.practices.quantize_judge import CHOOSING
from hasten.practices.sensitivity import SHARE, Probe, sensitivities
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.practices.quantize.run import QuantizePractice

_MOST_RECIPES: Final = 2


def mix(practice: QuantizePractice) -> None:
    """Try mixes of the recipes that would be the choice if they kept the floor, until a mix is chosen."""
    goal = practice.settings.goal
    best = choose(practice.rows, goal)
    promising = [row for row in worth_mixing(practice.rows, goal) if not _same_kernels(row, best)]
    for row in promising[:_MOST_RECIPES]:
        search_mix(practice, row)
        practice.time_all(0.8)
        if choose(practice.rows, goal).recipe.startswith(_prefix(row, goal)):
            break


def mix_further(practice: QuantizePractice, row: VariantRow) -> bool:
    """A mix with more nodes float than one that has turned out to break the floor; whether there is one to try.

    Half of what is still quantised goes back, in the order of its search.
    """
    base = practice.folder.rows.get(row.recipe.rpartition(BUT)[0].removesuffix(FOR_SIZE))
    if base is None or not row.is_step:
        return False
    order = _in_order(practice, base)
    float_nodes = set(row.float_nodes)
    left = [entry for entry in order if not float_nodes.issuperset(entry.nodes)]
    if len(left) < 2:
        return False
    more = [node for entry in left[: len(left) // 2] for node in entry.nodes]
    _try(practice, base, [*float_nodes, *more])
    practice.time_all(0.85)
    return True


def search_mix(practice: QuantizePractice, row: VariantRow) -> MixSearch:
    """Search for the mix of a recipe that gives back least."""
    order = _in_order(practice, row)
    error = Probe(practice).error_of(Path(row.path)) if row.path else math.inf
    allowed = practice.judges.floor(CHOOSING).allowed or 0.0
    search, best = MixSearch(order, row.drop, allowed, error), None
    while (count := search.next) is not None:
        tried = _try(practice, row, [*row.float_nodes, *(node for entry in order[:count] for node in entry.nodes)])
        search.tell(count, tried.kept_when_judged, tried.drop)
        if tried.kept_when_judged:
            if best is not None:
                practice.forget_file(best)
            best = tried
    return search


def _same_kernels(row: VariantRow, best: VariantRow) -> bool:
    """Whether the choice runs the same kernels already: then the row's lead is noise, and a mix of it has fewer."""
    if row.nodes != best.nodes or best.base_recipe not in RECIPE_NAMES:
        return False
    recipes = [recipe_from_name(entry.base_recipe) for entry in (row, best)]
    return len({(recipe.weights, recipe.activations, recipe.computes_in_integers) for recipe in recipes}) == 1


def _in_order(practice: QuantizePractice, row: VariantRow) -> list[Sensitivity]:
    """The groups of a recipe's nodes, those first that are to stay float first."""
    return sorted(sensitivities(practice, row), key=lambda entry: -entry.cost)


def _try(practice: QuantizePractice, row: VariantRow, nodes: Sequence[int]) -> VariantRow:
    name = f"{_prefix(row, practice.settings.goal)}{len(nodes)}"
    return practice.judge(name, recipe_from_name(row.base_recipe), float_nodes=sorted(nodes), share=SHARE)


def _prefix(row: VariantRow, goal: str) -> str:
    """How the names of a recipe's mixes begin: for another goal, other nodes stay float."""
    return f"{row.recipe}{FOR_SIZE if goal == SIZE else ''}{BUT}"

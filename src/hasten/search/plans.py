"""The ways to run a model that are tried, from the simplest on; and which of them share their numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.trial import ORIGINAL
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name, same_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.machine import Machine
    from hasten.core.plan import Plan

# Beyond four, threads double: each count is a process in every round.
_EACH_UP_TO: Final = 4
# The likely fastest first; where the budget ends, what was made until then counts.
MAKING_ORDER: Final = (
    "static_int8",
    "float16",
    "dynamic_int8",
    "weight_only_int8",
    "weight_only_int4",
    "static_int16",
    "weight_only_int4_gptq",
    # Of those that run alike, what keeps most accuracy first.
    "static_int8_sequential",
    "static_int8_corrected",
    "static_int8_min_max",
    "static_int8_mse",
    "static_int8_octav",
)
_ACCELERATORS_LAST: Final = 2


def plans_to_try(machine: Machine, base: Plan) -> list[Plan]:
    """The plan in use first; then thread counts, the engine's own kernels as a check, and accelerators.

    What an accelerator leaves to the CPU gets all cores; one that takes everything is not touched by that.
    """
    cores = len(base.cores) or machine.cores
    doubling = {2**power for power in range(cores.bit_length())}
    counts = [count for count in range(1, cores + 1) if count <= _EACH_UP_TO or count in (*doubling, cores)]
    plans = [replace(base, accelerator="cpu", delegate="", kernel="delegate", threads=count) for count in counts]
    plans.append(replace(base, accelerator="cpu", delegate="", kernel="builtin", threads=1))
    plans += [replace(base, accelerator=name, delegate="", kernel="delegate", threads=cores) for name in ("npu", "gpu")]
    return list(dict.fromkeys([base, *plans]))


def cached_plans(plans: Sequence[Plan], folder: str) -> list[Plan]:
    """The same with a cache for the next start, where that could help. Each accelerator has a folder of its own: what
    it leaves to the CPU is another part of the model."""
    able = [plan for plan in plans if plan.may_keep_cache and not plan.cache]
    return [replace(plan, cache=f"{folder}/{plan.accelerator}") for plan in able]


def numbers_of(plan: Plan) -> str:
    """Plans of the same family give the same answers, but for rounding: only one of them needs an evaluation."""
    if plan.delegate:
        return f"delegate {plan.delegate}"
    return plan.accelerator if not plan.runs_on_cpu or plan.kernel == "delegate" else f"cpu, {plan.kernel} kernels"


def keeps_numbers(plan: Plan, base: Plan) -> bool:
    """Whether the plan computes as the base does."""
    return numbers_of(plan) == numbers_of(base)


def simplicity(variant: str, plan: Plan, base: Plan) -> tuple[int, int, int, bool, str]:
    """Sorts from the simplest on: among equals the simpler one is the answer."""
    family = _ACCELERATORS_LAST if not plan.runs_on_cpu else int(plan.kernel != "delegate")
    threads = 100 * family + plan.threads
    return int((variant, plan) != (ORIGINAL, base)), _rank(variant), threads, bool(plan.cache), variant


def alike_in_speed(recipe: str) -> list[str]:
    """Recipes that run on the same kernels and differ in numbers only, itself left out; in the order to try them."""
    return sorted((other.name for other in same_kernels(recipe_from_name(recipe))), key=MAKING_ORDER.index)


def first_recipes(recipes: Sequence[str]) -> list[str]:
    """One of each kind, in the order in which to make them: the rest is made where its like breaks the floor."""
    chosen: list[str] = []
    for name in sorted(recipes, key=MAKING_ORDER.index):
        if not any(name in alike_in_speed(other) for other in chosen):
            chosen.append(name)
    return chosen


def _rank(variant: str) -> int:
    if variant == ORIGINAL:
        return 0
    return 1 + RECIPE_NAMES.index(variant) if variant in RECIPE_NAMES else 1 + len(RECIPE_NAMES)

"""The steps of a proof: from the original to the result, one change at a time."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from simulated import candidate

from hasten.core.comparison import Verdict
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.trial import ORIGINAL, Purpose, Step, Trial
from hasten.measure.rounds import Track
from hasten.search.candidates import Entrant
from hasten.search.confirming import Confirmation, Link, Proof

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.search.search import Search

NPU = Plan(accelerator="npu", threads=2)


def rewritten(name: str, rewrite: str, source: str = "") -> Trial:
    return Trial(name, purpose=Purpose.REWRITE, notes=(remark("made", rewrites=[rewrite]),), source=source)


MADE = {
    "static_int8": Trial("static_int8", recipe="static_int8"),
    "rewritten": rewritten("rewritten", "layout"),
    "int8 of it": Trial("int8 of it", recipe="static_int8", source="rewritten"),
    "with kernels": rewritten("with kernels", "softmax", "static_int8"),
    "twice": rewritten("twice", "fusing", "rewritten"),
}


def chain(variant: str, plan: Plan, log_costs: Mapping[int, float], base: Plan = Plan()) -> list[Link]:
    """The steps to a variant on a plan, in a race that placed the original with so many threads of the CPU there."""

    def entrant(trial: Trial) -> Entrant:
        return Entrant(trial, candidate(trial.id), Track(candidate(trial.id)))

    originals = [entrant(Trial(ORIGINAL, replace(base, threads=threads))) for threads in log_costs]
    slow_kernels = entrant(Trial(ORIGINAL, replace(base, kernel="builtin", threads=8)))
    candidates = SimpleNamespace(
        base=next(one for one in originals if one.trial.plan == base),
        entrants={one.trial.id: one for one in [*originals, slow_kernels]},
        on_plan=lambda one: log_costs.get(one.trial.plan.threads, -9.0),
    )
    store = SimpleNamespace(
        original=Trial(ORIGINAL),
        variant=MADE.__getitem__,
        candidate_of=lambda trial, plan, label: replace(candidate(trial.variant), label=label, plan=plan),
    )
    search = cast("Search", SimpleNamespace(candidates=candidates, store=store))
    return Confirmation(search, until=0.0)._chain(entrant(Trial(variant, plan)))


def told(links: Sequence[Link]) -> list[tuple[str, str]]:
    return [(link.practice, link.what.code) for link in links[1:]]


@pytest.mark.parametrize(
    ("variant", "plan", "steps"),
    [
        (ORIGINAL, Plan(threads=2), [("threads", "step.threads")]),
        ("static_int8", Plan(), [("quantize", "step.variant")]),
        ("static_int8", Plan(threads=2), [("threads", "step.threads"), ("quantize", "step.variant")]),
        ("rewritten", Plan(), [("operators", "step.rewritten")]),
        ("int8 of it", Plan(), [("operators", "step.rewritten"), ("quantize", "step.variant")]),
        ("with kernels", Plan(), [("quantize", "step.variant"), ("operators", "step.rewritten")]),
        ("twice", Plan(), [("operators", "step.rewritten")]),
        (ORIGINAL, Plan(kernel="builtin"), [("accelerators", "step.where")]),
        (ORIGINAL, Plan(cache="kept"), [("accelerators", "step.cache")]),
        (
            "static_int8",
            Plan(threads=2, kernel="builtin", cache="kept"),
            [
                ("threads", "step.threads"),
                ("accelerators", "step.where"),
                ("accelerators", "step.cache"),
                ("quantize", "step.variant"),
            ],
        ),
    ],
)
def test_one_step_changes_one_thing(variant: str, plan: Plan, steps: list[tuple[str, str]]) -> None:
    links = chain(variant, plan, {1: 0.0, 2: math.log(0.6)})
    assert links[0].candidate.plan == Plan()
    assert told(links) == steps
    assert (links[-1].candidate.path, links[-1].candidate.plan) == (candidate(variant).path, plan)
    for one, other in pairwise(links):
        changed = {item.name for item in fields(Plan) if _differs(item.name, one, other)}
        changed |= {"model"} if one.candidate.path != other.candidate.path else set()
        assert len(changed) == 1


def _differs(name: str, one: Link, other: Link) -> bool:
    return bool(getattr(one.candidate.plan, name) != getattr(other.candidate.plan, name))


def test_an_accelerator_is_measured_by_the_best_of_the_cpu() -> None:
    """What more threads would gain on the CPU is theirs; those that the NPU's own plan adds are a step of their own."""
    npu = replace(NPU, threads=4)
    links = chain("static_int8", npu, {1: 0.0, 2: math.log(0.6), 4: math.log(0.9)})
    threads, where = ("threads", "step.threads"), ("accelerators", "step.where")
    assert told(links) == [threads, where, threads, ("quantize", "step.variant")]
    assert [link.what.facts["threads"] for link in links if link.practice == "threads"] == [2, 4]
    assert [link.candidate.plan for link in links[2:]] == [replace(npu, threads=2), npu, npu]


@pytest.mark.parametrize(
    "log_costs", [{1: 0.0}, {1: 0.0, 2: math.log(0.99)}, {1: 0.0, 2: math.log(1.4)}, {1: 0.0, 2: math.inf}]
)
def test_threads_without_a_likely_gain_are_no_step_to_an_accelerator(log_costs: dict[int, float]) -> None:
    """Those of other kernels are another change, however fast they are."""
    links = chain(ORIGINAL, NPU, log_costs)
    assert told(links) == [("accelerators", "step.where"), ("threads", "step.threads")]
    assert links[1].candidate.plan == replace(NPU, threads=1)


def test_rewrites_of_a_rewritten_graph_are_one_step_with_all_of_them() -> None:
    (step,) = chain("twice", Plan(), {1: 0.0})[1:]
    assert step.what.facts["rewrites"] == ["layout", "fusing"]


def step(practice: str, ratio: float, verdict: Verdict) -> Step:
    return Step(practice, 1.0, ratio, ratio, (0.9 * ratio, 1.1 * ratio), remark("made"), verdict)


@pytest.mark.parametrize(
    ("of_plan", "of_variant", "variant", "goes_on"),
    [
        (Verdict.UNDECIDED, 0.6, "static_int8", True),
        (Verdict.SAME, 0.6, "static_int8", True),
        (Verdict.SLOWER, 0.6, "static_int8", True),
        (Verdict.SLOWER, 0.99, "static_int8", True),
        (Verdict.FASTER, 0.6, "static_int8", False),
        (Verdict.UNDECIDED, 0.99, "static_int8", False),
        (Verdict.UNDECIDED, 0.6, ORIGINAL, False),
    ],
)
def test_a_variant_whose_plan_is_not_proven_is_proven_on_the_plan_in_use(
    of_plan: Verdict, of_variant: float, variant: str, goes_on: bool
) -> None:
    """A host moved its cores during the proof: two threads were undecided, and the answer was the original, although
    the variant takes 0.6 of its time on one."""

    def entrant(trial: Trial) -> Entrant:
        return Entrant(replace(trial, floor=FloorState.KEPT), candidate(trial.id), Track(candidate(trial.id)))

    original, judged = entrant(Trial(ORIGINAL)), list[str]()
    search = SimpleNamespace(
        candidates=SimpleNamespace(base=original),
        enter=lambda name, plan: entrant(Trial(name, plan)),
        elimination=SimpleNamespace(
            guard=SimpleNamespace(judge=lambda one: judged.append(one.trial.id)), fits=lambda one: True
        ),
    )
    confirmation = Confirmation(cast("Search", search), until=0.0)
    steps = (step("threads", 1.2, of_plan), step("quantize", of_variant, Verdict.UNDECIDED))
    proof = Proof((), (), (), steps)
    found = confirmation._on_plan_in_use(entrant(Trial(variant, Plan(threads=2))), proof)
    assert (found is not None) is goes_on
    assert judged == (["static_int8@cpu, 1 thread"] if goes_on else [])
    assert found is None or found.trial.plan == Plan()
    again = entrant(Trial("static_int8", Plan()))
    assert confirmation._on_plan_in_use(again, Proof((), (), (), steps[1:])) is None, "nothing is proven twice"

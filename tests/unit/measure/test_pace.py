"""What slowed both candidates of a round, turn by turn: taken out, their ratio is what it is on a quiet machine."""

from __future__ import annotations

import itertools
import math
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import Behaviour, Clock, SimulatedTarget, candidate, install_clock

from hasten.core.block import Block, Turn
from hasten.core.codec import from_data, to_data
from hasten.core.comparison import Verdict, compare_levels
from hasten.core.plan import Plan
from hasten.core.samples import Samples
from hasten.measure.rounds import Rounds, slowdowns

SLOWED = math.log(1.7)
TURNS = 60


def neighbor(source: np.random.Generator, turns: int, share: float = 0.7, stays: float = 0.6) -> list[bool]:
    """Whether somebody else has the core's other thread: for a while, again and again."""
    states = [bool(source.random() < share)]
    while len(states) < turns:
        states.append(states[-1] if source.random() < stays else bool(source.random() < share))
    return states


def a_round(source: np.random.Generator, ratio: float, number: int) -> tuple[Block, Block]:
    """Two candidates in turns, next to a neighbor that is often gone before the second one's turn is over."""
    states = neighbor(source, 2 * TURNS)
    levels: list[list[float]] = [[], []]
    for turn in range(TURNS):
        for place in (0, 1) if turn % 2 == 0 else (1, 0):
            own = math.log(ratio) * place + SLOWED * states[2 * turn + place] + source.normal(0, 0.01)
            levels[place].append(math.log(1e6) + own)
    slowed = slowdowns(*levels)
    blocks = []
    for found in levels:
        times = array("q", itertools.chain.from_iterable([round(math.exp(level))] * 3 for level in found))
        blocks.append(Block(number, 0.0, times, turns=tuple(Turn(3, value) for value in slowed)))
    return blocks[0], blocks[1]


def ratios(ratio: float, seed: int, rounds: int = 8) -> list[float]:
    source = np.random.default_rng(seed)
    pairs = [a_round(source, ratio, number) for number in range(rounds)]
    first, second = (Samples(tuple(blocks)).levels for blocks in zip(*pairs, strict=True))
    return [second[number] - first[number] for number in first]


@pytest.mark.parametrize("ratio", [1.0, 1.05, 0.6])
def test_ratios_next_to_a_neighbor_are_those_of_a_quiet_machine(ratio: float) -> None:
    found = np.array([ratios(ratio, seed) for seed in range(20)]) - math.log(ratio)
    assert abs(found.mean()) < 0.005
    assert found.std() < 0.03


def test_verdicts_next_to_a_neighbor_are_right() -> None:
    """One of equal candidates is never called faster; 5 % are found in most comparisons of eight rounds."""
    verdicts: dict[float, list[Verdict]] = {1.0: [], 1.05: []}
    for ratio, seed in itertools.product(verdicts, range(60)):
        source = np.random.default_rng(seed)
        pairs = [a_round(source, ratio, number) for number in range(8)]
        first, second = (Samples(tuple(blocks)).levels for blocks in zip(*pairs, strict=True))
        found = compare_levels(first, second)
        assert found is not None
        verdicts[ratio].append(found.verdict)
    assert set(verdicts[1.0]) <= {Verdict.SAME, Verdict.UNDECIDED}
    assert verdicts[1.05].count(Verdict.SLOWER) >= 45
    assert Verdict.FASTER not in verdicts[1.05]


def test_without_its_turns_such_a_round_tells_less() -> None:
    """What the turns are kept for: the same times, compared by the quickest runs of each."""
    source = np.random.default_rng(1)
    paced: list[float] = []
    plain: list[float] = []
    for number in range(100):
        blocks = a_round(source, 1.0, number)
        for found, kept in ((paced, True), (plain, False)):
            one, other = (
                Samples((block if kept else Block(number, 0.0, block.nanoseconds),)).levels[number] for block in blocks
            )
            found.append(other - one)
    assert np.std(paced) < np.std(plain) + 0.005
    assert np.std(paced) < 0.03


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), max_size=40), st.floats(-5, 5))
def test_a_shift_of_one_candidate_changes_their_ratio_only(pairs: list[tuple[float, float]], shift: float) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    found = slowdowns(first, second)
    assert len(found) in (0, len(pairs))
    assert found == pytest.approx(slowdowns(first, [level + shift for level in second]), abs=2e-4)


def test_few_turns_tell_nothing() -> None:
    assert slowdowns([0.0] * 4, [1.0] * 4) == []
    assert len(slowdowns([0.0] * 9, [1.0] * 7)) == 7


@pytest.mark.parametrize("turn", [[2, "x"], [2, 1e9], [-1, 0.1], ["2", 0.1], [2, float("nan")]])
def test_a_session_keeps_turns_that_make_sense(turn: list[object]) -> None:
    block = Block(1, 0.5, array("q", [10, 11, 12]), turns=(Turn(2, 0.25), Turn(1)))
    assert from_data(Block, to_data(block)) == block
    with pytest.raises(ValueError, match="a turn of runs holds"):
        from_data(Block, {**to_data(block), "turns": [turn]})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


def turns_of(clock: Clock, plans: list[Plan]) -> set[bool]:
    names = "abc"[: len(plans)]
    target = SimulatedTarget(clock, {name: Behaviour(1.0) for name in names})
    rounds = Rounds(target, [candidate(name, plan=plan) for name, plan in zip(names, plans, strict=True)])
    rounds.run_one(0.3)
    blocks = [block for track in rounds.tracks for block in track.blocks]
    assert all(sum(turn.runs for turn in block.turns) == len(block.nanoseconds) for block in blocks if block.turns)
    return {bool(block.turns) for block in blocks}


def test_only_two_that_are_slowed_alike_share_a_pace(clock: Clock) -> None:
    assert turns_of(clock, [Plan(), Plan()]) == {True}
    assert turns_of(clock, [Plan(), Plan(threads=2)]) == {False}
    assert turns_of(clock, [Plan(), Plan(), Plan()]) == {False}
    assert turns_of(clock, [Plan()]) == {False}

"""How many threads: constructed rounds for each complaint of users, and properties that hold for any rounds."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core.block import Block, Conditions
from hasten.core.finding import Standing
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import remark_from_data
from hasten.practices.threads.facts import LOAD_KINDS, SITUATIONS, Choice, Condition, Effect, Option, Row, ThreadsFound
from hasten.practices.threads.rules import Round, choose_threads, counted_rounds, effects_of_options, finding_of
from hasten.practices.threads.view import view
from hasten.practices.threads.words import BOOK, PHRASES, condition_words
from hasten.runner.background_load import KINDS
from hasten.show.blocks import Chart

Latencies = Mapping[Any, float]
"""Milliseconds by option, or by number of threads."""
_CORES = 4


def rounds(
    latencies_ms: Latencies,
    situation: str = "quiet",
    *,
    tails: Latencies | None = None,
    by_kind: Mapping[str, Latencies] | None = None,
    count: int = 8,
    noise: float = 0.01,
    seed: int = 0,
) -> list[Round]:
    """Rounds of three blocks of 20 runs each; a tail is a factor on one run of ten."""
    source = np.random.default_rng(seed)
    kinds = [""] if situation == "quiet" else list(LOAD_KINDS)
    made = []
    for number in range(count):
        for kind in kinds:
            blocks = {}
            for key, latency_ms in {**latencies_ms, **(by_kind or {}).get(kind, {})}.items():
                tail = (tails or {}).get(key, 1.0)
                blocks[_option(key)] = [_block(number, latency_ms, tail, source, noise) for _ in range(3)]
            made.append(Round(Condition(situation, kind, 0 if situation == "quiet" else 2), blocks))
    return made


def _option(key: Option | int) -> Option:
    return key if isinstance(key, Option) else Option(key)


def _block(number: int, latency_ms: float, tail: float, source: np.random.Generator, noise: float) -> Block:
    centre = latency_ms * float(np.exp(source.normal(0, noise)))
    times = [centre * (tail if run % 10 == 0 else 1.0) for run in range(20)]
    return Block(number, 0.0, array("q", [round(value * 1e6) for value in times]))


def chosen(made: list[Round], situation: str = "quiet", cores: int = _CORES) -> Choice:
    choice = choose_threads(situation, made, cores)
    assert choice is not None
    return choice


def test_a_count_that_pays_is_recommended_and_the_reason_has_its_gain() -> None:
    choice = chosen(rounds({1: 10.0, 2: 5.5, 3: 5.6, 4: 5.4, 5: 9.0}))
    assert choice.option == Option(2)
    assert choice.sure
    assert choice.why.code == "threads.faster"
    assert choice.why.facts["ratio"]["ratio"] == pytest.approx(0.55, abs=0.02)
    assert choice.why.facts["later"] == {"threads": 4, "cores": []}


def test_more_threads_that_pay_each_time_lead_up_to_all_cores() -> None:
    assert chosen(rounds({1: 10.0, 2: 5.2, 3: 3.7, 4: 2.8, 5: 4.0})).option == Option(4)


def test_four_threads_slower_than_one() -> None:
    """510 ms against 250 ms, as a user reported."""
    choice = chosen(rounds({1: 250.0, 2: 300.0, 4: 510.0}))
    assert choice.option == Option(1)
    assert choice.why.code == "threads.slower"
    assert choice.why.facts["ratio"]["ratio"] == pytest.approx(1.2, abs=0.03)
    assert choice.sure


def test_setting_that_had_no_effect_is_not_recommended_even_if_noise_favors_it() -> None:
    choice = choose_threads("quiet", rounds({1: 10.0, 2: 9.0, 4: 8.0}), _CORES, {Option(2), Option(4)})
    assert choice is not None
    assert choice.option == Option(1)
    assert choice.why.code == "threads.no-effect"


def test_a_count_without_effect_is_never_the_one_to_use() -> None:
    choice = choose_threads("quiet", rounds({1: 10.0, 2: 9.9, 4: 10.5}), _CORES, {Option(2)})
    assert choice is not None
    assert choice.option == Option(1)
    assert BOOK.text(choice.why).startswith("Use 1 thread on an idle device: 4 threads would be 1.05× slower")


def test_big_and_little_cores_by_affinity() -> None:
    """172, 143 or 281 ms by affinity, as a user reported: the big cores win over leaving it to the scheduler."""
    big, little = (4, 5, 6, 7), (0, 1, 2, 3)
    made = rounds({Option(4): 172.0, Option(4, big): 143.0, Option(4, little): 281.0})
    choice = chosen(made, cores=8)
    assert choice.option == Option(4, big)
    assert choice.why.facts["option"] == {"threads": 4, "cores": [4, 5, 6, 7]}


def test_to_be_tied_to_some_cores_must_pay_as_a_doubling_does() -> None:
    assert chosen(rounds({Option(4): 100.0, Option(4, (4, 5, 6, 7)): 97.0}), cores=8).option == Option(4)


def test_gain_below_five_percent_a_doubling_does_not_pay() -> None:
    choice = chosen(rounds({1: 10.0, 2: 9.7, 4: 9.3}))
    assert choice.option == Option(1)
    assert choice.why.code == "threads.not-proven"


def test_too_few_rounds_prove_nothing_and_say_so() -> None:
    choice = chosen(rounds({1: 10.0, 2: 5.0}, count=3))
    assert choice.option == Option(1)
    assert not choice.sure
    assert choice.why.code == "threads.few-rounds"
    assert choice.why.facts["rounds"] == 3


def test_the_reason_of_one_round_survives_a_session() -> None:
    """Its interval is open: no JSON has a number for that."""
    why = chosen(rounds({1: 10.0, 2: 5.0}, count=1)).why
    read = remark_from_data(json.loads(json.dumps(BOOK.remark_data(why), allow_nan=False)))
    assert BOOK.text(read) == BOOK.text(why)
    assert BOOK.text(read).startswith("1 round is too few to prove that 2 threads would be faster")


def standing(made: list[Round], current: int = 1, situation: str = "quiet", cores: int = _CORES) -> Standing:
    by_load = {situation: chosen(made, situation, cores)}
    found = ThreadsFound(Model("m", 1, ""), Plan(threads=current), situation, (), by_load, (), cores)
    return finding_of(found).standing


def spread(log_ratios: Sequence[float]) -> list[Round]:
    """Rounds in which two threads take these logarithms more than one."""
    made = []
    for number, ratio in enumerate(log_ratios):
        one, two = (round(1e7 * math.exp(sign * ratio / 2)) for sign in (-1, 1))
        blocks = {Option(n): [Block(number, 0.0, array("q", [ns] * 20))] for n, ns in ((1, one), (2, two))}
        made.append(Round(Condition("quiet", "", 0), blocks))
    return made


def test_what_rounds_leave_open_is_undecided_and_what_they_exclude_is_good() -> None:
    open_rounds = spread((-0.1, 0.04, -0.12, 0.05, -0.09))
    assert chosen(open_rounds).why.code == "threads.not-proven"
    assert not chosen(open_rounds).sure
    assert standing(open_rounds) is Standing.UNDECIDED
    assert standing(open_rounds, current=2) is Standing.UNDECIDED, "nothing speaks against two"
    assert standing(rounds({1: 10.0, 2: 9.9}, noise=0.002)) is Standing.GOOD, "no gain of 5 % is possible"
    assert standing(rounds({1: 10.0, 2: 12.0})) is Standing.GOOD
    assert standing(rounds({1: 10.0, 2: 5.0}), current=2) is Standing.GOOD


@pytest.mark.parametrize(
    ("cpu_seconds", "said"), [(1.0, "Fewer threads leave cores to other processes."), (1.2, "use less CPU time.")]
)
def test_fewer_threads_are_said_to_save_cpu_time_only_where_they_do(cpu_seconds: float, said: str) -> None:
    used = []
    for item in spread((-0.1, 0.04, -0.12, 0.05, -0.09)):
        one, two = (_under(item, Conditions(cpu_seconds=seconds)) for seconds in (1.0, cpu_seconds))
        used.append(replace(item, blocks={Option(1): one.blocks[Option(1)], Option(2): two.blocks[Option(2)]}))
    assert BOOK.text(chosen(used).why).endswith(said)


@pytest.mark.parametrize(
    ("made", "mark"), [(rounds({1: 10.0, 2: 5.0}, count=3), "undecided"), (rounds({1: 10.0, 2: 12.0}), "use this")]
)
def test_only_a_decided_row_is_to_be_used(made: list[Round], mark: str) -> None:
    rows = tuple(row(threads, 1.0, seen=threads) for threads in (1, 2))
    found = ThreadsFound(Model("m", 1, ""), Plan(), "quiet", rows, {"quiet": chosen(made)}, (), _CORES)
    (chart,) = (block for block in view(found) if isinstance(block, Chart))
    assert [cells[-1].text for cells in chart.table.rows] == [mark, ""]


def test_options_that_never_met_are_undecided() -> None:
    apart = [*rounds({1: 10.0}), *rounds({2: 5.0})]
    assert not chosen(apart).sure
    assert standing(apart) is Standing.UNDECIDED


def test_more_threads_than_cores_are_never_recommended() -> None:
    assert chosen(rounds({1: 10.0, 2: 5.0, 3: 1.0}), cores=2).option == Option(2)


@pytest.mark.parametrize("situation", ["shared", "busy"])
def test_p95_counts_beside_other_work(situation: str) -> None:
    made = rounds({1: 10.0, 2: 8.0}, situation, tails={2: 4.0})
    assert chosen(made, situation).option == Option(1)
    assert chosen(rounds({1: 10.0, 2: 8.0}, tails={2: 4.0})).option == Option(2)


@pytest.mark.parametrize("situation", ["shared", "busy"])
def test_all_cores_slower_beside_a_busy_core_are_not_recommended(situation: str) -> None:
    made = [*rounds({1: 10.0, 2: 5.5}), *rounds({1: 11.0, 2: 14.0}, situation)]
    assert chosen(made, "quiet", 2).option == Option(2)
    assert chosen(made, situation, 2).option == Option(1)


def test_slower_beside_one_kind_of_work_is_enough_to_refuse() -> None:
    made = rounds({1: 10.0, 2: 4.0}, "busy", by_kind={"memory": {1: 10.0, 2: 10.6}})
    choice = chosen(made, "busy")
    assert choice.option == Option(1)


def test_noise_beside_one_kind_of_work_refuses_nothing() -> None:
    """A tenth of a percent beside compute work, and less than half of the time beside memory work."""
    made = rounds({1: 10.0, 2: 10.01}, "busy", by_kind={"memory": {1: 20.0, 2: 8.0}}, noise=0.002)
    choice = chosen(made, "busy")
    assert choice.option == Option(2)
    assert choice.why.code == "threads.faster"


def test_what_may_be_slower_beside_one_kind_of_work_is_undecided() -> None:
    made = rounds({1: 10.0, 2: 10.4}, "busy", by_kind={"memory": {1: 20.0, 2: 6.0}}, noise=0.10, seed=3)
    choice = chosen(made, "busy")
    assert choice.option == Option(1)
    assert "not proven as fast alongside compute work" in BOOK.text(choice.why)
    assert not choice.sure
    assert standing(made, situation="busy") is Standing.UNDECIDED


def test_what_is_slower_beside_one_kind_of_work_is_settled() -> None:
    made = rounds({1: 10.0, 2: 11.5}, "busy", by_kind={"memory": {1: 20.0, 2: 6.0}})
    assert "slower alongside compute work" in BOOK.text(chosen(made, "busy").why)
    assert chosen(made, "busy").sure
    assert standing(made, situation="busy") is Standing.GOOD


def test_that_more_threads_gain_nothing_is_said_only_if_it_is_sure() -> None:
    sure = chosen(rounds({1: 10.0, 2: 5.5, 4: 5.5}))
    assert "Going up to 4 threads does not gain" in BOOK.text(sure.why)
    open_ = chosen(rounds({1: 10.0, 2: 5.5, 4: 5.35}, noise=0.05))
    assert open_.option == Option(2)
    assert not open_.sure
    assert "Going up" not in BOOK.text(open_.why)


def test_the_ratio_beside_other_work_counts_both_kinds_of_it() -> None:
    """Beside memory work everything takes twice as long, and a second thread gains nothing."""
    step = chosen(rounds({1: 20.0, 2: 11.0}, "busy", by_kind={"memory": {1: 40.0, 2: 39.9}}), "busy").steps[0]
    assert 1 / step.ratio == pytest.approx(1.35, abs=0.02)
    assert step.rounds == 16


def test_rounds_that_a_load_slowed_down_count_in_the_ratio() -> None:
    made = [
        item
        for seed, factor in enumerate((1.0, 1.4, 1.5, 1.6, 2.0))
        for item in rounds({1: 10.0 * factor, 2: 5.0 * factor}, "busy", count=1, seed=seed)
    ]
    choice = chosen(made, "busy")
    assert choice.steps[0].rounds == 10
    assert choice.option == Option(2)


def test_only_rounds_that_both_took_part_in_count() -> None:
    made = rounds({1: 10.0, 2: 5.0}, count=6)
    made += rounds({1: 1000.0}, count=6)
    assert chosen(made).steps[0].rounds == 6


def test_nothing_measured_in_a_situation_gives_no_choice() -> None:
    assert choose_threads("busy", rounds({1: 10.0}), 2) is None
    assert chosen(rounds({1: 10.0})).why.code == "threads.nothing-else"


def test_the_words_for_loads_agree_on_both_sides() -> None:
    assert tuple(LOAD_KINDS) == KINDS


_LATENCIES = st.lists(st.floats(0.01, 1e4), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(_LATENCIES, st.data(), st.sampled_from(list(SITUATIONS)))
def test_making_a_count_slower_never_makes_it_recommended(
    latencies: list[float], data: st.DataObject, situation: str
) -> None:
    table = dict(enumerate(latencies, 1))
    count = data.draw(st.sampled_from(list(table)))
    factor = data.draw(st.floats(1.0, 10.0))
    before = chosen(rounds(table, situation, count=5), situation, 8).option
    after = chosen(rounds({**table, count: table[count] * factor}, situation, count=5), situation, 8).option
    assert after != Option(count) or before == after


@settings(max_examples=60, deadline=None)
@given(_LATENCIES, st.floats(0.01, 100.0), st.sampled_from(list(SITUATIONS)))
def test_a_faster_or_slower_machine_changes_nothing(latencies: list[float], factor: float, situation: str) -> None:
    table = dict(enumerate(latencies, 1))
    scaled = {key: value * factor for key, value in table.items()}
    # Whole nanoseconds round a little; far from the threshold that changes nothing.
    first, second = chosen(rounds(table, situation), situation, 8), chosen(rounds(scaled, situation), situation, 8)
    if all(abs(math.log(step.ratio / step.needed)) > 1e-3 and step.sure for step in (*first.steps, *second.steps)):
        assert first.option == second.option


@settings(max_examples=60, deadline=None)
@given(_LATENCIES, st.sampled_from(list(SITUATIONS)), st.integers(1, 8))
def test_the_choice_is_an_option_that_was_measured_and_never_slower_than_the_fewest(
    latencies: list[float], situation: str, cores: int
) -> None:
    table = dict(enumerate(latencies, 1))
    choice = chosen(rounds(table, situation), situation, cores)
    assert choice.option.threads in table
    assert choice.option.threads <= max(cores, 1)
    assert table[choice.option.threads] <= table[1]
    assert choice.why.code in PHRASES


@pytest.mark.parametrize(
    ("truth", "noise"), [({1: 10.0, 2: 6.0}, 0.10), ({1: 10.0, 2: 10.0}, 0.10), ({1: 10.0, 2: 12.0}, 0.15)]
)
@pytest.mark.parametrize("situation", list(SITUATIONS))
def test_reruns_give_the_same_recommendation(truth: Latencies, noise: float, situation: str) -> None:
    found = Counter(chosen(rounds(truth, situation, noise=noise, seed=seed), situation, 2).option for seed in range(40))
    assert found.most_common(1)[0][1] >= 36


def row(threads: int, cores_used: float, *, seen: int | None, others: float | None = 0.0, workers: int = 0) -> Row:
    return Row(
        threads=threads,
        load="shared" if workers else "quiet",
        median_ms=1.0,
        p95_ms=1.2,
        cpu_seconds=0.001,
        load_kind="compute" if workers else None,
        load_workers=workers,
        cores_used=cores_used,
        effective_threads=seen,
        other_cores_busy=others,
    )


def effect_of(rows: list[Row], threads: int, cores: int = 4) -> tuple[Effect, str]:
    found = next(effect for effect in effects_of_options(rows, cores) if effect.option.threads == threads)
    assert found.evidence.facts["option"]["threads"] == threads
    return found.effect, found.evidence.code


def test_effect_is_proved_by_cores_kept_busy() -> None:
    assert effect_of([row(1, 1.0, seen=1), row(2, 1.9, seen=2)], 2) == (Effect.TAKEN, "threads.effect")


def test_threads_that_were_never_started() -> None:
    assert effect_of([row(1, 1.0, seen=1), row(4, 1.0, seen=1)], 4) == (Effect.NONE, "threads.fewer-seen")


@pytest.mark.parametrize(
    ("seen", "cause"), [((1, 4), "too small to be split"), ((None, None), "these kernels use one thread")]
)
def test_threads_that_had_nothing_to_do(seen: tuple[int | None, int | None], cause: str) -> None:
    rows = [row(1, 1.0, seen=seen[0]), row(4, 1.02, seen=seen[1])]
    assert effect_of(rows, 4) == (Effect.NONE, "threads.idle")
    assert cause in BOOK.text(effects_of_options(rows, 4)[1].evidence)


def test_effect_cannot_be_judged_where_no_core_is_free() -> None:
    assert effect_of([row(1, 0.6, seen=1), row(2, 0.6, seen=2, others=1.4)], 2, cores=2)[0] is Effect.UNKNOWN
    assert effect_of([row(1, 1.0, seen=1), row(2, 1.0, seen=2)], 2, cores=1)[0] is Effect.UNKNOWN


def test_effect_is_judged_alone_only() -> None:
    assert effects_of_options([row(2, 0.5, seen=2, workers=2)], 4) == []


def test_conditions_are_named_for_people() -> None:
    assert condition_words(Condition("quiet")) == "idle device"
    assert condition_words(Condition("shared", "compute", 1)) == "1 core busy (compute)"
    assert condition_words(Condition("busy", "memory", 2)) == "2 cores busy (memory)"
    assert Option(2, (0, 1, 2, 5)).plan_text() == "threads=2,cores=0-2+5"


def test_rounds_beside_other_programs_do_not_count_as_alone() -> None:
    alone = rounds({1: 2.0, 2: 1.1}, count=6)
    disturbed = [_beside_others(item) for item in rounds({1: 2.0, 2: 2.4}, count=4, seed=1)]
    assert chosen([*alone, *disturbed]).option == Option(2)
    assert chosen(disturbed).option == Option(1)  # nothing else is known, so they have to do


@pytest.mark.parametrize(("usable_busy", "standing_then"), [(0.0, Standing.GOOD), (0.9, Standing.UNDECIDED)])
def test_only_load_on_the_cores_of_a_container_leaves_a_step_undecided(
    usable_busy: float, standing_then: Standing
) -> None:
    """Two cores of sixteen, and others keep five of the sixteen busy."""
    busy = Conditions(0.05, 0.05, 5.0, cores=16, usable_cores=2, usable_cores_busy=usable_busy)
    assert standing([_under(item, busy) for item in rounds({1: 2.0, 2: 2.4})], cores=2) is standing_then


def test_a_round_beside_programs_on_other_cores_counts_as_alone() -> None:
    elsewhere = Conditions(0.05, 0.05, 5.0, cores=16, usable_cores=2, usable_cores_busy=0.0)
    on_ours = replace(elsewhere, usable_cores_busy=0.9)
    alone = [_under(item, elsewhere) for item in rounds({1: 2.0, 2: 1.1}, count=6)]
    disturbed = [_under(item, on_ours) for item in rounds({1: 2.0, 2: 2.4}, seed=1)]
    assert counted_rounds([*alone, *disturbed]) == alone


def test_load_on_other_cores_does_not_hide_the_effect() -> None:
    rows = [
        replace(row(threads, 0.95 * threads, seen=threads, others=5.0), usable_cores_busy=0.0) for threads in (1, 2)
    ]
    assert effect_of(rows, 2, cores=2) == (Effect.TAKEN, "threads.effect")


def _beside_others(item: Round) -> Round:
    return _under(item, Conditions(wall_seconds=0.05, cpu_seconds=0.05, other_cores_busy=0.9))


def _under(item: Round, busy: Conditions) -> Round:
    blocks = {option: [replace(block, conditions=busy) for block in made] for option, made in item.blocks.items()}
    return replace(item, blocks=blocks)

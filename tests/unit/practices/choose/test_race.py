"""One race of many models on a simulated machine, against a truth that is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from simulated import Behaviour, SimulatedTarget, candidate, install_clock

from hasten.core.accuracy import Accuracy
from hasten.core.codec import from_data
from hasten.core.comparison import FEWEST_ROUNDS, Verdict
from hasten.core.measurement import Measurement
from hasten.core.session import Line, merged_rounds
from hasten.measure.effort import Effort
from hasten.measure.schedule import Schedule
from hasten.practices.choose.accuracies import Accuracies
from hasten.practices.choose.candidates import Contender
from hasten.practices.choose.facts import ModelRow, Place, Source
from hasten.practices.choose.front import MOST_ROUNDS
from hasten.practices.choose.race import _SECONDS, MOST_AT_ONCE, Race

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulated import Clock

NOISE = 0.01
MARGIN = 1.03


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install_clock(monkeypatch)


def contender(name: str, accuracy: float | None, size: int = 100, **row: Any) -> Contender:
    known = None if accuracy is None else Accuracy("top-1", accuracy, -math.inf, math.inf, 0, "a paper")
    source = Source.UNKNOWN if accuracy is None else Source.PUBLISHED
    return Contender(
        ModelRow(name, name, "float32", size, accuracy=known, accuracy_source=source, **row), candidate(name)
    )


class Setting:
    """A race of models with these latencies on a simulated machine."""

    def __init__(
        self,
        clock: Clock,
        contenders: list[Contender],
        times: Mapping[str, float],
        *,
        seconds: float = 600.0,
        noise: float = NOISE,
        seed: int = 0,
        earlier: Mapping[str, Measurement] | None = None,
    ) -> None:
        behaviours = {name: Behaviour(ms, process_noise=noise, block_noise=noise / 2) for name, ms in times.items()}
        self.lines: list[Line] = []
        self.target = SimulatedTarget(clock, behaviours, seed)
        accuracies = Accuracies()
        accuracies.add_published(one.row for one in contenders)
        effort = Effort(on=self.target, keep=lambda kind, label, data: self.lines.append(Line(kind, label, "", data)))
        self.race = Race(effort, Schedule(seconds), accuracies)
        self.race.enter(contenders, earlier or {})

    def run(self) -> Setting:
        self.race.run()
        return self

    def places(self) -> dict[str, Place]:
        return {row.name: self.race.front.place(row) for row in self.race.front.rows}

    def rounds(self, name: str) -> int:
        return self.race.entrants[name].rounds


def drawn(
    seed: int, count: int = 16, spread: float = 0.35
) -> tuple[list[Contender], dict[str, float], dict[str, float]]:
    """Models as a catalogue has them: larger ones are slower and more accurate, more or less. With more spread, fewer
    of them are on the front."""
    source = np.random.default_rng(seed)
    work = np.sort(np.exp(source.uniform(math.log(1.0), math.log(100.0), count)))
    times = {f"m{place}": float(ms) for place, ms in enumerate(work * np.exp(source.normal(0, spread, count)))}
    level = np.round(0.5 + 0.06 * np.log(work) + source.normal(0, 0.02, count), 3)
    accuracies = {name: float(value) for name, value in zip(times, level, strict=True)}
    sizes = {name: int(1e6 * ms * float(np.exp(source.normal(0, 0.4)))) for name, ms in zip(times, work, strict=True)}
    found = [contender(name, accuracies[name], sizes[name], macs=round(1e6 * work[n])) for n, name in enumerate(times)]
    return found, times, accuracies


def could_beat(one: Contender, other: Contender) -> bool:
    return one is not other and one.row.merit >= other.row.merit


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_nothing_on_the_true_front_is_lost_and_nothing_beaten_is_called_sure(clock: Clock, seed: int) -> None:
    contenders, times, _ = drawn(seed)
    places = Setting(clock, contenders, times, seed=seed).run().places()
    for one in contenders:
        rivals = [other for other in contenders if could_beat(other, one)]
        by_far = all(times[other.name] > MARGIN * times[one.name] for other in rivals)
        beaten = any(MARGIN * times[other.name] < times[one.name] for other in rivals)
        assert not (by_far and places[one.name] is Place.OFF), f"{one.name} is on the true front"
        assert not (beaten and places[one.name] is Place.ON), f"{one.name} is beaten"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_race_costs_less_than_to_time_all_alike(clock: Clock, seed: int) -> None:
    """50 models, half of them of unknown accuracy, a third of the others on the front, as in the catalogue: at most
    40 % of what as many rounds for all would take."""
    contenders, times, _ = drawn(seed, 25, spread=0.9)
    quantized = [contender(f"{one.name}q", None, one.row.size_bytes // 4, macs=one.row.macs) for one in contenders]
    quantized = [
        replace(one, row=replace(one.row, reference=original.name))
        for one, original in zip(quantized, contenders, strict=True)
    ]
    ratios = np.random.default_rng(seed + 100).uniform(0.4, 1.5, len(quantized))
    times |= {one.name: times[one.row.reference] * ratio for one, ratio in zip(quantized, ratios, strict=True)}
    begin = clock.now
    setting = Setting(clock, [*contenders, *quantized], times, seed=seed).run()
    took = clock.now - begin
    others = [entrant for entrant in setting.race.entrants.values() if entrant is not setting.race.base]
    most = max(entrant.rounds for entrant in others)
    begin = clock.now
    every = Setting(clock, [*contenders, *quantized], times, seed=seed).race
    waiting = list(every.entrants.values())
    for start in range(0, len(waiting), MOST_AT_ONCE):
        every._run_round(waiting[start : start + MOST_AT_ONCE], _SECONDS)
    once = clock.now - begin
    assert took < 0.4 * most * once


def test_who_is_far_behind_is_timed_once(clock: Clock) -> None:
    contenders = [contender("fast", 0.8), contender("slow", 0.7), contender("close", 0.6)]
    setting = Setting(clock, contenders, {"fast": 5.0, "slow": 20.0, "close": 4.0}).run()
    assert setting.places() == {"fast": Place.ON, "slow": Place.OFF, "close": Place.ON}
    assert setting.rounds("slow") == 1 or setting.race.base is setting.race.entrants["slow"]
    assert setting.rounds("fast") >= FEWEST_ROUNDS


def test_the_model_in_use_is_in_every_round(clock: Clock) -> None:
    contenders, times, _ = drawn(1, 14)
    setting = Setting(clock, contenders, times, seconds=4.0)
    setting.race.own = contenders[-1].name
    setting.run()
    assert setting.race.base is setting.race.entrants[contenders[-1].name]
    assert setting.rounds(contenders[-1].name) == max(setting.rounds(one.name) for one in contenders)


def test_two_that_cannot_be_told_apart_end_undecided(clock: Clock) -> None:
    contenders = [contender("a", 0.8), contender("b", 0.7)]
    setting = Setting(clock, contenders, {"a": 10.0, "b": 10.1}, noise=0.05).run()
    assert setting.places()["a"] is Place.ON
    assert setting.places()["b"] in (Place.POSSIBLE, Place.OFF)
    assert min(setting.rounds("a"), setting.rounds("b")) <= MOST_ROUNDS


def test_rounds_hold_a_few_models_and_always_the_base(clock: Clock) -> None:
    contenders, times, _ = drawn(0, 14)
    setting = Setting(clock, contenders, times).run()
    base = setting.race.base
    assert base is not None
    met = set(base.known.samples.levels) if base.known else set()
    for entrant in setting.race.entrants.values():
        assert entrant.known is not None
        assert set(entrant.known.samples.levels) <= met
    by_round: dict[int, set[str]] = {}
    for entrant in setting.race.entrants.values():
        for number in entrant.known.samples.levels if entrant.known else ():
            by_round.setdefault(number, set()).add(entrant.name)
    assert max(map(len, by_round.values())) <= MOST_AT_ONCE + 1


def test_a_model_that_does_not_run_costs_only_itself(clock: Clock) -> None:
    contenders = [contender("a", 0.8), contender("broken", 0.9), contender("b", 0.7)]
    setting = Setting(clock, contenders, {"a": 5.0, "b": 1.0})
    setting.target.behaviours["broken"] = Behaviour(1.0, fails={0: "load"})
    setting.run()
    assert setting.race.measured("broken") is None
    assert setting.race.entrants["broken"].track.failure is not None
    assert setting.places() == {"a": Place.ON, "broken": Place.UNKNOWN, "b": Place.ON}


def test_should_the_base_fail_another_one_takes_its_place(clock: Clock) -> None:
    contenders = [contender(name, accuracy, macs=place) for place, (name, accuracy) in enumerate(_THREE)]
    setting = Setting(clock, contenders, {"a": 2.0, "b": 4.0, "c": 8.0})
    setting.target.behaviours["b"] = Behaviour(4.0, process_noise=NOISE, fails={1: "load"})
    assert setting.race.base is setting.race.entrants["b"]
    setting.run()
    assert setting.race.base is not setting.race.entrants["b"]
    assert setting.race.speed("a", "c") is Verdict.FASTER
    assert setting.places()["c"] is Place.ON


_THREE = (("a", 0.5), ("b", 0.6), ("c", 0.7))


def test_a_limit_that_an_interval_holds_is_worth_rounds(clock: Clock) -> None:
    contenders = [contender("a", 0.8), contender("b", 0.7)]
    times = {"a": 10.0, "b": 2.0}
    plain = Setting(clock, contenders, times).run()
    limited = Setting(clock, contenders, times)
    limited.race.latency_limit_ms = 10.0
    limited.run()
    assert limited.rounds("a") > plain.rounds("a")


def test_when_the_time_is_up_the_rest_is_not_timed(clock: Clock) -> None:
    contenders, times, _ = drawn(0, 20)
    setting = Setting(clock, contenders, times, seconds=1.0).run()
    timed = [name for name in times if setting.race.measured(name) is not None]
    assert 0 < len(timed) < len(times)


def test_a_session_goes_on_where_it_was_cut(clock: Clock) -> None:
    """Rounds of before count, those of another file do not, and no round has the number of another."""
    contenders, times, _ = drawn(1, 8)
    first = Setting(clock, contenders, times).run()
    earlier = measured_in(first.lines)
    assert {name: found.samples.processes for name, found in earlier.items()} == {
        name: first.rounds(name) for name in times
    }
    second = Setting(clock, contenders, times, earlier=earlier, seed=5).run()
    assert second.target.log == []
    assert second.places() == first.places()
    changed = replace(earlier["m3"], model=replace(earlier["m3"].model, sha256="ff"))
    third = Setting(clock, contenders, times, earlier={**earlier, "m3": changed}, seed=6).run()
    assert third.rounds("m3") >= 1
    before = {number for found in earlier.values() for number in _numbers(found)}
    assert min(_numbers(measured_in(third.lines)["m3"])) > max(before)


def _numbers(found: Measurement) -> set[int]:
    return {block.runner for block in found.samples.blocks}


def measured_in(lines: list[Line]) -> dict[str, Measurement]:
    return {line.label: from_data(Measurement, line.data) for line in merged_rounds(lines)}

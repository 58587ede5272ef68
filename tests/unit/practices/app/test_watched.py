"""How time is shared out and faults are judged, on programs written down row by row, with a clock of our own."""

from __future__ import annotations

import array
import json
from typing import TYPE_CHECKING, Any

import pytest

from hasten.core.block import Block
from hasten.core.comparison import Comparison, Verdict
from hasten.core.samples import Samples
from hasten.practices.app.facts import DEFAULT_THREADS, MANY_THREADS
from hasten.practices.app.watched.analysis import ProgramAnalysis
from hasten.practices.app.watched.program import Ended
from hasten.practices.app.watched.replay import contention_of, fastest_proven, mean_ratio, time_left
from hasten.watcher import rows

if TYPE_CHECKING:
    from pathlib import Path

MAIN = 11
MS = 1_000_000
LOAD, SET, RUN, GET = 0, 1, 2, 3
KINDS = {LOAD: rows.LOAD, SET: rows.SET, RUN: rows.INVOKE, GET: rows.GET}
LINES = {LOAD: 3, SET: 11, RUN: 12, GET: 13}


class Story:
    """A program's rows and lines, in milliseconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[int] = []
        self._lines: list[dict[str, Any]] = [
            {"kind": "process", "began_ns": 0, "ready_ns": 0, "main_thread": MAIN, "cores": 2},
            {"kind": "end", "how": "exit", "at_ns": 0},
            {"kind": "object", "number": 1, "model": "m.tflite", "key": "m", "type": "Interpreter"},
            *(
                {"kind": "place", "number": place, "fate": "kept", "chain": [["app.py", "main", line]]}
                for place, line in LINES.items()
            ),
        ]

    def call(
        self, place: int, start: float, end: float, *, number: int = 1, flags: int = 0, thread: int = MAIN
    ) -> None:
        code = KINDS[place] | flags << rows.FLAG_SHIFT | number << rows.OBJECT_SHIFT | place << rows.PLACE_SHIFT
        self._rows += [code, thread, int(start * MS), int(end * MS)]

    def sample(self, at: float, line: int, busy_ms: float, *, function: str = "main") -> None:
        stack = len([entry for entry in self._lines if entry["kind"] == "stack"]) + 1
        frames = [["app.py", function, line]] + ([["app.py", "main", 10]] if function != "main" else [])
        self._lines.append({"kind": "stack", "number": stack, "frames": frames})
        self._rows += [rows.SAMPLE | stack << rows.STACK_SHIFT, MAIN, int(at * MS), int(busy_ms * MS)]

    def line(self, **line: Any) -> None:
        self._lines.append(line)

    def told(self, wall_ms: float) -> ProgramAnalysis:
        (self._folder / "5.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self._lines))
        (self._folder / "5.rows").write_bytes(array.array("q", self._rows).tobytes())
        return ProgramAnalysis(self._folder, ("app",), Ended(0, 0, int(wall_ms * MS)))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def loop(story: Story, rounds: int, *, pre: float = 5, run: float = 2, post: float = 1) -> float:
    """Rounds of pre-processing, copy in, run, copy out and post-processing; a sample every ms; the time at the end."""
    at = 10.0
    story.call(LOAD, 5, 10)
    for _ in range(rounds):
        for number in range(round(pre)):
            story.sample(at + number + 0.5, 20, at + number + 0.5, function="prepare")
        at += pre
        story.call(SET, at, at + 0.5)
        story.call(RUN, at + 0.5, at + 0.5 + run)
        story.call(GET, at + 0.5 + run, at + 1 + run)
        at += 1 + run
        story.sample(at + post / 2, 14, at + post / 2)
        at += post
    return at


def test_every_millisecond_is_in_one_part(story: Story) -> None:
    wall = loop(story, 50)
    found = story.told(wall).found()
    split = found.split
    assert split.total_ms == pytest.approx(wall)
    assert split.inference_ms == pytest.approx(100)
    assert split.copy_in_ms == split.copy_out_ms == pytest.approx(25)
    assert split.load_ms == pytest.approx(5)
    assert split.pre_ms == pytest.approx(49 * 5, rel=0.05)
    assert split.post_ms == pytest.approx(49 * 1, rel=0.05)


def test_a_line_that_uses_no_cpu_is_waiting(story: Story) -> None:
    story.call(LOAD, 0, 1)
    for number in range(20):
        at = 10.0 * number + 10
        story.call(RUN, at, at + 2)
        story.sample(at + 6, 30, 2.0 * number + 2)
    found = story.told(210).found()
    assert found.split.waiting_ms > 140
    assert found.split.pre_ms + found.split.post_ms < 20


def test_preprocessing_that_dominates_names_its_function(story: Story) -> None:
    wall = loop(story, 50)
    (fault,) = story.told(wall).found().findings
    assert (fault.rule, fault.function, fault.line) == ("pre-processing dominates", "prepare", 20)
    assert fault.cost_ms == pytest.approx(49 * 5, rel=0.05)


def test_a_quick_preprocessing_is_no_fault(story: Story) -> None:
    assert story.told(loop(story, 50, pre=1, run=8)).found().findings == ()


def test_a_few_frames_that_were_held_up_are_no_slow_preprocessing(story: Story) -> None:
    end = loop(story, 100, pre=0.2)
    for _ in range(5):
        for number in range(60):
            story.sample(end + number + 0.5, 20, end + number + 0.5, function="prepare")
        end += 60
        story.call(SET, end, end + 0.5)
        story.call(RUN, end + 0.5, end + 2.5)
        end += 2.5
    assert story.told(end).found().findings == ()


def test_a_cold_first_run_counts_only_in_a_loop(story: Story) -> None:
    story.call(RUN, 0, 50)
    for number in range(20):
        story.call(RUN, 50 + 5 * number, 54 + 5 * number)
    (fault,) = story.told(150).found().findings
    assert fault.rule == "first run not warmed up"
    assert fault.cost_ms == pytest.approx(46)


@pytest.mark.parametrize(("cpu_ms", "faults"), [(5.0, 0), (48.0, 1)])
def test_a_first_run_that_waited_for_a_core_is_not_cold(story: Story, cpu_ms: float, faults: int) -> None:
    story.line(kind="queued", thread=MAIN, ns=100 * MS)
    story.sample(0.5, 20, 0.5)
    story.call(RUN, 1, 50)
    story.sample(50.5, 20, 0.5 + cpu_ms)
    for number in range(20):
        story.call(RUN, 51 + 5 * number, 55 + 5 * number)
    assert len(story.told(200).found().findings) == faults


def test_a_disturbed_call_is_not_the_programs_fault(story: Story) -> None:
    """One copy of a thousand is held up by another program for 50 ms: the cost is that of the others."""
    story.line(kind="place", number=GET, fate="dropped", chain=[["app.py", "main", 13]])
    for number in range(100):
        at = 10.0 * number
        story.call(RUN, at, at + 2)
        story.call(GET, at + 2, at + (2.5 if number else 7))
    (fault,) = story.told(1000).found().findings
    assert fault.rule == "output never used"
    assert fault.cost_ms == pytest.approx(50)


def test_shares_leave_out_the_time_in_which_others_had_the_cores(story: Story) -> None:
    wall = loop(story, 50)
    story.line(kind="queued", thread=MAIN, ns=int(wall * MS))
    found = story.told(2 * wall).found()
    assert found.findings[0].share == pytest.approx(found.findings[0].cost_ms / wall)
    assert [doubt.code for doubt in found.doubts] == ["app.queued"]


def test_interpreters_that_run_at_once_are_counted(story: Story) -> None:
    for number in range(10):
        story.call(RUN, 10 * number, 10 * number + 8, number=1, thread=MAIN)
        story.call(RUN, 10 * number + 1, 10 * number + 9, number=2, thread=MAIN + 1)
    study = story.told(100)
    crowd = contention_of(study.processes, [(5, 1), (5, 2)])
    assert crowd.together == 2
    assert crowd.wall_ms == pytest.approx(90)
    assert contention_of(study.processes, [(5, 1)]).together == 1


def test_runs_alone_are_no_part_of_what_contention_costs(story: Story) -> None:
    story.line(kind="object", number=2, model="m.tflite", key="m", type="Interpreter")
    for number in range(10):
        story.call(RUN, 10 * number, 10 * number + 8, number=1, thread=MAIN)
        story.call(RUN, 10 * number + 1, 10 * number + 9, number=2, thread=MAIN + 1)
    for number in range(10, 15):
        story.call(RUN, 10 * number, 10 * number + 8, number=1, thread=MAIN)
    crowd = contention_of(story.told(150).processes, [(5, 1), (5, 2)])
    assert crowd.together == 2
    assert crowd.wall_ms == pytest.approx(90)


@pytest.mark.parametrize(
    ("ratios", "best"),
    [
        ({2: (0.8, Verdict.FASTER), 1: (0.5, Verdict.FASTER)}, 1),
        ({2: (0.5, Verdict.FASTER), 1: (0.8, Verdict.FASTER)}, 2),
        ({2: (0.8, Verdict.FASTER), 1: (0.5, Verdict.UNDECIDED)}, 2),
        ({2: (0.97, Verdict.FASTER), 1: (1.5, Verdict.SLOWER)}, None),
    ],
)
def test_the_best_number_of_threads_is_advised(ratios: dict[int, tuple[float, Verdict]], best: int | None) -> None:
    compared = {
        threads: Comparison(verdict, ratio, (0.98 * ratio, 1.02 * ratio), smallest_detectable=0.03, rounds=5)
        for threads, (ratio, verdict) in ratios.items()
    }
    assert fastest_proven(compared) == best


def held_up(slow_ms: float) -> Samples:
    """Of all runs, a third takes a millisecond, and the others this long."""
    times = [1_000_000] * 10 + [int(slow_ms * 1e6)] * 20
    return Samples(tuple(Block(number, 0.0, array.array("q", times)) for number in range(4)))


def test_what_threads_cost_counts_the_runs_in_which_they_hold_one_another_up() -> None:
    """Eight threads on two cores: a third of the runs is as fast as with two, the others wait for time slices."""

    many, two = held_up(4), held_up(1)
    assert many.median_ms == pytest.approx(two.median_ms)  # a latency leaves out what looks disturbed
    found = mean_ratio(many, two)
    assert [found.low, found.estimate, found.high] == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("rule", "slow_ms", "left"),
    [(MANY_THREADS, 4, 1 / 3), (MANY_THREADS, 1, None), (MANY_THREADS, 0.5, None), (DEFAULT_THREADS, 1, 0.8)],
)
def test_threads_are_named_only_where_the_program_waits_less(rule: str, slow_ms: float, left: float | None) -> None:
    latencies = Comparison(Verdict.FASTER, 0.8, (0.79, 0.81), smallest_detectable=0.03, rounds=5)
    found = time_left(rule, latencies, held_up(slow_ms), held_up(1))
    assert (found and found.estimate) == pytest.approx(left)


def test_a_model_in_use_twice_is_not_loaded_again(story: Story) -> None:
    story.line(kind="object", number=2, model="m.tflite", key="m", type="Interpreter")
    story.call(LOAD, 0, 20, number=1)
    story.call(LOAD, 20, 40, number=2)
    for number in range(10):
        story.call(RUN, 40 + 4 * number, 41 + 4 * number, number=1 + number % 2)
    assert story.told(80).found().findings == ()


def test_a_model_loaded_after_the_last_use_is(story: Story) -> None:
    for number in range(2, 12):
        story.line(kind="object", number=number, model="m.tflite", key="m", type="Interpreter")
    for number in range(1, 11):
        story.call(LOAD, 10 * number, 10 * number + 4, number=number)
        story.call(RUN, 10 * number + 5, 10 * number + 8, number=number)
        story.call(RUN, 10 * number + 8, 10 * number + 9, number=number)
    (fault,) = story.told(110).found().findings
    assert fault.rule == "model loaded again"
    assert fault.cost_ms == pytest.approx(9 * (4 + 3 - 1))


def test_what_each_load_costs_adds_up_to_the_cost_of_all(story: Story) -> None:
    for number in range(2, 12):
        story.line(kind="object", number=number, model="m.tflite", key="m", type="Interpreter")
    for number in range(1, 11):
        length = 2 if number % 3 else 6  # the mean is above the median
        story.call(LOAD, 20 * number, 20 * number + length, number=number)
        story.call(RUN, 20 * number + 10, 20 * number + 11, number=number)
        story.call(RUN, 20 * number + 12, 20 * number + 13, number=number)
    (fault,) = story.told(220).found().findings
    facts = fault.evidence.facts
    assert facts["loads"] * facts["each_ms"] == pytest.approx(fault.cost_ms)

"""Studies of threads to be shown: one that finds a gain, and one that could measure little."""

from __future__ import annotations

from hasten.core import doubts
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.practices.threads.facts import (
    BUSY,
    QUIET,
    SHARED,
    Choice,
    Effect,
    EffectOfOption,
    Option,
    Refusal,
    Row,
    Step,
    ThreadsFound,
    Trouble,
)

_MODEL = Model("models/detector.tflite", 4_200_000, "ab" * 32)


def _row(threads: int, median_ms: float, load: str = QUIET, kind: str | None = None, workers: int = 0) -> Row:
    return Row(
        threads=threads,
        load=load,
        median_ms=median_ms,
        p95_ms=1.2 * median_ms,
        cpu_seconds=1.05e-3 * median_ms * threads,
        load_kind=kind,
        load_workers=workers,
        ci95_ms=(0.98 * median_ms, 1.03 * median_ms),
        spread=0.04,
        cores_used=0.9 * threads,
        effective_threads=threads,
        rounds=6,
        samples=720,
    )


def _step(threads: int, than: int, ratio: float, *, refused: Refusal = Refusal.NONE) -> Step:
    took = refused is Refusal.NONE
    return Step(threads, (), than, (), ratio, (0.97 * ratio, 1.03 * ratio), 6, 0.95, took, refused, sure=True)


def _gain(load: str, threads: int, than: int, ratio: float) -> Choice:
    facts = {"ratio": ratio, "ci95": [0.97 * ratio, 1.03 * ratio]}
    why = remark(
        "threads.faster",
        load=load,
        option={"threads": threads, "cores": []},
        than={"threads": than, "cores": []},
        ratio=facts,
        later={"threads": 4, "cores": []},
    )
    steps = (_step(threads, than, ratio), _step(4, threads, 1.0, refused=Refusal.NOT_PROVEN))
    return Choice(threads, (), sure=True, steps=steps, why=why)


def typical() -> ThreadsFound:
    """Two threads pay on an idle device, one is enough on a busy one."""
    quiet = [_row(1, 10.0), _row(2, 6.0), _row(3, 5.9), _row(4, 6.1)]
    shared = [_row(threads, 11.0 / threads + 2, SHARED, "compute", 2) for threads in (1, 2, 4)]
    busy = [_row(threads, 16.0 + threads, BUSY, "memory", 4) for threads in (1, 2)]
    slower = remark(
        "threads.slower",
        load=BUSY,
        option={"threads": 2, "cores": []},
        than={"threads": 1, "cores": []},
        ratio={"ratio": 1.06, "ci95": [1.03, 1.09]},
    )
    kept = Choice(1, (), sure=True, steps=(_step(2, 1, 1.06, refused=Refusal.SLOWER),), why=slower)
    effect = tuple(
        EffectOfOption(
            threads,
            (),
            Effect.TAKEN,
            remark("threads.effect", option={"threads": threads, "cores": []}, cores_used=0.9 * threads),
        )
        for threads in (1, 2, 3, 4)
    )
    return ThreadsFound(
        model=_MODEL,
        plan=Plan(),
        load=QUIET,
        rows=(*quiet, *shared, *busy),
        by_load={QUIET: _gain(QUIET, 2, 1, 0.6), SHARED: _gain(SHARED, 2, 1, 0.7), BUSY: kept},
        effect=effect,
        cores=4,
        seconds=98.0,
    )


def odd() -> ThreadsFound:
    """Cut short after one round, with trouble, doubts, and cores of two kinds."""
    row = Row(
        threads=2,
        load=QUIET,
        median_ms=0.0213,
        p95_ms=0.5,
        cpu_seconds=4e-5,
        cores=(0, 1),
        cores_used=1.9,
        rounds=1,
        samples=20,
        doubts=(remark(doubts.NOISY), remark(doubts.FEW_SAMPLES, runs=20)),
    )
    nothing = remark("threads.nothing-else", load=QUIET, option={"threads": 2, "cores": [0, 1]})
    return ThreadsFound(
        model=Model("models/" + "a_name_that_is_much_too_long_" * 4 + ".tflite", 900, "cd" * 32),
        plan=Plan(threads=4),
        load=QUIET,
        rows=(row,),
        by_load={QUIET: Choice(2, (0, 1), sure=False, why=nothing)},
        effect=(
            EffectOfOption(
                2, (0, 1), Effect.UNKNOWN, remark("threads.one-core", option={"threads": 2, "cores": [0, 1]})
            ),
        ),
        cores=8,
        clusters=((0, 1), (2, 3, 4, 5, 6, 7)),
        troubles=(Trouble(Option(8).plan_text(), "The runner was killed (signal 9)."),),
        seconds=3.0,
        interrupted=True,
    )

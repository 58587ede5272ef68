"""Choosing from the catalogue: is the front right, and how much time does the race save?

Wanted, for 25 models in float and int8: at most 3 minutes, all of it; no model of the true front by more than 3 % is
missing, where the truth is all models with a known accuracy timed at length by other code; at most 40 % of the time in
which all models would get the rounds of the front. The plan is given, so that nothing but the race is timed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.common import hasten, record
from benchmarks.race import levels_in_rounds, of_candidate, usual
from hasten.practices.choose.candidates import Gathering, on_plan
from hasten.practices.choose.facts import ChooseRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.practices.choose.candidates import Contender

_TASK = "image-classification"
_MODELS = 25
_MOST_SECONDS = 180.0
_MOST_SHARE = 0.4
_MARGIN = 1.03
_ROUNDS = 8
# As long as each runs in a round of the race.
_SECONDS_EACH = 0.3
_AT_ONCE = 10


def main() -> int:
    """Choose as a user does, then time all models by other code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choose", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, metavar="N", help=f"of the truth; default: {_ROUNDS}")
    rounds = parser.parse_args().rounds
    begin = time.monotonic()
    found = hasten("choose", "--task", _TASK, "--threads", str(os.cpu_count()))
    took = time.monotonic() - begin
    models = {row["model"] for row in found["models"]}
    rows = on_cpu(found)
    print(f"choose: {len(rows)} rows of {len(models)} models in {took:.0f} s: {found['why']}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        gathering = Gathering(ChooseRequest(_TASK), Path(folder), Path(folder), lambda text: None)
        contenders = with_threads(gathering.run(), found)
        known = [one for one in contenders if one.row.accuracy is not None]
        true, seconds = truth(known, rounds)
        _, others_s = truth([one for one in contenders if one.row.accuracy is None], 1)
    # Every model with as many rounds as those of the front got.
    front_rounds = median(row["rounds"] for row in rows if row["on_front"])
    alike_s = (seconds / rounds + others_s) * front_rounds
    share = found["timing_seconds"] / alike_s
    lost, wrong = judged(rows, true)
    figures = {
        "models": len(models),
        "rows": len(rows),
        "seconds": round(took),
        "timing_seconds": round(found["timing_seconds"]),
        "seconds_for_all_alike": round(alike_s),
        "share_of_the_time": round(share, 3),
        "rounds": sum(row["rounds"] for row in rows),
        "rounds_of_the_front": front_rounds,
        "front": [row["name"] for row in rows if row["on_front"]],
        "unsure": [row["name"] for row in rows if row["place"] == "possible"],
        "lost_from_the_front": lost,
        "wrongly_sure": wrong,
        "chosen": found["chosen"],
    }
    passed = len(models) >= _MODELS and took <= _MOST_SECONDS and share <= _MOST_SHARE and not lost and not wrong
    return record("choose", figures, passed=passed, whole=rounds >= _ROUNDS)


def on_cpu(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows without those of accelerators."""
    return [row for row in found["models"] if row["plan"]["accelerator"] == "cpu"]


def with_threads(contenders: Sequence[Contender], found: dict[str, Any]) -> list[Contender]:
    """The models on the plan that was found for all."""
    return [on_plan(one, threads=found["plan"]["threads"]) for one in contenders]


def truth(contenders: Sequence[Contender], rounds: int) -> tuple[dict[str, float], float]:
    """The time of each model over that of one that is in every round, and what all of it took."""
    ordered = sorted(contenders, key=lambda one: one.row.macs or 0)
    base = ordered[len(ordered) // 2]
    rest = [one for one in ordered if one is not base]
    begin, found = time.monotonic(), {base.name: 1.0}
    for start in range(0, len(rest), _AT_ONCE):
        group = rest[start : start + _AT_ONCE]
        rivals = [of_candidate(one.candidate) for one in (base, *group)]
        first, *others = levels_in_rounds(rivals, rounds, _SECONDS_EACH)
        for one, levels in zip(group, others, strict=True):
            found[one.name] = math.exp(usual(levels) - usual(first))
        print(f"truth: {', '.join(f'{one.name} {found[one.name]:.2f}' for one in group)}", flush=True)
    return found, time.monotonic() - begin


def judged(rows: Sequence[dict[str, Any]], true: dict[str, float]) -> tuple[list[str], list[str]]:
    """Models of the true front by more than the margin that are off it here; and those that are surely on it here
    although another is better by more than the margin."""
    known = [row for row in rows if row["accuracy"] is not None and row["name"] in true]
    lost, wrong = [], []
    for row in known:
        rivals = [other for other in known if other is not row and _could_beat(other, row)]
        ratios = [true[other["name"]] / true[row["name"]] for other in rivals]
        if all(ratio > _MARGIN for ratio in ratios) and not row["on_front"]:
            lost.append(row["name"])
        if any(ratio * _MARGIN < 1 for ratio in ratios) and row["place"] == "on":
            wrong.append(row["name"])
    return lost, wrong


def _could_beat(one: dict[str, Any], other: dict[str, Any]) -> bool:
    better = one["accuracy"]["value"] >= other["accuracy"]["value"]
    return bool(better and one["accuracy_source"] == other["accuracy_source"])


if __name__ == "__main__":
    sys.exit(main())

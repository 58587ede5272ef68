"""Hasten's result against what a user would do instead, on each model, in interleaved rounds of fresh processes:

(a) LiteRT's defaults: the model as it is, one thread; (b) the best of what litert-cli makes with its own recipes that
keeps the floor (installed in an environment of its own, and run with LiteRT's defaults, as its benchmark has no option
for threads); (c) OpenVINO reading the same .tflite with its latency hint and as many threads as there are cores.

Wanted: on every model hasten's result is at least as fast as the best of them that keeps the same floor, within noise.
With the defaults a model takes about a minute and a half, half of it the tuning. Six rounds tell apart what differs by
about 2 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import litert_cli
from benchmarks.cases import CASES, USUAL_CASES, Case
from benchmarks.common import record
from benchmarks.grid import HalvesJudge
from benchmarks.race import levels_in_rounds, of_candidate
from hasten.api import Data, Effort, SearchSettings, document, tune
from hasten.core.comparison import Verdict, compare_rounds
from hasten.core.errors import HastenError
from hasten.core.failure import RunnerFailed
from hasten.core.plan import plan_from_mapping
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset
from hasten.data.tensor_forms import forms_from_graph, real_from_bytes
from hasten.evaluate.split import calibration_samples
from hasten.measure.opening import open_model
from hasten.measure.warmup import warm_up
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterator

    from benchmarks.race import Opened, Timer
    from hasten.measure.rounds import Candidate

_MAX_DROP = 0.01
_BUDGET_S = 45.0
_ROUNDS, _TURNS = 6, 6
_CHECKED = 200
OURS, DEFAULTS, RECIPES, OPENVINO = "hasten", "litert_defaults", "litert_cli", "openvino"


@dataclass(slots=True)
class _Rival:
    name: str
    candidate: Candidate | None
    """None: OpenVINO on the original."""
    keeps_floor: bool = True
    what: str = ""
    levels: list[float] = field(default_factory=list)


def main() -> int:
    """Each model that is asked for, or the usual ones that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(CASES), help="may be repeated")
    parser.add_argument("--budget", type=float, default=_BUDGET_S, help="of each tuning (default: %(default)s s)")
    arguments = parser.parse_args()
    models = {name: _examined(CASES[name], arguments.budget) for name in arguments.only or USUAL_CASES}
    figures = {"models": models, "litert_cli": litert_cli.VERSION}
    whole = not arguments.only
    return record("instead", figures, whole=whole, passed=all(found["reached"] for found in models.values()))


def _examined(case: Case, budget_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        place = Path(folder)
        (place / "data").mkdir()
        data, calibration = case.prepared(place / "data")
        settings, effort = SearchSettings(max_drop=_MAX_DROP, extras=False), Effort(budget_s)
        found = tune(
            case.model,
            place / "tuned",
            data=Data(data, calibration, case.preprocess, case.metric, label_offset=case.label_offset),
            settings=settings,
            effort=effort,
        )
        best = document(found)["best"]
        ours, _ = open_model(best["model"], plan_from_mapping(best["plan"]))
        plain, _ = open_model(case.model)
        rivals = [
            _Rival(OURS, ours, what=found.best.id),
            _Rival(DEFAULTS, plain, what=str(case.model.name)),
            _best_recipe(case, place, data, calibration or data),
            _Rival(OPENVINO, None, what=f"{os.cpu_count()} threads"),
        ]
        try:
            rivals[-1].keeps_floor = _openvino_keeps_floor(case, data, place)
        except CannotReadError:
            print(f"{case.name}: OpenVINO cannot read the model, and is left out", flush=True)
            rivals.pop()
        _race(case, rivals)
    return _judged(case.name, rivals)


def _judged(name: str, rivals: list[_Rival]) -> dict[str, Any]:
    ours, *others = rivals
    rows: dict[str, Any] = {}
    for rival in rivals:
        against = compare_rounds([a - b for a, b in zip(ours.levels, rival.levels, strict=True)])
        rows[rival.name] = {
            "what": rival.what,
            "median_ms": round(math.exp(float(np.median(rival.levels))), 4),
            "keeps_floor": rival.keeps_floor,
            "hasten_ratio": round(against.ratio, 3),
            "ci95": [round(bound, 3) for bound in against.ci95],
            "hasten_is": against.verdict.value,
        }
    best = min((rival for rival in others if rival.keeps_floor), key=lambda rival: float(np.mean(rival.levels)))
    reached = rows[best.name]["hasten_is"] != Verdict.SLOWER.value
    told = ", ".join(f"{key} {row['median_ms']} ms" for key, row in rows.items())
    print(f"{name}: {told}; best of the others: {best.name}, {'reached' if reached else 'MISSED'}", flush=True)
    return {"rows": rows, "best_of_the_others": best.name, "reached": reached}


def _best_recipe(case: Case, place: Path, data: str, calibration: str) -> _Rival:
    """The fastest of litert-cli's recipes that keeps the floor, by a quick look; the original where none does."""
    plain, _ = open_model(case.model)
    judge = HalvesJudge(case, data)
    kept: list[tuple[float, str, Candidate]] = []
    told = []
    for name, path in _recipes(case, place, calibration):
        drop, why = _drop_of(judge, path)
        told.append(why or f"{name} loses {drop:.2%}")
        if drop <= _MAX_DROP + 1e-9:
            candidate, _ = open_model(path)
            kept.append((_quick_ms(candidate), name, candidate))
    print(f"{case.name}: litert-cli's recipes: {'; '.join(told) or 'none can be made'}", flush=True)
    if not kept:
        return _Rival(RECIPES, plain, what="none keeps the floor: the original")
    _, name, candidate = min(kept, key=lambda entry: entry[0])
    return _Rival(RECIPES, candidate, what=name)


def _drop_of(judge: HalvesJudge, path: Path) -> tuple[float, str]:
    """What a variant loses; infinite, and why, where it does not run."""
    try:
        return judge.drop_of(open_model(path)[0]), ""
    except HastenError as error:
        return math.inf, f"{path.stem}: {error.message}"


def _recipes(case: Case, place: Path, calibration: str) -> Iterator[tuple[str, Path]]:
    """Each recipe of litert-cli, made by itself from the file as it is."""
    plain, graph = open_model(case.model)
    samples, _ = calibration_samples(
        graph,
        plain.workload,
        open_dataset(calibration),
        preprocess_from_text(case.preprocess),
        limit=100,
        skip_bad=False,
    )
    key = graph.signatures[0].key if graph.signatures else None
    for name in litert_cli.RECIPES:
        path = place / f"cli_{name}.tflite"
        try:
            litert_cli.quantized(case.model, name, path, samples, key)
        except litert_cli.LitertCliError as error:
            print(f"{case.name}: litert-cli's {name} fails: {str(error)[:90]}", flush=True)
            continue
        yield name, path


def _race(case: Case, rivals: list[_Rival]) -> None:
    opened = [_of_peer(case) if rival.candidate is None else of_candidate(rival.candidate) for rival in rivals]
    for rival, levels in zip(rivals, levels_in_rounds(opened, _ROUNDS, _TURNS), strict=True):
        rival.levels = levels


def _of_peer(case: Case) -> Opened:
    def opened(stack: contextlib.ExitStack) -> Timer:
        peer = stack.enter_context(_Peer(case.model))
        peer.ask("0.1")
        return lambda seconds: peer.ask(str(seconds))

    return opened


class CannotReadError(Exception):
    """OpenVINO does not take this model."""


class _Peer:
    """OpenVINO in a process of its own."""

    def __init__(self, model: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.openvino_peer", str(model), str(os.cpu_count() or 1)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if "error" in (answer := self._answer()):
            self.__exit__()
            raise CannotReadError(answer["error"])

    def __enter__(self) -> _Peer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def ask(self, request: str) -> list[int]:
        """What it answers to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        found: list[int] = self._answer()
        return found

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def _openvino_keeps_floor(case: Case, data: str, place: Path) -> bool:
    """Whether its answers differ from LiteRT's on no more samples than the floor allows to lose."""
    candidate, graph = open_model(case.model)
    samples, _ = calibration_samples(
        graph,
        candidate.workload,
        open_dataset(data),
        preprocess_from_text(case.preprocess),
        limit=_CHECKED,
        skip_bad=False,
    )
    inputs = np.stack([next(iter(sample.values())) for sample in samples])
    np.savez(place / "checked.npz", x=inputs)
    form = forms_from_graph(graph, candidate.workload).outputs[0]
    with LocalTarget().start(candidate.plan) as runner:
        runner.load(candidate.path, candidate.workload)
        frames = [[np.ascontiguousarray(values).reshape(-1).view(np.uint8).data] for values in inputs]
        answers = runner.evaluate_many(frames, fresh=graph.stateful)
    right = np.concatenate([np.ravel(real_from_bytes(answer[0], form).argmax(-1)) for answer in answers])
    with _Peer(case.model) as peer:
        found = peer.ask(f"outputs {place / 'checked.npz'}")
    return float(np.mean(np.asarray(found) != right)) <= _MAX_DROP


def _quick_ms(candidate: Candidate) -> float:
    try:
        with LocalTarget().start(candidate.plan) as runner:
            runner.load(candidate.path, candidate.workload)
            warm_up(runner)
            return float(np.median(runner.block(0.5, 2000).nanoseconds)) / 1e6
    except RunnerFailed as failed:
        raise failed.failure.error(candidate.plan) from failed


if __name__ == "__main__":
    sys.exit(main())

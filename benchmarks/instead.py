"""Hasten's result against what a user would do instead, on each model, in interleaved rounds of fresh processes:

(a) LiteRT's defaults: the model as it is, one thread; (b) the best of what litert-cli makes with its own recipes that
keeps the floor (installed in an environment of its own, and run with LiteRT's defaults, as its benchmark has no option
for threads); (c) OpenVINO reading the same .tflite with its latency hint and as many threads as there are cores. The
floor is the same for all: what hasten's rule would let a tuning choose, by labels, on both parts of the data.

For information the files of (a) and (b) also run with as many threads as there are cores (`with_all_cores`): that shows
what is due to threads alone. All processes of a round wait while one is timed. OpenVINO's threads sleep then: with its
process stopped between its turns, rivals with two threads differed by 0.9 % and 0.5 % (two models, two or three rounds
each), no more than their rounds differ.

Wanted: on every model hasten's result is at least as fast as the best of them that keeps the floor, within noise. How
much faster on average is the geometric mean. Each model is saved as it ends; a new start with the same code goes on.
With the defaults a model takes two to three minutes, half of it the tuning. Six rounds tell apart what differs by about
2 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import litert_cli
from benchmarks.cases import CASES, Case, data_of
from benchmarks.common import Models
from benchmarks.exhaustive import MAX_DROP, as_trial, floor_of
from benchmarks.race import duel, levels_in_rounds, of_candidate, usual
from hasten.api import Effort, SearchSettings, document, tune
from hasten.core.failure import RunnerFailed
from hasten.core.plan import Workload, plan_from_mapping
from hasten.core.trial import CHOOSING, REPORTING
from hasten.data.classes import LabelReader, packed_labels
from hasten.data.prepare import Preparer
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.intervals import compare_scores
from hasten.evaluate.scoring import Scorer
from hasten.evaluate.split import CALIBRATION_SAMPLES, calibration_samples
from hasten.measure.opening import open_model
from hasten.measure.warmup import warm_up
from hasten.model.metadata import read_metadata
from hasten.model.reader import read_graph
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.exhaustive import Floor
    from benchmarks.race import Opened, Timer
    from hasten.api import Data
    from hasten.core.accuracy import PairedAccuracy
    from hasten.evaluate.scoring import Score
    from hasten.measure.rounds import Candidate
    from hasten.search.accuracy import AccuracyJudge

_BUDGET_S = 90.0
_ROUNDS, _SECONDS_EACH = 6, 0.3
# Answers of a segmentation are large.
_CHUNK = 32
OURS, DEFAULTS, RECIPES, OPENVINO = "hasten", "litert_defaults", "litert_cli", "openvino"
THREADS = "_threads"
"""What the name of a rival ends with that runs with all cores for information: it is none of the others."""


@dataclass(slots=True)
class Rival:
    """A way to run a model, and its levels in the rounds."""

    name: str
    candidate: Candidate | None
    """None: OpenVINO on the original."""
    keeps_floor: bool = True
    what: str = ""
    levels: list[float] = field(default_factory=list)


def main() -> int:
    """Each model that is asked for, or all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=list(CASES), help="may be repeated")
    parser.add_argument("--budget", type=float, default=_BUDGET_S, help="of each tuning (default: %(default)s s)")
    parser.add_argument("--anew", action="store_true", help="forget what an earlier start has found")
    arguments = parser.parse_args()
    try:
        litert_cli.installed()
    except litert_cli.LitertCliError as error:
        print(f"litert-cli {litert_cli.VERSION} cannot be installed: {error}")
        return 1
    settings = "" if arguments.budget == _BUDGET_S else f"budget {arguments.budget:g} s"
    models = Models.opened("instead", CASES, settings, anew=arguments.anew)
    for name in arguments.only or CASES:
        models.examine(name, partial(_examined, CASES[name], arguments.budget))
    found = models.figures.values()
    logs = [math.log(entry["best_over_hasten"]) for entry in found]
    figures = {"litert_cli": litert_cli.VERSION, "faster_on_average": round(math.exp(statistics.fmean(logs)), 3)}
    return models.record(figures, passed=all(entry["reached"] for entry in found))


def _examined(case: Case, budget_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        place = Path(folder)
        data = data_of(case, place / "data")
        settings, effort = SearchSettings(max_drop=MAX_DROP, extras=False), Effort(budget_s)
        found = tune(case.model, place / "tuned", data=data, settings=settings, effort=effort)
        best = document(found)["best"]
        ours, _ = open_model(best["model"], plan_from_mapping(best["plan"]))
        rivals = [Rival(OURS, ours, what=found.best.id), *others_of(case, data, place)]
        _race(case, rivals)
    return judged(case.name, rivals)


def others_of(case: Case, data: Data, place: Path) -> list[Rival]:
    """What a user would do instead, judged by the floor. The judge's runners are gone before the race."""
    plain, _ = open_model(case.model)
    floor, judge = floor_of(case.model, data)
    with contextlib.closing(judge):
        by_default = [Rival(DEFAULTS, plain, what=case.model.name), _best_recipe(case, place, data, floor)]
        others = [*by_default, *map(_with_all_cores, by_default)]
        try:
            kept, told = _openvino_keeps_floor(case, judge, place)
            print(f"{case.name}: OpenVINO loses {' and '.join(told)} on the two parts of the data", flush=True)
            others.append(Rival(OPENVINO, None, kept, f"{os.cpu_count()} threads"))
        except CannotReadError:
            print(f"{case.name}: OpenVINO cannot read the model, and is left out", flush=True)
    return others


def _with_all_cores(rival: Rival) -> Rival:
    """The same file with as many threads as there are cores, which gives the same answers."""
    assert rival.candidate is not None
    cores = os.cpu_count() or 1
    candidate = replace(rival.candidate, plan=replace(rival.candidate.plan, threads=cores))
    return Rival(f"{rival.name}{THREADS}", candidate, rival.keeps_floor, f"{rival.what}, {cores} threads")


def judged(name: str, rivals: list[Rival]) -> dict[str, Any]:
    """The figures of a model, by the levels of all in the same rounds."""
    ours, *others = rivals
    rows: dict[str, Any] = {}
    for rival in rivals:
        against = duel(ours.levels, rival.levels)
        rows[rival.name] = {
            "what": rival.what,
            "median_ms": round(math.exp(usual(rival.levels)), 4),
            "keeps_floor": rival.keeps_floor,
            "hasten_ratio": round(against.ratio, 3),
            "ci95": [round(against.low, 3), round(against.high, 3)],
            "hasten_is": against.outcome,
        }
    kept = [rival for rival in others if rival.keeps_floor and not rival.name.endswith(THREADS)]
    best = min(kept, key=lambda rival: usual(rival.levels))
    reached = rows[best.name]["hasten_is"] != "slower"
    told = ", ".join(f"{key} {row['median_ms']} ms" for key, row in rows.items())
    print(f"{name}: {told}; best of the others: {best.name}, {'reached' if reached else 'MISSED'}", flush=True)
    ratio = round(1 / rows[best.name]["hasten_ratio"], 3)
    return {
        "rows": {key: row for key, row in rows.items() if not key.endswith(THREADS)},
        "with_all_cores": {key: row for key, row in rows.items() if key.endswith(THREADS)},
        "best_of_the_others": best.name,
        "best_over_hasten": ratio,
        "reached": reached,
    }


def _best_recipe(case: Case, place: Path, data: Data, floor: Floor) -> Rival:
    """The fastest of litert-cli's recipes that keeps the floor, by a quick look; the original where none does."""
    plain, _ = open_model(case.model)
    kept: list[tuple[float, str, Candidate]] = []
    told = []
    for name, path in _recipes(case, place, data):
        candidate, _ = open_model(path)
        keeps, drop, why = floor.of(as_trial(name, candidate), candidate, name)
        told.append(f"{name} {'keeps' if keeps else 'breaks'} the floor ({why if drop is None else f'{drop:.2%}'})")
        if keeps:
            kept.append((_quick_ms(candidate), name, candidate))
    print(f"{case.name}: litert-cli's recipes: {'; '.join(told) or 'none can be made'}", flush=True)
    if not kept:
        return Rival(RECIPES, plain, what="none keeps the floor: the original")
    _, name, candidate = min(kept, key=lambda entry: entry[0])
    return Rival(RECIPES, candidate, what=name)


def _recipes(case: Case, place: Path, data: Data) -> Iterator[tuple[str, Path]]:
    """Each recipe of litert-cli, made by itself from the file as it is."""
    plain, graph = open_model(case.model)
    samples, _ = calibration_samples(
        graph,
        plain.workload,
        open_dataset(data.calibration or data.source),
        preprocess_from_text(case.preprocess),
        limit=CALIBRATION_SAMPLES,
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


def _race(case: Case, rivals: list[Rival]) -> None:
    opened = [_of_peer(case) if rival.candidate is None else of_candidate(rival.candidate) for rival in rivals]
    for rival, levels in zip(rivals, levels_in_rounds(opened, _ROUNDS, _SECONDS_EACH), strict=True):
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

    def ask(self, request: str) -> Any:
        """What it answers to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def _openvino_keeps_floor(case: Case, judge: AccuracyJudge, place: Path) -> tuple[bool, list[str]]:
    """Whether hasten's rule would let a tuning choose OpenVINO's answers, and what they lose on each part."""
    verdicts = {}
    with _Peer(case.model) as peer:
        for part in (CHOOSING, REPORTING):
            verdicts[part] = judge.floor(part).judge(_openvino_change(case, judge, part, peer, place))
    allowed = verdicts[CHOOSING].may_be_chosen(judge.floor(CHOOSING), strict=False)
    kept = allowed and not verdicts[REPORTING].gives_way(strict=False)
    return kept, [f"{verdict.drop:.2%}" for verdict in verdicts.values()]


def _openvino_change(case: Case, judge: AccuracyJudge, part: str, peer: _Peer, place: Path) -> PairedAccuracy:
    """Its answers on a part of the data, scored as hasten scores, against LiteRT's."""
    graph, dataset, original = read_graph(case.model), judge.part(part), judge.original(part)
    forms = forms_from_graph(graph, Workload())
    preparer = Preparer(forms.inputs, preprocess_from_text(case.preprocess), read_metadata(graph))
    references = None if dataset.labelled else original.references
    reader = LabelReader(dataset, packed_labels(graph), case.label_offset)
    scorer = Scorer(original.metric, forms.outputs, reader, references=references, labelled=dataset.labelled)
    rows = {position: row for row, position in enumerate(original.positions)}
    scores: list[Score] = []
    drawn = [entry for entry in dataset.drawn() if entry[0] in rows]
    for start in range(0, len(drawn), _CHUNK):
        chunk = drawn[start : start + _CHUNK]
        inputs, outputs = place / "inputs.npz", place / "outputs.npz"
        np.savez(inputs, x=np.stack([preparer.prepare(sample)[0] for _, sample in chunk]))
        peer.ask(f"outputs {inputs} {outputs}")
        with np.load(outputs) as arrays:
            answers = arrays["y"]
        for (position, sample), answer in zip(chunk, answers, strict=True):
            label = scorer.label(position, sample)
            scores.append(scorer.score(position, sample, label, [np.ascontiguousarray(answer).tobytes()]))
    before = original.statistics[[rows[entry.position] for entry in scores]]
    after = np.stack([entry.statistics for entry in scores])
    return compare_scores(original.metric, [entry.name for entry in scores], before, after)


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

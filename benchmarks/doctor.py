"""The doctor of models: does `--minimize` find the bad operator of sixty, and are the rules about delegates right?

Each problem is planted in a chain of 60 nodes: a convolution that takes most of the time, a product with another factor
than in the model to compare with, and a sum that ends the process. Wanted: at most 3 nodes with the bad one among them,
which show the problem without the search.

What the rules say that XNNPACK and the GPU delegate take is compared with what both took on this machine, node by node,
on the example models of the tests and on those of a folder: `python -m benchmarks.doctor [FOLDER]`. Wanted: the same
for every model whose placement can be seen.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests import example_models
from tests.unit.practices.help import planted

from benchmarks.common import record
from hasten import api
from hasten.core.errors import HastenError
from hasten.core.failure import RunnerFailed
from hasten.core.placement import XNNPACK
from hasten.core.plan import Plan, Workload
from hasten.measure.effort import Effort
from hasten.measure.seeded_inputs import seeded_inputs
from hasten.model.edit.cut import cut_nodes
from hasten.model.reader import read_graph
from hasten.practices.help.examination import model_candidate
from hasten.practices.help.minimize.facts import CRASH, SLOW, WRONG
from hasten.practices.help.minimize.run import Search, smallest_path
from hasten.practices.help.minimize.run import run as minimize
from hasten.practices.help.model_checks.delegates.fit import fit_by_rules
from hasten.practices.help.model_checks.delegates.gpu import GPU
from hasten.practices.help.model_checks.delegates.xnnpack import XNNPACK_RULES
from hasten.targets.local import LocalTarget

_MOST_NODES: Final = 3
_SHARE: Final = 0.5
_DELEGATES: Final = ((Plan(), XNNPACK_RULES), (Plan(accelerator="gpu"), GPU))


def main() -> int:
    """Plant, search, and compare rules with placements."""
    problems = {
        SLOW: (planted.slow_chain(), None),
        WRONG: (planted.wrong_chain(-3.0), planted.wrong_chain(1.0)),
        CRASH: (planted.crashing_chain(), None),
    }
    minimized = {name: _minimized(name, *models) for name, models in problems.items()}
    with tempfile.TemporaryDirectory() as name:
        for label, data in _examples().items():
            planted.written(Path(name), data, f"{label}.tflite")
        folders = [Path(name), *map(Path, sys.argv[1:])]
        rules = _compared([path for folder in folders for path in sorted(folder.rglob("*.tflite"))])
    small = all(len(told["nodes"]) <= _MOST_NODES and planted.BAD in told["nodes"] for told in minimized.values())
    passed = small and all(told["shows"] for told in minimized.values()) and not rules["differ"]
    return record("doctor", {"of": planted.NODES, "minimized": minimized, "rules": rules}, passed=passed)


def _examples() -> dict[str, bytes]:
    """Networks of several kinds and types."""
    floats = {f"float_{name}": data for name, data in planted.clean().items()}
    integers = {"int8_mobilenet": example_models.mobilenet_like(dtype="int8")}
    return {**floats, **integers, "variables": example_models.accumulator(), "custom": example_models.custom_operator()}


def _minimized(problem: str, model: bytes, right: bytes | None) -> dict[str, Any]:
    """What a search makes of the model, and whether what it leaves shows the problem without the search."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = name  # nothing is remembered from an earlier run
        candidate, graph = model_candidate(planted.written(folder, model), Plan())
        other = (
            candidate if right is None else model_candidate(planted.written(folder, right, "right.tflite"), Plan())[0]
        )
        found = minimize(Search(problem, candidate, graph, other, folder), Effort())
        seconds = time.monotonic() - begin
        small = smallest_path(folder)
        if problem == CRASH:
            shows = _outputs(small) is None
        elif problem == SLOW:
            shows = api.compare((candidate.path, Plan()), (small, Plan()), effort=Effort(4.0)).comparison.ratio > _SHARE
        else:
            cut_nodes(other.path, found.nodes).write(folder / "right_part.tflite")
            shows = _outputs(small) != _outputs(folder / "right_part.tflite")
    told = {"nodes": list(found.nodes), "operators": list(found.operators), "shows": found.shown and shows}
    return {**told, "tests": found.tests, "seconds": round(seconds, 1)}


def _outputs(path: Path) -> list[bytes] | None:
    """Of seeded inputs; None for a model that ends its process."""
    try:
        with LocalTarget().start(Plan()) as runner:
            load = runner.load(path, Workload())
            return [bytes(output) for output in runner.evaluate(seeded_inputs(load.inputs))]
    except RunnerFailed:
        return None


def _compared(models: list[Path]) -> dict[str, Any]:
    """How often the rules say what the engine does; models that do not run on a plan are left out."""
    seen, nodes, differ = {"xnnpack": 0, "gpu": 0}, 0, []
    for path in models:
        try:
            graph = read_graph(path)
        except HastenError:
            continue
        for plan, rules in _DELEGATES:
            taken = _taken(path, plan)
            if taken is None:
                continue
            seen[rules.name] += 1
            nodes += len(graph.main.nodes)
            refused = {node for row in fit_by_rules(graph, rules).refusals for node in row.nodes}
            if taken != {node.index for node in graph.main.nodes} - refused:
                differ.append(f"{path.name} on {rules.name}")
    return {"models": seen, "nodes": nodes, "differ": differ}


def _taken(path: Path, plan: Plan) -> set[int] | None:
    """The nodes of the main graph that the plan's delegate took; None where that cannot be seen."""
    try:
        with LocalTarget().start(plan) as runner:
            placement = runner.load(path, Workload()).placement
    except RunnerFailed:
        return None
    if placement is None:
        return None
    ours = [part for part in placement.partitions if (part.delegate == XNNPACK) == plan.runs_on_cpu]
    return {node for part in ours if part.graph == 0 for node in part.nodes}


if __name__ == "__main__":
    sys.exit(main())

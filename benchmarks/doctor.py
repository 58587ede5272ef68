"""The doctor of models: does `--minimize` find the bad operator of sixty, and are the rules about delegates right?

Each problem is planted in a chain of 60 nodes: a convolution that takes most of the time, a product with another factor
than in the model to compare with, and a sum that ends the process. Wanted: at most 3 nodes with the bad one among them,
which still show it when the doctor examines them anew.

With a folder of models, what the rules say that XNNPACK and the GPU delegate take is compared with what both took on
this machine, node by node: `python -m benchmarks.doctor FOLDER`. Wanted: the same for every model.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

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
    """Plant, search, and compare rules with placements where there are models."""
    figures: dict[str, Any] = {"nodes of each model": planted.NODES}
    problems = {
        SLOW: (planted.slow_chain(), None),
        WRONG: (planted.wrong_chain(-3.0), planted.wrong_chain(1.0)),
        CRASH: (planted.crashing_chain(), None),
    }
    found = {name: _minimized(name, *models) for name, models in problems.items()}
    figures |= {f"{name}: {key}": value for name, told in found.items() for key, value in told.items()}
    passed = all(
        told["nodes left"] <= _MOST_NODES and told["still shows it"] and told["has the bad one"]
        for told in found.values()
    )
    if len(sys.argv) > 1:
        compared = _compared(sorted(Path(sys.argv[1]).rglob("*.tflite")))
        figures |= compared
        passed = passed and not compared["models where rules and placement differ"]
    return record("doctor", figures, passed=passed)


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
    return {
        "nodes left": len(found.nodes),
        "operators": list(found.operators),
        "still shows it": found.shown and shows,
        "has the bad one": planted.BAD in found.nodes,
        "parts tested": found.tests,
        "seconds": round(seconds, 1),
    }


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
    told = {f"models seen on {name}": count for name, count in seen.items()}
    return {**told, "nodes compared": nodes, "models where rules and placement differ": differ}


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

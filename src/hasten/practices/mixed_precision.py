"""A mix of float and integers that keeps the floor, where a promising recipe breaks it.

Quantising one node at a time shows which ones hurt; then bisection finds how many of them must stay float, with about
log2 N evaluations where giving back one layer after the other takes up to N.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import HastenError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.quantization import KEPT, SIZE, Bisection, Sensitivity, VariantRow, choose, worth_mixing
from hasten.data.forms import forms_from_graph, real_from_bytes
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.model.variants.make import make_variant
from hasten.model.variants.recipes import recipe_from_name
from hasten.practices.profile import profile_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.graph import Graph, Subgraph
    from hasten.practices.quantize import QuantizePractice

    Array = np.ndarray[Any, Any]

# So many small variants are made at most; of larger models, neighbours go together.
MOST_GROUPS: Final = 32
_SAMPLES: Final = 8
_CALIBRATION: Final = 16
_PROFILE_SECONDS: Final = 2.0
_MOST_RECIPES: Final = 2
_SHARE: Final = 0.75


def mix(practice: QuantizePractice) -> None:
    """Try mixes of the recipes that would be the choice if they kept the floor, until a mix is chosen."""
    goal = practice.settings.goal
    for row in worth_mixing(practice.rows, goal)[:_MOST_RECIPES]:
        order = sorted(sensitivities(practice, row), key=lambda entry: -entry.cost)
        _search(practice, row, order)
        practice.time_all(0.8)
        if choose(practice.rows, goal).recipe.startswith(_prefix(row, goal)):
            break


def sensitivities(practice: QuantizePractice, row: VariantRow) -> list[Sensitivity]:
    """The error of each group of nodes at the output; those that an earlier run has found are taken from there."""
    share_of = "weights" if practice.settings.goal == SIZE else "time"
    known = {entry.nodes: entry for entry in practice.folder.sensitivities if entry.recipe == row.recipe}
    groups = grouped(row.nodes)
    if all(nodes in known and known[nodes].share_of == share_of for nodes in groups):
        return [known[nodes] for nodes in groups]
    shares = _shares(practice)
    right: list[list[Array]] = []
    samples = practice.calibration()[:_CALIBRATION]
    found = []
    for number, nodes in enumerate(groups):
        share = sum(shares.get(node, 0.0) for node in nodes)
        if nodes not in known:
            practice.tell(_SHARE, f"{row.recipe}: sensitivity {number + 1} of {len(groups)}")
            right = right or outputs_of(practice, practice.candidate.path)
            error = _error_of(practice, row.recipe, nodes, samples, right)
            known[nodes] = _described(practice.graph.main, row.recipe, nodes, error)
        found.append(replace(known[nodes], share=share, share_of=share_of))
        practice.folder.save_sensitivity(found[-1])
    return found


def grouped(nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """Each node alone; of many, neighbours together."""
    size = math.ceil(len(nodes) / MOST_GROUPS) if nodes else 1
    return [tuple(nodes[start : start + size]) for start in range(0, len(nodes), size)]


def output_error(found: Sequence[Sequence[Array]], right: Sequence[Sequence[Array]]) -> float:
    """The relative error of the worst output, over all samples; infinite where there is no number."""
    worst = 0.0
    for one, other in zip(zip(*found, strict=True), zip(*right, strict=True), strict=True):
        a, b = (np.concatenate([np.ravel(values).astype(np.float64) for values in part]) for part in (one, other))
        if a.shape != b.shape or not np.isfinite(a).all():
            return math.inf
        scale = math.sqrt(float(np.mean(b**2))) or 1.0
        worst = max(worst, math.sqrt(float(np.mean((a - b) ** 2))) / scale)
    return worst


def outputs_of(practice: QuantizePractice, path: Path) -> list[list[Array]]:
    """A model's outputs on a few samples of the choosing half."""
    candidate = replace(practice.candidate, path=path)
    graph = read_graph(path)
    with practice.target.start(candidate.plan) as runner:
        load = runner.load(path, candidate.workload)
        forms = forms_from_graph(graph, candidate.workload).in_effect(
            [(tensor.name, tensor.shape) for tensor in load.inputs],
            [(tensor.name, tensor.shape) for tensor in load.outputs],
        )
        frames = []
        for sample in practice.choosing_samples(_SAMPLES):
            names = [form.name for form in forms.inputs]
            arrays = [sample[name] for name in names] if set(names) == set(sample) else list(sample.values())
            frames.append([np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays])
        answers = runner.evaluate_many(frames, fresh=graph.stateful)
        return [
            [np.array(real_from_bytes(data, form)) for data, form in zip(answer, forms.outputs, strict=True)]
            for answer in answers
        ]


def _search(practice: QuantizePractice, row: VariantRow, order: Sequence[Sensitivity]) -> None:
    bisection, best = Bisection(len(order)), None
    recipe = recipe_from_name(row.recipe)
    while (count := bisection.next) is not None:
        nodes = sorted(node for entry in order[:count] for node in entry.nodes)
        name = f"{_prefix(row, practice.settings.goal)}{len(nodes)}"
        tried = practice.judge(name, recipe, float_nodes=nodes, share=_SHARE)
        bisection.tell(count, tried.floor == KEPT)
        if tried.floor == KEPT:
            if best is not None:
                practice.forget_file(best)
            best = tried


def _prefix(row: VariantRow, goal: str) -> str:
    """How the names of a recipe's mixes begin: for another goal, other nodes stay float."""
    return f"{row.recipe}{'_size' if goal == SIZE else ''}_but_"


def _error_of(
    practice: QuantizePractice,
    recipe: str,
    nodes: tuple[int, ...],
    samples: list[dict[str, Any]],
    right: list[list[Array]],
) -> float:
    """Nothing to quantise in them is no error; a variant that cannot be made or run is not to be used at all."""
    chosen = recipe_from_name(recipe)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        path = Path(folder) / "one.tflite"
        signature = practice.candidate.workload.signature or None
        try:
            given = samples if chosen.needs_calibration else None
            make_variant(practice.candidate.path, chosen, path, given, only=nodes, signature=signature)
            return output_error(outputs_of(practice, path), right)
        except (HastenError, RunnerFailed) as error:
            return 0.0 if "changes nothing" in str(error) else math.inf


def _shares(practice: QuantizePractice) -> dict[int, float]:
    """Each node's part of the weights, or of the time, whichever is to be gained."""
    if practice.settings.goal != SIZE:
        practice.tell(_SHARE, "profiling the original")
        profile = profile_model(
            practice.target, practice.candidate, practice.graph, _PROFILE_SECONDS, None, no_progress
        )
        if not isinstance(profile, Failure):
            return {operator.index: operator.share for operator in profile[0].operators if operator.index >= 0}
    return weight_shares_by_node(practice.graph)


def weight_shares_by_node(graph: Graph) -> dict[int, float]:
    """Each node's part of the weights of the main graph."""
    tensors = graph.main.tensors
    sizes = {
        node.index: sum(tensors[index].buffer_bytes for index in node.inputs if index >= 0 and tensors[index].is_weight)
        for node in graph.main.nodes
    }
    total = sum(sizes.values()) or 1
    return {index: size / total for index, size in sizes.items()}


def _described(subgraph: Subgraph, recipe: str, nodes: tuple[int, ...], error: float) -> Sensitivity:
    first = subgraph.nodes[nodes[0]]
    op = first.label if len(nodes) == 1 else f"{first.label} and {len(nodes) - 1} more"
    return Sensitivity(recipe, nodes, op, subgraph.node_location(first), error, 0.0)

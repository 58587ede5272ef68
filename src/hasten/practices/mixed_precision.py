"""A mix of float and integers that keeps the floor, where a promising recipe breaks it.

Quantising one node at a time shows which ones hurt; then a search finds how many of them must stay float, with a few
evaluations where giving back one layer after the other takes up to as many as there are layers.
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
from hasten.core.mixing import MixSearch, Sensitivity
from hasten.core.quantization import BUT, FOR_SIZE, SIZE, VariantRow, choose, worth_mixing
from hasten.data.forms import forms_from_graph, real_from_bytes
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.model.variants.recipes import recipe_from_name
from hasten.practices.profile import profile_model
from hasten.practices.slow_nodes import gains_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.graph import Graph, Subgraph
    from hasten.practices.quantize import QuantizePractice

    Array = np.ndarray[Any, Any]

# So many small variants are made at most; of larger models, neighbours go together.
MOST_GROUPS: Final = 80
SAMPLES: Final = 8
_PROFILE_SECONDS: Final = 2.0
_MOST_RECIPES: Final = 2
_SHARE: Final = 0.75


def mix(practice: QuantizePractice) -> None:
    """Try mixes of the recipes that would be the choice if they kept the floor, until a mix is chosen."""
    goal = practice.settings.goal
    for row in worth_mixing(practice.rows, goal)[:_MOST_RECIPES]:
        search_mix(practice, row)
        practice.time_all(0.8)
        if choose(practice.rows, goal).recipe.startswith(_prefix(row, goal)):
            break


def mix_further(practice: QuantizePractice, row: VariantRow) -> bool:
    """A mix with more nodes float than one that has turned out to break the floor; whether there is one to try.

    Half of what is still quantised goes back, in the order of its search.
    """
    base = practice.folder.rows.get(row.recipe.rpartition(BUT)[0].removesuffix(FOR_SIZE))
    if base is None or not row.is_step:
        return False
    order = _in_order(practice, base)
    float_nodes = set(row.float_nodes)
    left = [entry for entry in order if not float_nodes.issuperset(entry.nodes)]
    if len(left) < 2:
        return False
    more = [node for entry in left[: len(left) // 2] for node in entry.nodes]
    _try(practice, base, [*float_nodes, *more])
    practice.time_all(0.85)
    return True


def sensitivities(practice: QuantizePractice, row: VariantRow) -> list[Sensitivity]:
    """The error of each group of nodes at the output; those that an earlier run has found are taken from there."""
    share_of = "weights" if practice.settings.goal == SIZE else "time"
    recipe = row.base_recipe
    known = {entry.nodes: entry for entry in practice.folder.sensitivities if entry.recipe == recipe}
    groups = grouped(row.nodes)
    if all(nodes in known and known[nodes].share_of == share_of for nodes in groups):
        return [known[nodes] for nodes in groups]
    shares = _shares(practice, row)
    right: list[list[Array]] = []
    found = []
    for number, nodes in enumerate(groups):
        share = sum(shares.get(node, 0.0) for node in nodes)
        if nodes not in known:
            practice.tell(_SHARE, f"{recipe}: sensitivity {number + 1} of {len(groups)}")
            right = right or outputs_of(practice, practice.candidate.path)
            error = _error_of(practice, recipe, nodes, right)
            known[nodes] = _described(practice.graph.main, recipe, nodes, error)
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
        for sample in practice.choosing_samples(SAMPLES):
            names = [form.name for form in forms.inputs]
            arrays = [sample[name] for name in names] if set(names) == set(sample) else list(sample.values())
            frames.append([np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays])
        answers = runner.evaluate_many(frames, fresh=graph.stateful)
        return [
            [np.array(real_from_bytes(data, form)) for data, form in zip(answer, forms.outputs, strict=True)]
            for answer in answers
        ]


def search_mix(practice: QuantizePractice, row: VariantRow) -> MixSearch:
    """Search for the mix of a recipe that gives back least."""
    order = _in_order(practice, row)
    search, best = MixSearch(order, row.drop, practice.settings.max_drop), None
    while (count := search.next) is not None:
        tried = _try(practice, row, [*row.float_nodes, *(node for entry in order[:count] for node in entry.nodes)])
        search.tell(count, tried.kept_when_judged, tried.drop)
        if tried.kept_when_judged:
            if best is not None:
                practice.forget_file(best)
            best = tried
    return search


def _in_order(practice: QuantizePractice, row: VariantRow) -> list[Sensitivity]:
    """The groups of a recipe's nodes, those first that are to stay float first."""
    return sorted(sensitivities(practice, row), key=lambda entry: -entry.cost)


def _try(practice: QuantizePractice, row: VariantRow, nodes: Sequence[int]) -> VariantRow:
    name = f"{_prefix(row, practice.settings.goal)}{len(nodes)}"
    return practice.judge(name, recipe_from_name(row.base_recipe), float_nodes=sorted(nodes), share=_SHARE)


def _prefix(row: VariantRow, goal: str) -> str:
    """How the names of a recipe's mixes begin: for another goal, other nodes stay float."""
    return f"{row.recipe}{FOR_SIZE if goal == SIZE else ''}{BUT}"


def _error_of(practice: QuantizePractice, recipe: str, nodes: tuple[int, ...], right: list[list[Array]]) -> float:
    """Nothing to quantise in them is no error; a variant that cannot be made or run is not to be used at all."""
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        path = Path(folder) / "one.tflite"
        try:
            given = practice.calibration() if recipe_from_name(recipe).needs_calibration else None
            practice.maker.make(recipe, path, given, only=nodes)
            return output_error(outputs_of(practice, path), right)
        except (HastenError, RunnerFailed) as error:
            return 0.0 if "changes nothing" in str(error) else math.inf


def _shares(practice: QuantizePractice, row: VariantRow) -> dict[int, float]:
    """What each node has to give: its part of the weights, or the part of the time that integers save there.

    Where the two models cannot be laid side by side, all of the node's time counts.
    """
    if practice.settings.goal == SIZE:
        return weight_shares_by_node(practice.graph)
    base = practice.folder.rows.get(row.base_recipe, row)
    gains = gains_of(practice, base) if base.path else None
    if gains is not None and gains.nodes:
        return gains.shares()
    practice.tell(_SHARE, "profiling the original")
    profile = profile_model(practice.target, practice.candidate, practice.graph, _PROFILE_SECONDS, None, no_progress)
    if isinstance(profile, Failure):
        return weight_shares_by_node(practice.graph)
    return {operator.index: operator.share for operator in profile[0].operators if operator.index >= 0}


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

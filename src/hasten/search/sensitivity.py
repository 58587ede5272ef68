"""What quantizing each node alone does to a model's outputs, and what the node has to give."""

from __future__ import annotations

import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import HastenError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.goal import Goal
from hasten.data.tensor_forms import forms_as_loaded, real_from_bytes
from hasten.measure.profiling import profile_model
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.practices.quantize.facts import Sensitivity
from hasten.search.variant_store import VariantRequest
from hasten.targets.base import with_connection
from hasten.variants.recipes import quick_like, recipe_from_name
from hasten.variants.variant import NothingToChangeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from hasten.core.plan import Plan
    from hasten.core.trial import Trial
    from hasten.model.graph import Graph, Subgraph
    from hasten.search.variant_store import VariantStore
    from hasten.targets.client import LoadReport

    Array = np.ndarray[Any, Any]

# The largest number of small variants that are made; of larger models, neighbors go together.
MOST_GROUPS: Final = 80
# Errors on few samples are luck; more are taken as long as they are next to nothing beside the making of a variant.
FEWEST_SAMPLES: Final = 8
MOST_SAMPLES: Final = 64
_MOST_MS: Final = 300.0
_MOST_BYTES: Final = 64 * 2**20
_PROFILE_SECONDS: Final = 2.0


class Probe:
    """A few samples of the choosing half, and what the original makes of them."""

    def __init__(self, store: VariantStore, plan: Plan) -> None:
        self._store, self._plan, self._count = store, plan, 0
        self._right = self.outputs_of(Path(store.source.path))

    def error_of(self, path: Path) -> float:
        """The error at a variant's outputs; one that cannot be run is wrong beyond measure."""
        try:
            return output_error(self.outputs_of(path), self._right)
        except (HastenError, RunnerFailed):
            return math.inf

    def outputs_of(self, path: Path) -> list[list[Array]]:
        """A model's outputs on each of the samples."""
        return with_connection(lambda: self._outputs_of(path))

    def _outputs_of(self, path: Path) -> list[list[Array]]:
        workload = self._store.candidate.workload
        graph = read_graph(path)
        with self._store.target.start(self._plan) as runner:
            load = runner.load(path, workload)
            forms = forms_as_loaded(graph, workload, load)
            self._count = self._count or _sample_count(load)
            frames = []
            for sample in self._store.judge.few_samples(self._count):
                names = [form.name for form in forms.inputs]
                arrays = [sample[name] for name in names] if set(names) == set(sample) else list(sample.values())
                frames.append(
                    [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in forms.fed(arrays)]
                )
            answers = [forms.read(answer) for answer in runner.evaluate_many(frames, fresh=graph.stateful)]
            return [
                [np.array(real_from_bytes(data, form)) for data, form in zip(answer, forms.outputs, strict=True)]
                for answer in answers
            ]


def _sample_count(load: LoadReport) -> int:
    by_time = _MOST_MS / max(load.first_run_ms, 1e-3)
    by_bytes = _MOST_BYTES // max(1, sum(tensor.bytes for tensor in (*load.inputs, *load.outputs)))
    return int(min(MOST_SAMPLES, max(FEWEST_SAMPLES, min(by_time, by_bytes))))


def sensitivities(store: VariantStore, trial: Trial, plan: Plan) -> Iterator[Sensitivity]:
    """The error of each group of nodes at the output, as it is found; what an earlier run has found comes first."""
    share_of = "weights" if store.settings.goal is Goal.SIZE else "time"
    recipe = trial.recipe
    known = {entry.nodes: entry for entry in store.folder.sensitivities if entry.recipe == recipe}
    groups = grouped(trial.nodes)
    if all(nodes in known and known[nodes].share_of == share_of for nodes in groups):
        yield from (known[nodes] for nodes in groups)
        return
    shares, weights = _shares(store, trial, plan), weight_shares_by_node(store.source_graph)

    def saved(entry: Sensitivity) -> Sensitivity:
        share, stored = (sum(parts.get(node, 0.0) for node in entry.nodes) for parts in (shares, weights))
        entry = replace(entry, share=share, share_of=share_of, weights=stored)
        store.folder.save_sensitivity(entry)
        return entry

    yield from (saved(known[nodes]) for nodes in groups if nodes in known)
    for nodes, error in _errors(store, recipe, plan, [nodes for nodes in groups if nodes not in known]):
        yield saved(_described(store.source_graph.main, recipe, nodes, error))


def grouped(nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """Each node alone; of many, neighbors together."""
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


def _errors(
    store: VariantStore, recipe: str, plan: Plan, groups: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Quantize each group alone; the next variant is made while the last one runs."""
    if not groups:
        return
    probe = Probe(store, plan)
    running: list[tuple[tuple[int, ...], Future[float]]] = []
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder, ThreadPoolExecutor(1) as beside:
        for number, nodes in enumerate(groups):
            store.tell(f"{recipe}: sensitivity {number + 1} of {len(groups)}")
            path = Path(folder) / f"{number}.tflite"
            known = _make_one(store, recipe, nodes, path)
            running.append((nodes, beside.submit(_error_of, probe, path, known)))
            if len(running) > 1:
                done, error = running.pop(0)
                yield done, error.result()
        for nodes, error in running:
            yield nodes, error.result()


def _make_one(store: VariantStore, recipe: str, nodes: tuple[int, ...], path: Path) -> float | None:
    """The error if it is known without a run: nothing to quantize is none, what cannot be made must stay float."""
    try:
        given = store.judge.calibration() if recipe_from_name(recipe).needs_calibration else None
        store.maker.make(quick_like(recipe), path, given, only=nodes)
    except NothingToChangeError:
        return 0.0
    except HastenError:
        return math.inf
    return None


def _error_of(probe: Probe, path: Path, known: float | None) -> float:
    if known is not None:
        return known
    try:
        return probe.error_of(path)
    finally:
        path.unlink(missing_ok=True)


def _shares(store: VariantStore, trial: Trial, plan: Plan) -> dict[int, float]:
    """What each node has to give: its part of the weights, or the part of the time that integers save there.

    Where the two models cannot be laid side by side, all of the node's time counts.
    """
    if store.settings.goal is Goal.SIZE:
        return weight_shares_by_node(store.source_graph)
    whole = store.known(VariantRequest(trial.recipe)) or trial
    gains = store.gains_of(whole, plan) if whole.path else None
    if gains is not None and gains.nodes:
        return gains.shares()
    store.tell("profiling the original")
    original = store.candidate_of(store.source, plan)
    profile = profile_model(store.target, original, store.source_graph, _PROFILE_SECONDS, None, no_progress)
    if isinstance(profile, Failure):
        return weight_shares_by_node(store.source_graph)
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

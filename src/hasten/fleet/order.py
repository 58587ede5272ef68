"""What a run asks of its workers, and the same opened next to a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hasten.core.errors import UsageError
from hasten.core.measurement import Model
from hasten.core.trial import CHOOSING, REPORTING
from hasten.data.functions import is_function_name
from hasten.data.request import Data, open_data
from hasten.data.tensor_forms import forms_from_graph
from hasten.engine.model_file import file_hash
from hasten.evaluate.split import parts
from hasten.fleet.parcel import listed, pack_data, pack_file
from hasten.measure.opening import open_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.core.plan import Plan, Workload
    from hasten.data.dataset import Dataset
    from hasten.data.request import OpenData
    from hasten.fleet.parcel import FileStore, Parcel, Sources
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.search.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class Order:
    """What all jobs of a run share: the model, the data to judge it by, and what is asked for."""

    run: str
    """A name that no other run has; a tuning goes on by it."""
    model: Parcel
    plan: Plan
    workload: Workload
    data: Data
    """Without names of files: manifests have those."""
    source: str
    """The manifest of the data's files, by its SHA-256; empty without data."""
    calibration: str
    settings: SearchSettings
    seconds: float
    """The budget of each tuning."""

    @property
    def digests(self) -> tuple[str, ...]:
        """The contents that a worker must have, besides the data."""
        return tuple(file.sha256 for file in self.model.files)

    @property
    def manifests(self) -> tuple[str, ...]:
        """The lists of the files that a worker must have."""
        return tuple(dict.fromkeys(digest for digest in (self.source, self.calibration) if digest))


@dataclass(frozen=True, slots=True)
class OpenOrder:
    """An order next to a device: files have paths again."""

    candidate: Candidate
    graph: Graph
    data: OpenData

    def part(self, name: str) -> Dataset:
        """One part of the data, as every search splits it."""
        choosing, reporting = parts(self.data.dataset, self.data.given.samples)
        return {CHOOSING: choosing, REPORTING: reporting}[name]


def make_order(
    run: str,
    subject: tuple[Path, Plan, Workload],
    data: Data,
    settings: SearchSettings,
    seconds: float,
    sources: Sources,
    tell: Callable[[str], None] = lambda text: None,
) -> Order:
    """Pack what the workers need; the sources say afterwards where each content is. Refuses what cannot travel."""
    model, plan, workload = subject
    if is_function_name(data.metric):
        raise UsageError(
            f"The metric {data.metric} is a function, which a cluster does not run.", "Use one of hasten's own metrics."
        )
    return Order(
        run,
        pack_file(model, sources),
        plan,
        workload,
        replace(data, source="", calibration=""),
        listed(pack_data(data.source, sources, tell), sources) if data.source else "",
        listed(pack_data(data.calibration, sources, tell), sources) if data.calibration else "",
        replace(settings, resume=True),
        seconds,
    )


def open_order(order: Order, store: FileStore) -> OpenOrder:
    """Open the model and the data from a worker's files."""
    candidate, graph = open_model(store.place(order.model), order.plan, order.workload)
    data = replace(
        order.data,
        source=str(store.place(store.parcel(order.source))) if order.source else "",
        calibration=str(store.place(store.parcel(order.calibration))) if order.calibration else "",
    )
    return OpenOrder(candidate, graph, open_data(data, forms_from_graph(graph, order.workload).inputs))


def candidate_of(opened: OpenOrder, path: Path, plan: Plan, label: str) -> Candidate:
    """Another model with a plan, run as the original is."""
    model = Model(str(path), path.stat().st_size, file_hash(path))
    return replace(opened.candidate, label=label, path=path, model=model, plan=plan)

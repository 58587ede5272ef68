"""A search that has not begun, for tests that look at its parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.core.plan import Plan, Workload
from hasten.data.request import Data, open_data
from hasten.data.tensor_forms import forms_from_graph
from hasten.measure.opening import open_model
from hasten.search.folder import QUANTIZE, TUNE, FolderRules, SearchFolder
from hasten.search.quantizing import QuantizeSearch
from hasten.search.settings import SearchSettings, compared_settings
from hasten.search.variant_store import VariantStore
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from hasten.measure.rounds import Progress

PLAIN = SearchSettings()
NO_DATA = Data()


def store(
    model: Path,
    folder: Path,
    data: Data = NO_DATA,
    settings: SearchSettings = PLAIN,
    workload: Workload = Workload(),
    rules: FolderRules = TUNE,
) -> VariantStore:
    """A place that makes variants."""
    candidate, graph = open_model(model, Plan(), workload)
    given = open_data(data, forms_from_graph(graph, workload).inputs)
    place = SearchFolder(Path(folder), rules, compared_settings(candidate, given, settings), resume=True)
    return VariantStore(LocalTarget(), candidate, graph, given, settings, place)


def begun(
    model: Path, folder: Path, data: Data = NO_DATA, settings: SearchSettings = PLAIN, progress: Progress | None = None
) -> QuantizeSearch:
    """A search for variants that knows the original, and no more."""
    work = store(model, folder, data, settings, rules=QUANTIZE)
    search = QuantizeSearch(work, 0.1, progress or (lambda share, text: None))
    search._begin()
    return search

"""The catalogue of models that `hasten choose` tries: architectures to build, published accuracies, trained weights."""

from __future__ import annotations

from hasten.practices.choose.catalogue.building import build
from hasten.practices.choose.catalogue.entry import Entry, Published, Settings, WeightSource
from hasten.practices.choose.catalogue.reading import entries
from hasten.practices.choose.catalogue.weights import TrainedModel, entry_named, get

__all__ = ["Entry", "Published", "Settings", "TrainedModel", "WeightSource", "build", "entries", "entry_named", "get"]

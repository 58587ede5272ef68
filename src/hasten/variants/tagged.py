"""A prepared model in the quantiser's hands: tags for names on the way in, its own names on the way out."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from hasten.core.errors import ModelError
from hasten.model.model_object import bytes_from_object, object_from_bytes, read_object
from hasten.variants.mending import mend
from hasten.variants.quantizer import Order, calibrated_ranges, quantized_bytes
from hasten.variants.tags import put_tags, take_tags_off, with_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from hasten.model.graph import Signature
    from hasten.variants.calibration import Calibration
    from hasten.variants.recipes import Recipe


class TaggedModel:
    """A prepared model with tags for names, as the quantiser gets it."""

    def __init__(self, prepared: Path) -> None:
        self.file_name = prepared.name
        self.model = read_object(prepared)
        self.names = put_tags(self.model)
        self.raw = bytes_from_object(self.model)

    def quantized(self, order: Order, calibration: Calibration | None) -> Any:
        """The quantised model with its own names."""
        ranges = calibration.values if calibration else None
        with self._own_names():
            quantized = object_from_bytes(quantized_bytes(self.raw, order, ranges, self.file_name))
        take_tags_off(quantized, self.names)
        mend(self.model, quantized, order)
        return quantized

    def ranges(
        self, way_in: Signature, recipe: Recipe, samples: list[dict[str, Any]], unread: Collection[int] = ()
    ) -> dict[str, Any]:
        """The ranges of activations, by tag. Tensors of the signature's graph that are `unread` have none."""
        raw = self._without_names(way_in.subgraph, unread) if unread else self.raw
        with self._own_names():
            return calibrated_ranges(raw, way_in.subgraph, recipe.ranges, way_in.key, samples, self.file_name)

    def _without_names(self, subgraph: int, tensors: Collection[int]) -> bytes:
        """The model in which the quantiser passes over these tensors, as it does over all that have no name."""
        model = object_from_bytes(self.raw)
        for index in tensors:
            model.subgraphs[subgraph].tensors[index].name = ""
        return bytes_from_object(model)

    @contextlib.contextmanager
    def _own_names(self) -> Iterator[None]:
        try:
            yield
        except ModelError as error:
            raise type(error)(with_names(error.message, self.names), error.hint) from error

"""Variants that were made once for a whole fleet, and are taken from there by each device's search."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hasten.core.codec import from_data
from hasten.variants.maker_process import VariantMaker
from hasten.variants.variant import NothingToChangeError, Variant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from hasten.fleet.parcel import FileStore
    from hasten.measure.rounds import Candidate
    from hasten.variants.io_types import IoTypes


@dataclass(frozen=True, slots=True)
class MadeVariant:
    """A variant by its recipe, and where its content is; or why the recipe has nothing to change."""

    recipe: str
    sha256: str = ""
    variant: Mapping[str, Any] = field(default_factory=dict)
    nothing_to_change: tuple[str, str] = ("", "")


class SharedMaker(VariantMaker):
    """Takes what was made already, and makes the rest: mixes and pruned variants are this device's own."""

    def __init__(self, candidate: Candidate, io_types: IoTypes, made: Sequence[MadeVariant], store: FileStore) -> None:
        super().__init__(candidate.path, candidate.workload.signature, io_types)
        self._made_before = {entry.recipe: entry for entry in made}
        self._store = store

    def make(
        self,
        recipe: str,
        out: Path,
        samples: Sequence[dict[str, Any]] | None = None,
        *,
        only: Collection[int] | None = None,
        but: Collection[int] | None = None,
        io_types: IoTypes | None = None,
    ) -> Variant:
        """The variant of a whole recipe as it was made for all; any other is made here."""
        known = self._made_before.get(recipe)
        if known is None or only is not None or but or io_types not in (None, self._io_types):
            return super().make(recipe, out, samples, only=only, but=but, io_types=io_types)
        message, hint = known.nothing_to_change
        if message:
            raise NothingToChangeError(message, hint)
        shutil.copyfile(self._store.path_of(known.sha256), out)
        return replace(from_data(Variant, known.variant), path=out)

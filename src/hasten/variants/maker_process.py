"""Makes variants in a process of its own: a crash in the quantizer costs one variant, not the search."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.codec import from_data
from hasten.core.errors import ModelError
from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan
from hasten.runner.protocol import Message
from hasten.targets.link import ProcessLink
from hasten.targets.local import local_program
from hasten.variants.io_types import FLOAT_IO, IoTypes
from hasten.variants.variant import NothingToChangeError, Variant

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    Samples = Sequence[dict[str, Any]]

_MODULE: Final = "hasten.variants.__main__"
# Large models take minutes; what takes longer than this hangs.
_SECONDS: Final = 900.0


class VariantMaker:
    """Makes variants of one model. The process is started when it is first needed, and anew after a crash."""

    def __init__(self, model: Path, signature: str = "", io_types: IoTypes = FLOAT_IO) -> None:
        self._model, self._signature, self._io_types = str(model.resolve()), signature or None, io_types
        self._link: ProcessLink | None = None
        self._given: Samples | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        """For its temporary files: a process that is ended by force removes none."""

    @property
    def pid(self) -> int | None:
        """The number of the process, if there is one."""
        return None if self._link is None else self._link.pid

    def make(
        self,
        recipe: str,
        out: Path,
        samples: Samples | None = None,
        *,
        only: Collection[int] | None = None,
        but: Collection[int] | None = None,
        io_types: IoTypes | None = None,
    ) -> Variant:
        """Make a variant by a recipe; static ones need samples by input name. Trouble comes out as a HastenError.

        Inputs and outputs have the maker's types unless `io_types` gives others. With `only` they stay float: such a
        variant shows the error of these nodes, and what other types of inputs and outputs lose is not theirs.
        """
        if samples is not None and samples is not self._given:
            self._give(samples)
        io_types = io_types or (self._io_types if only is None else FLOAT_IO)
        return self._made(
            {
                "request": "make",
                "recipe": recipe,
                "out": str(out.resolve()),
                "signature": self._signature,
                "only": None if only is None else sorted(only),
                "but": None if but is None else sorted(but),
                "input_type": io_types.input_type,
                "output_type": io_types.output_type,
            }
        )

    def prune(self, sparsity: float, out: Path, *, encode: bool) -> Variant:
        """Make a pruned variant; `encode` stores dense layers without their zeros."""
        return self._made({"request": "prune", "sparsity": sparsity, "out": str(out.resolve()), "encode": encode})

    def close(self) -> None:
        """End the process, and remove what it may have left behind."""
        if self._link is not None:
            self._link.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._link = self._given = self._folder = None

    def _made(self, body: dict[str, Any]) -> Variant:
        answer = self._ask(Message({**body, "model": self._model}))
        if "nothing_to_change" in answer:
            raise NothingToChangeError(answer["nothing_to_change"], answer["hint"])
        return from_data(Variant, answer)

    def _give(self, samples: Samples) -> None:
        # Unlike ascontiguousarray, this leaves a scalar one.
        arrays = [[(name, np.asarray(values, order="C")) for name, values in sample.items()] for sample in samples]
        told = [[(name, str(values.dtype), list(values.shape)) for name, values in entries] for entries in arrays]
        frames = tuple(values.reshape(-1).view(np.uint8).data for entries in arrays for _, values in entries)
        self._ask(Message({"request": "samples", "samples": told}, frames))
        self._given = samples

    def _ask(self, message: Message) -> dict[str, Any]:
        try:
            if self._link is None:
                self._link = self._started()
            return self._link.ask(message, stage="make", seconds=_SECONDS).body
        except RunnerFailed as failed:
            if failed.failure.kind in ("crash", "hang", "out of memory"):
                self.close()
                raise ModelError(failed.failure.message, "Try another recipe.") from failed
            raise failed.failure.error(Plan()) from failed

    def _started(self) -> ProcessLink:
        self._folder = tempfile.TemporaryDirectory(prefix="hasten-", ignore_cleanup_errors=True)
        environment = {**os.environ, "TMPDIR": self._folder.name}
        return ProcessLink(replace(local_program(_MODULE, name="quantizer"), environment=environment))

"""The builder of small .tflite models: synthetic load that measures a machine's peaks, and models for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.build_bytes import SubgraphRecord, model_bytes
from hasten.model.build_flow import FlowBuilder

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_SIGNATURE = "serving_default"


class ModelBuilder(FlowBuilder):
    """Draws a model: inputs, operators that take and return values, outputs; then its bytes.

    Two builders with one seed and the same calls give the same bytes. The builder itself draws the main subgraph.
    """

    def __init__(self, seed: int = 0, *, weights: str = "float32", description: str = "hasten") -> None:
        super().__init__(SubgraphRecord(0, "main"), np.random.default_rng(seed), weights)
        self._description = description
        self._subgraphs = [self._record]

    def subgraph(self, name: str, *, signature: str | None = None) -> FlowBuilder:
        """Start a further subgraph: the target of a signature of its own, or of control flow."""
        if any(subgraph.name == name for subgraph in self._subgraphs):
            raise UsageError(f"there is a subgraph {name!r} already", "Choose another name.")
        self._subgraphs.append(SubgraphRecord(len(self._subgraphs), name, signature))
        return FlowBuilder(self._subgraphs[-1], self._random, self._weights)

    def build(self, signature: str | None = DEFAULT_SIGNATURE, *, old_schema: bool = False) -> bytes:
        """Return the file; `signature` names the main subgraph's, None leaves it without one."""
        if not self._record.outputs:
            raise UsageError("the model has no output", "Call output() on a value.")
        self._record.signature = signature
        return model_bytes(self._subgraphs, description=self._description, old_schema=old_schema)

    def write(self, path: Path, signature: str | None = DEFAULT_SIGNATURE, *, old_schema: bool = False) -> Path:
        """Write the file and return its path."""
        path.write_bytes(self.build(signature, old_schema=old_schema))
        return path

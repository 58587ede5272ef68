"""The builder of small .tflite models: synthetic load that measures a machine's peaks, and models for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hasten.core.errors import UsageError
from hasten.model.build_bytes import SubgraphRecord, model_bytes
from hasten.model.build_graph import Spec, Value
from hasten.model.build_ops import OperatorBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hasten.model.build_graph import GraphBuilder

DEFAULT_SIGNATURE = "serving_default"


class FlowBuilder(OperatorBuilder):
    """Adds variables, loops and branches to a graph."""

    def variable(self, name: str) -> Value:
        """Return the handle of a variable; handles of one name are one variable, in all subgraphs.

        LiteRT reads a variable that nothing has assigned as whatever its memory holds: assign it through `call_once`.
        """
        (handle,) = self.operator(
            "VAR_HANDLE", [], [Spec((), "resource")], options_type="VarHandleOptions", container="", sharedName=name
        )
        return handle

    def read_variable(self, handle: Value, shape: Sequence[int], dtype: str = "float32") -> Value:
        """Return what a variable holds."""
        spec = Spec(tuple(shape), dtype)
        (value,) = self.operator("READ_VARIABLE", [handle], [spec], options_type="ReadVariableOptions")
        return value

    def assign_variable(self, handle: Value, value: Value) -> None:
        """Put a value into a variable."""
        self.operator("ASSIGN_VARIABLE", [handle, value], [], options_type="AssignVariableOptions")

    def call_once(self, initialization: GraphBuilder) -> None:
        """Run a subgraph that has no inputs and outputs, in the first call only."""
        self.operator("CALL_ONCE", [], [], options_type="CallOnceOptions", initSubgraphIndex=initialization.index)

    def while_loop(self, values: Sequence[Value], condition: GraphBuilder, body: GraphBuilder) -> tuple[Value, ...]:
        """Run `body`, from values to values, as long as `condition`, from values to one bool, holds."""
        options = {"condSubgraphIndex": condition.index, "bodySubgraphIndex": body.index}
        return self.operator("WHILE", values, values, options_type="WhileOptions", **options)

    def if_else(
        self, condition: Value, values: Sequence[Value], then: GraphBuilder, otherwise: GraphBuilder, output: Spec
    ) -> Value:
        """Run one of two subgraphs on the values."""
        options = {"thenSubgraphIndex": then.index, "elseSubgraphIndex": otherwise.index}
        (value,) = self.operator("IF", [condition, *values], [output], options_type="IfOptions", **options)
        return value


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
            raise UsageError(f"There is a subgraph {name!r} already.", "Choose another name.")
        self._subgraphs.append(SubgraphRecord(len(self._subgraphs), name, signature))
        return FlowBuilder(self._subgraphs[-1], self._random, self._weights)

    def build(self, signature: str | None = DEFAULT_SIGNATURE, *, old_schema: bool = False) -> bytes:
        """Return the file; `signature` names the main subgraph's, None leaves it without one."""
        if not self._record.outputs:
            raise UsageError("The model has no output.", "Call output() on a value.")
        self._record.signature = signature
        return model_bytes(self._subgraphs, description=self._description, old_schema=old_schema)

    def write(self, path: Path, signature: str | None = DEFAULT_SIGNATURE, *, old_schema: bool = False) -> Path:
        """Write the file and return its path."""
        path.write_bytes(self.build(signature, old_schema=old_schema))
        return path

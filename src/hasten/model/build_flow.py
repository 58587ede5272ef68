"""State and control flow: variables that live from call to call, and operators that run other subgraphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.model.build_graph import Spec, Value
from hasten.model.build_ops import OperatorBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.model.build_graph import GraphBuilder


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

    def call_once(self, initialisation: GraphBuilder) -> None:
        """Run a subgraph that has no inputs and outputs, in the first call only."""
        self.operator("CALL_ONCE", [], [], options_type="CallOnceOptions", initSubgraphIndex=initialisation.index)

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

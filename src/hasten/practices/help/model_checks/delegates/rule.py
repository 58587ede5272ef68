"""The vocabulary of the tables: a node with its tensors, and rules that give the reason for a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.remark import Remark, remark

if TYPE_CHECKING:
    from hasten.model.graph import Node, Subgraph, Tensor

FLOATS: Final = ("float32", "float16")
EIGHT_BITS: Final = ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class Site:
    """A node where it stands: what a delegate's rules look at."""

    subgraph: Subgraph
    node: Node
    constants: frozenset[int]
    """Tensors whose values are known before a run; see `known_tensors`."""

    @property
    def inputs(self) -> list[Tensor]:
        """The inputs that are there, in their order."""
        return [self.subgraph.tensors[index] for index in self.node.inputs if index >= 0]

    @property
    def outputs(self) -> list[Tensor]:
        """The outputs."""
        return [self.subgraph.tensors[index] for index in self.node.outputs if index >= 0]

    @property
    def runtime_inputs(self) -> int:
        """How many inputs are no constants."""
        return sum(tensor.index not in self.constants for tensor in self.inputs)

    def input(self, place: int) -> Tensor | None:
        """The input at a place; None where it is left out."""
        indices = self.node.inputs
        return self.subgraph.tensors[indices[place]] if place < len(indices) and indices[place] >= 0 else None

    def option(self, name: str, default: Any) -> Any:
        """An option of the operator; the schema's default where it has none."""
        return self.node.options.get(name, default)


Rule = Callable[[Site], Remark | None]
_UNPACKING: Final = ("DEQUANTIZE", "DENSIFY")


def known_tensors(subgraph: Subgraph) -> frozenset[int]:
    """Constants, and weights that the model only unpacks from them: delegates do that once, as they prepare.

    The empty shape of a scalar has no bytes in the file, and is known all the same.
    """
    known = {tensor.index for tensor in subgraph.tensors if tensor.is_constant or tensor.elements == 0}
    for node in subgraph.nodes:
        if node.op in _UNPACKING and known.issuperset(node.inputs):
            known.update(node.outputs)
    return frozenset(known)


@dataclass(frozen=True, slots=True)
class Delegate:
    """What a delegate takes. An operator that is not in the table is refused."""

    name: str
    source: str
    """Where the rules were read, and what release of the platform they describe."""
    operators: Mapping[str, tuple[Rule, ...]]
    everywhere: tuple[Rule, ...] = ()
    customs: frozenset[str] = field(default_factory=frozenset)
    """Custom operators that it knows by name."""
    wants_integers: bool = False
    most_partitions: int | None = None
    """It runs only so many parts of the graph, the largest; None for all."""

    def refusal(self, site: Site) -> Remark | None:
        """Why it leaves a node to the CPU; None for one that it takes."""
        node = site.node
        if node.custom_code is not None:
            return None if node.custom_code in self.customs else remark("refused.custom", name=node.custom_code)
        rules = self.operators.get(node.op)
        if rules is None:
            return remark("refused.operator", op=node.op)
        return next((why for rule in (*self.everywhere, *rules) if (why := rule(site)) is not None), None)


def input_types(*allowed: str, places: tuple[int, ...] = (0,)) -> Rule:
    """The inputs at these places have one of these types."""

    def rule(site: Site) -> Remark | None:
        for tensor in filter(None, map(site.input, places)):
            if tensor.dtype not in allowed:
                return remark("refused.type", dtype=tensor.dtype, allowed=list(allowed))
        return None

    return rule


def all_types(*allowed: str) -> Rule:
    """Inputs and outputs that are computed have one of these types."""

    def rule(site: Site) -> Remark | None:
        computed = [tensor for tensor in (*site.inputs, *site.outputs) if tensor.index not in site.constants]
        wrong = next((tensor.dtype for tensor in computed if tensor.dtype not in allowed), None)
        return None if wrong is None else remark("refused.type", dtype=wrong, allowed=list(allowed))

    return rule


def constant_inputs(*places: int, dtype: str = "") -> Rule:
    """The inputs at these places, if there, are constants (of a type)."""

    def rule(site: Site) -> Remark | None:
        for place in places:
            tensor = site.input(place)
            if tensor is not None and tensor.index not in site.constants:
                return remark("refused.not-constant", place=place)
            if tensor is not None and dtype and tensor.dtype != dtype:
                return remark("refused.type", dtype=tensor.dtype, allowed=[dtype])
        return None

    return rule


def input_count(*allowed: int) -> Rule:
    """The operator has one of these numbers of inputs."""

    def rule(site: Site) -> Remark | None:
        count = len(site.inputs)
        return None if count in allowed else remark("refused.inputs", count=count, allowed=list(allowed))

    return rule


def runtime_count(*allowed: int) -> Rule:
    """One of these numbers of inputs is computed when the model runs."""

    def rule(site: Site) -> Remark | None:
        count = site.runtime_inputs
        return None if count in allowed else remark("refused.runtime-inputs", count=count, allowed=list(allowed))

    return rule


def ranks(*allowed: int, place: int = 0) -> Rule:
    """The input at a place has one of these numbers of dimensions."""

    def rule(site: Site) -> Remark | None:
        tensor = site.input(place)
        if tensor is None or len(tensor.shape) in allowed:
            return None
        return remark("refused.rank", rank=len(tensor.shape), allowed=list(allowed))

    return rule


def most_dimensions(most: int) -> Rule:
    """No input or output has more dimensions than this."""

    def rule(site: Site) -> Remark | None:
        rank = max((len(tensor.shape) for tensor in (*site.inputs, *site.outputs)), default=0)
        return None if rank <= most else remark("refused.dimensions", rank=rank, most=most)

    return rule


def settled_shapes(site: Site) -> Remark | None:
    """Every shape is known before the model runs; handles of variables have none."""
    tensors = [tensor for tensor in (*site.inputs, *site.outputs) if tensor.dtype != "resource"]
    open_one = next((tensor for tensor in tensors if tensor.is_unranked or -1 in tensor.shape_signature[1:]), None)
    return None if open_one is None else remark("refused.dynamic", shape=list(open_one.shape_signature))


def option_in(name: str, *allowed: Any, default: Any = 0) -> Rule:
    """An option has one of these values."""

    def rule(site: Site) -> Remark | None:
        value = site.option(name, default)
        return None if value in allowed else remark("refused.option", option=name, value=value, allowed=list(allowed))

    return rule


def option_at_most(name: str, most: float, default: float = 1) -> Rule:
    """An option is not larger than this."""

    def rule(site: Site) -> Remark | None:
        value = site.option(name, default)
        return None if value <= most else remark("refused.option-large", option=name, value=value, most=most)

    return rule


def activations(*allowed: str) -> Rule:
    """The fused activation is one of these."""
    return option_in("fused_activation_function", *allowed, default="NONE")


def most_version(most: int) -> Rule:
    """The operator is not newer than this version of its definition."""

    def rule(site: Site) -> Remark | None:
        version = site.node.version
        return None if version <= most else remark("refused.version", version=version, most=most)

    return rule


def same_quantization(site: Site) -> Remark | None:
    """Input and output count in the same steps."""
    first, result = site.input(0), next(iter(site.outputs), None)
    one, other = (None if tensor is None else tensor.quantization for tensor in (first, result))
    if one is None or other is None or (one.scales, one.zero_points) == (other.scales, other.zero_points):
        return None
    return remark("refused.rescales")

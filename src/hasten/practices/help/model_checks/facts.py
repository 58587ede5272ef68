"""What was found in a model file about delegates: what each takes, and what it refuses for which reason."""

from __future__ import annotations

from hasten.core.codec import record
from hasten.core.remark import Remark


@record
class Refusal:
    """Nodes of one kind that a delegate refuses for one reason."""

    op: str
    nodes: tuple[int, ...]
    why: Remark


@record
class DelegateFit:
    """How much of the main graph a delegate takes."""

    name: str
    observed: bool
    """Seen in the engine's own plan on this machine; otherwise worked out from the rules of the delegate."""
    total: int
    taken: int
    partitions: int
    """Parts that the delegate runs apart from each other; each border between them costs a change of devices."""
    refusals: tuple[Refusal, ...]
    taken_macs: float | None = None
    """The share of the multiply-accumulates in what it takes."""
    left_share: float | None = None
    """The share of a measured run that the operators take which it leaves to the CPU."""
    wants_integers: bool = False
    """It takes quantized models only, and this one computes in floats."""

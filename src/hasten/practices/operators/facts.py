"""What a study of operators found: where a run has time to win, what was tried there, and the model that came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hasten.core.codec import key, record, sentence
from hasten.core.comparison import Comparison, Verdict
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark
from hasten.measure.layer_times import LayerTime
from hasten.measure.range_times import RangeTime

TOGETHER: Final = "together"
"""All rewrites that apply, at once: one may open the way for another."""
FASTER_ALONE: Final = "faster-alone"
"""All rewrites that are faster alone, at once."""
NOT_ALONE: Final = "operators.not-alone"
"""Why a rewrite has no time of its own: there was none to race it alone."""
FAILED: Final = "operators.failed"
"""Why a rewrite is not kept: the model does not run with it."""
NOT_CONFIRMED: Final = "operators.not-confirmed"
"""Why a rewrite is not kept: the race says faster, and fresh processes do not."""


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """What to try, and where the result goes."""

    rewrites: tuple[str, ...] = ()
    """Names of the rewrites to try; all of them where none is named."""
    outputs: tuple[str, ...] = ()
    """The outputs to keep; all where none is named."""
    kernels: bool = False
    """Try hasten's own kernels as well; needs a C compiler."""
    kernel_files: tuple[tuple[str, str], ...] = ()
    """Kernels of the user's own: a file (.c, or .py for numba) and what it replaces (HARD_SWISH; MUL,ADD; 12:15)."""


@record
class Place:
    """Operators of one kind that have time to win for the same reason, together."""

    op: str
    nodes: tuple[int, ...]
    location: str
    ms: float
    share: float
    headroom_ms: float | None
    """What a run would win if they ran at the machine's peak."""
    bound: str | None
    """`compute` or `memory`: what limits them there."""
    delegated: bool
    """Whether a delegate runs them; others split its partition."""
    to_try: tuple[str, ...] = key("try")
    """The rewrites and kernels that apply."""

    @property
    def gain_ms(self) -> float:
        """What could be won at most."""
        return self.ms if self.to_try and self.headroom_ms is None else self.headroom_ms or 0.0


@record
class Tried:
    """One change of the graph: what it was, whether it keeps the outputs, and what it brings."""

    what: str
    nodes: tuple[int, ...]
    """The nodes of the file that it changed."""
    places: int
    """At how many places of the graph."""
    tolerance: float
    """The error that its rounding may bring, as a share of the largest output; 0: none."""
    max_error: float | None = None
    """The largest error of any output on any input, as such a share; None where it was not compared."""
    inputs: int = 0
    """On how many inputs outputs were compared."""
    comparison: Comparison | None = None
    """Its latency against the original's."""
    kept: bool = False
    why: Remark = sentence(default=Remark(""))
    of_user: bool = False
    """Whether it is a kernel of the user's own."""

    @property
    def is_single(self) -> bool:
        """Whether it is one rewrite, and no combination of some."""
        return self.what not in (TOGETHER, FASTER_ALONE)

    @property
    def is_equal(self) -> bool:
        """Whether outputs stayed within what it promises."""
        return self.max_error is not None and self.max_error <= self.tolerance

    @property
    def is_faster(self) -> bool:
        """Whether that is proven."""
        return self.comparison is not None and self.comparison.verdict is Verdict.FASTER

    @property
    def is_faulty(self) -> bool:
        """Whether it was seen to compute something else, or to fail; what was not compared yet was not."""
        told = self.why.code not in ("", NOT_ALONE)
        return told and (not self.is_equal or self.comparison is None)


@record
class OperatorsFound:
    """Everything about one model on one plan."""

    model: Model
    plan: Plan
    places: tuple[Place, ...] = key("candidates")
    """Most to win first."""
    tried: tuple[Tried, ...] = ()
    invoke_ms: float = 0.0
    """The time of a profiled run, which shares refer to."""
    seen: float = 0.0
    """Which part of it operators add up to."""
    ranges: tuple[RangeTime, ...] = ()
    """Where the engine shows too little: the time of ranges of nodes, estimated from parts that were cut out."""
    layers: tuple[LayerTime, ...] = ()
    """Where OpenVINO runs the model: its own counters, in the order in which layers run."""
    partitions: tuple[int, int] = (0, 0)
    """Delegated partitions of the original, and of the result."""
    final: Comparison | None = None
    """All that was kept, together, against the original."""
    latency_ms: tuple[float, float] | None = None
    """Of the original and of the result."""
    max_error: float | None = None
    tolerance: float = 0.0
    path: str = ""
    """The rewritten model; empty where nothing was kept."""
    size_bytes: int = 0
    kernels: tuple[str, ...] = ()
    """The libraries that the rewritten model needs: a plan names them."""
    inputs: str = ""
    """What outputs were compared on."""
    dropped_outputs: tuple[str, ...] = ()
    seconds: float = 0.0
    doubts: tuple[Remark, ...] = ()
    interrupted: bool = False

    @property
    def kept(self) -> tuple[Tried, ...]:
        """What the result has."""
        return tuple(one for one in self.tried if one.kept)

    @property
    def refused_kernels(self) -> tuple[str, ...]:
        """Kernels of the user's own that fail or compute something else: their author has to mend them."""
        return tuple(one.what for one in self.tried if one.of_user and one.is_faulty)

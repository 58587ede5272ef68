"""Why a changed model is slower, or wrong: the records that lay two models side by side, node by node."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hasten.core.doubts import doubts_data
from hasten.core.json_numbers import finite

if TYPE_CHECKING:
    from hasten.core.comparison import Comparison
    from hasten.core.measurement import Model
    from hasten.core.plan import Plan
    from hasten.core.profile import Peaks
    from hasten.core.remark import Remark
    from hasten.core.statistics import Interval
    from hasten.model.matching import NodeMatch


@dataclass(frozen=True, slots=True)
class Timing:
    """What one of the two models spent on its node."""

    ms: float
    kernel: str
    """XNNPACK's kernels; `built-in kernel` where the engine's own one ran, `inside #7` where another node's did."""
    delegated: bool
    conversion_ms: float = 0.0
    """The part of `ms` that went into kernels which only change the type of numbers."""
    headroom_ms: float | None = None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One line of the side-by-side view."""

    match: NodeMatch
    before: Timing | None
    """None where the model has no such node, or where it was not timed."""
    after: Timing | None
    change_ms: Interval
    """After less before, and the range of the rounds; a node that is missing counts as no time. NaN where no node could
    be timed."""
    snr_db: float | None = None
    """Signal over error of the node's output, against the original's; infinite where it is the same to the last bit."""
    drop_db: float | None = None
    """How much lower that is than in the worst of the node's inputs."""

    def as_data(self) -> dict[str, Any]:
        """The row as JSON can hold it: what a table or a plot needs."""
        return {
            "before": self.match.before,
            "after": self.match.after,
            "match": self.match.certainty.value,
            "op": self.match.op,
            "location": self.match.location,
            "shape": self.match.shape,
            "ms_before": None if self.before is None else self.before.ms,
            "ms_after": None if self.after is None else self.after.ms,
            "change_ms": _interval_data(self.change_ms),
            "kernel_before": None if self.before is None else self.before.kernel,
            "kernel_after": None if self.after is None else self.after.kernel,
            "headroom_ms_before": None if self.before is None else self.before.headroom_ms,
            "headroom_ms_after": None if self.after is None else self.after.headroom_ms,
            "snr_db": finite(self.snr_db),
            "same_to_the_bit": self.snr_db == math.inf,
            "drop_db": finite(self.drop_db),
        }


class CauseKind(enum.Enum):
    """What happened to a group of nodes; the value is its name in JSON."""

    LEFT_DELEGATE = "left-delegate"
    ENTERED_DELEGATE = "entered-delegate"
    CONVERSIONS = "conversions"
    KERNEL = "kernel"
    ADDED = "added"
    REMOVED = "removed"
    OPAQUE = "opaque"
    """They run, or ran, in a delegate that does not tell what happens inside."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Nodes with the same fate, and what that costs or wins. Every time of a run is in one cause, and in one only."""

    kind: CauseKind
    op: str
    kernel_before: str
    kernel_after: str
    nodes: int
    ms_before: float
    ms_after: float
    change_ms: Interval

    @property
    def is_clear(self) -> bool:
        """Whether the rounds agree on the sign."""
        return self.change_ms.low > 0 or self.change_ms.high < 0

    def as_data(self) -> dict[str, Any]:
        """The cause as JSON can hold it."""
        return {
            "kind": self.kind.value,
            "op": self.op,
            "kernel_before": self.kernel_before,
            "kernel_after": self.kernel_after,
            "nodes": self.nodes,
            "ms_before": self.ms_before,
            "ms_after": self.ms_after,
            "change_ms": _interval_data(self.change_ms),
            "clear": self.is_clear,
        }


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two models: its latency, its time inside the engine and how it was split up. Times are NaN where it
    could not be profiled, and then nothing is known of how it was split up."""

    model: Model
    latency_ms: float
    invoke_ms: float
    nodes: int
    delegated_nodes: int
    delegated_partitions: int
    left: tuple[str, ...]
    """Operators that no delegate took, as `#5 DEPTHWISE_CONV_2D`."""
    headroom_ms: float | None = None

    def as_data(self) -> dict[str, Any]:
        """The side as JSON can hold it."""
        known = not math.isnan(self.invoke_ms)
        return {
            "model": {"path": self.model.path, "size_bytes": self.model.size_bytes, "sha256": self.model.sha256},
            "latency_ms": finite(self.latency_ms),
            "invoke_ms": finite(self.invoke_ms),
            "nodes": self.nodes,
            "delegated_nodes": self.delegated_nodes if known else None,
            "delegated_partitions": self.delegated_partitions if known else None,
            "left": list(self.left),
            "headroom_ms": self.headroom_ms,
        }


@dataclass(frozen=True, slots=True)
class Instructions:
    """The CPU's instruction sets that low precision lives by: those it has and those it lacks, in words."""

    cpu: str
    has: tuple[str, ...]
    lacks: tuple[str, ...]
    hint: str = ""

    def as_data(self) -> dict[str, Any]:
        """The instructions as JSON can hold them."""
        return {"cpu": self.cpu, "has": list(self.has), "lacks": list(self.lacks), "hint": self.hint}


@dataclass(frozen=True, slots=True)
class LossyInput:
    """An input of the changed model whose type, or that of what it becomes at once, loses a part of what the original
    is fed."""

    name: str
    dtype: str
    snr_db: float
    node: int | None = None
    """The node that brings it into this type; None where the input itself has it."""

    def as_data(self) -> dict[str, Any]:
        """The input as JSON can hold it."""
        return {"name": self.name, "dtype": self.dtype, "snr_db": finite(self.snr_db), "node": self.node}


@dataclass(frozen=True, slots=True)
class CutOff:
    """A quantised tensor of the changed model that has no room for a part of the original's values."""

    node: int | None
    """The node of the changed model whose output it is; None for an input."""
    name: str
    """The input's name."""
    share: float
    """Of the original's values, those beyond."""
    original: tuple[float, float]
    """The least and the largest value in the original."""
    held: tuple[float, float]
    """What the changed model's tensor can hold."""

    def as_data(self) -> dict[str, Any]:
        """The tensor as JSON can hold it."""
        return {
            "node": self.node,
            "input": self.name or None,
            "share": self.share,
            "original": list(self.original),
            "held": list(self.held),
        }


@dataclass(frozen=True, slots=True)
class ErrorView:
    """Where the numerical error enters. Nodes are those of the changed model."""

    samples: int
    inputs: str
    """What the models were run on."""
    is_random: bool
    compared: int
    output_snr_db: float | None
    """Of the worst output."""
    first_drop: int | None
    """Where error enters first: the SNR is at least 6 dB below that of the node's inputs."""
    largest_drop: int | None
    """Where most harm is done."""
    first_below: int | None
    """The first node whose error is above a tenth of its signal (20 dB)."""
    unread: tuple[tuple[int, str], ...] = ()
    """Nodes whose output could not be read, and why."""
    disturbance_db: float = math.inf
    """Signal over error of the models' outputs while inner tensors are read, against the same model left alone: the
    delegate cannot fuse nodes whose outputs are asked for."""
    notes: tuple[str, ...] = ()
    """What had to be guessed of the inputs, and what was left out."""
    lossy_inputs: tuple[LossyInput, ...] = ()
    """Where these are, error enters there first, before any node."""
    cut_off: tuple[CutOff, ...] = ()
    """Worst first; inputs before nodes."""

    def as_data(self) -> dict[str, Any]:
        """The view as JSON can hold it."""
        return {
            "samples": self.samples,
            "inputs": self.inputs,
            "random": self.is_random,
            "compared": self.compared,
            "output_snr_db": finite(self.output_snr_db),
            "first_drop": self.first_drop,
            "largest_drop": self.largest_drop,
            "first_below": self.first_below,
            "unread": [{"node": node, "why": why} for node, why in self.unread],
            "disturbance_db": finite(self.disturbance_db),
            "notes": list(self.notes),
            "lossy_inputs": [one.as_data() for one in self.lossy_inputs],
            "cut_off": [one.as_data() for one in self.cut_off],
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known of the change from one model to the other."""

    plan: Plan
    before: Side
    after: Side
    comparison: Comparison
    verdict: str
    """The whole in a sentence or two, of measured causes only."""
    rows: tuple[NodeRow, ...]
    causes: tuple[Cause, ...]
    """Most costly first."""
    outside_ms: Interval
    """The part of the change that no operator accounts for: hand-over between partitions, the engine itself."""
    instructions: Instructions
    peaks: Peaks | None = None
    errors: ErrorView | None = None
    hints: tuple[str, ...] = ()
    """What may help, and has not been measured."""
    why_no_errors: str = ""
    """Why the numbers could not be compared, where they could not."""
    why_no_times: str = ""
    """Why the operators could not be timed, where they could not: there are no causes then."""
    doubts: tuple[Remark, ...] = field(default=())

    def row_of(self, after: int) -> NodeRow:
        """The row of a node of the changed model."""
        return next(row for row in self.rows if row.match.after == after)

    def as_data(self) -> dict[str, Any]:
        """The explanation as JSON can hold it."""
        return {
            "verdict": self.verdict,
            "before": self.before.as_data(),
            "after": self.after.as_data(),
            "comparison": self.comparison.as_data(),
            "causes": [cause.as_data() for cause in self.causes],
            "outside_ms": _interval_data(self.outside_ms),
            "instructions": self.instructions.as_data(),
            "hints": list(self.hints),
            "errors": None if self.errors is None else self.errors.as_data(),
            "why_no_errors": self.why_no_errors,
            "why_no_times": self.why_no_times,
            "nodes": [row.as_data() for row in self.rows],
            "doubts": doubts_data(self.doubts),
        }


def _interval_data(interval: Interval) -> dict[str, float | None]:
    return {"estimate": finite(interval.estimate), "low": finite(interval.low), "high": finite(interval.high)}

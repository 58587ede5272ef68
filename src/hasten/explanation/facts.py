"""What an explanation found: two models side by side, node by node, in time and in numbers."""

from __future__ import annotations

import enum
import math

from hasten.core.codec import key, record, sentence
from hasten.core.comparison import Comparison
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import Peaks
from hasten.core.remark import Remark
from hasten.model.matching import Certainty

INPUT_CONVERSIONS = "inputs of layers"
"""In the place of an operator's name: conversions that nodes of any kind make of their inputs."""


@record
class Change:
    """After less before, in milliseconds: of all rounds together, and the range of the rounds. NaN where unknown."""

    estimate: float = key(null=math.nan, default=math.nan)
    low: float = key(null=-math.inf, default=-math.inf)
    high: float = key(null=math.inf, default=math.inf)

    @property
    def is_clear(self) -> bool:
        """Whether the rounds agree on the sign."""
        return self.low > 0 or self.high < 0


@record
class NodeRow:
    """A node of the original and the one of the changed model that does its work; either may be missing."""

    before: int | None
    """Negative for an operator that stands for a whole delegated partition."""
    after: int | None
    match: Certainty
    op: str = ""
    location: str = ""
    shape: str = ""
    ms_before: float | None = None
    """None where the model has no such node, or where it was not timed."""
    ms_after: float | None = None
    change_ms: Change = Change()
    """A node that is missing counts as no time."""
    kernel_before: str | None = None
    """XNNPACK's kernels; `built-in kernel` where the engine's own ran, `inside #7` where another node's did."""
    kernel_after: str | None = None
    headroom_ms_before: float | None = None
    headroom_ms_after: float | None = None
    snr_db: float | None = None
    """Signal-to-noise ratio of the node's output against the original's; infinite where they are equal."""
    same_to_the_bit: bool = False
    drop_db: float | None = None
    """How much lower that is than in the worst of the node's inputs."""


class CauseKind(enum.Enum):
    """What happened to a group of nodes; the value is its name in JSON."""

    LEFT_DELEGATE = "left-delegate"
    ENTERED_DELEGATE = "entered-delegate"
    CONVERSIONS = "conversions"
    KERNEL = "kernel"
    ADDED = "added"
    REMOVED = "removed"
    OPAQUE = "opaque"
    """They run, or ran, in a delegate that does not report its operators."""


@record
class Cause:
    """Nodes with the same fate, and what that costs or saves. Every time of a run is in exactly one cause."""

    kind: CauseKind
    op: str
    kernel_before: str
    kernel_after: str
    nodes: int
    ms_before: float
    ms_after: float
    change_ms: Change


@record
class Side:
    """One of the two models: its latency, its time inside the engine and its partitions."""

    model: Model
    latency_ms: float = key(null=math.nan)
    """NaN where it could not be profiled."""
    invoke_ms: float = key(null=math.nan)
    nodes: int
    delegated_nodes: int | None = None
    """None where it could not be profiled."""
    delegated_partitions: int | None = None
    left: tuple[str, ...] = ()
    """Operators that no delegate took, as `#5 DEPTHWISE_CONV_2D`."""
    headroom_ms: float | None = None


@record
class Instructions:
    """The CPU's instruction sets for low precision: those it has and those it lacks, by name."""

    cpu: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    hint: Remark = sentence(default=Remark(""))


@record
class LossyInput:
    """An input of the changed model whose type loses a part of what the original is fed."""

    name: str
    dtype: str
    snr_db: float = key(null=-math.inf)
    node: int | None = None
    """The node that brings it into this type; None where the input itself has it."""


@record
class Clipping:
    """A quantized tensor of the changed model whose range excludes a part of the original's values."""

    node: int | None
    """The node of the changed model whose output it is; None for an input."""
    name: str | None = key("input")
    """The input's name; None for a node."""
    share: float
    """Of the original's values, those out of range."""
    original: tuple[float, float]
    """The least and the largest value in the original."""
    held: tuple[float, float]
    """The range of the changed model's tensor."""


@record
class Unread:
    """A node whose output could not be read, and why."""

    node: int
    why: Remark = sentence()


@record
class NumericalErrors:
    """Where the numerical error enters. Nodes are those of the changed model."""

    samples: int
    inputs: Remark = sentence()
    """What the models were run on."""
    is_random: bool = key("random")
    compared: int
    """How many nodes."""
    output_snr_db: float | None
    """Of the worst output; infinite where they are equal."""
    first_drop: int | None
    """Where error enters first: the SNR is at least 6 dB below that of the node's inputs."""
    largest_drop: int | None
    """Where most of the signal is lost."""
    first_below: int | None
    """The first node whose error is above a tenth of its signal (20 dB)."""
    outputs_equal: bool = False
    unread: tuple[Unread, ...] = ()
    disturbance_db: float = key(null=math.inf, default=math.inf)
    """SNR of the models' outputs while inner tensors are read, against the same model left alone: the delegate cannot
    fuse nodes whose outputs are asked for."""
    notes: tuple[Remark, ...] = ()
    """What had to be guessed of the inputs, and what was left out."""
    lossy_inputs: tuple[LossyInput, ...] = ()
    """Where there are some, error enters there first, before any node."""
    clipped: tuple[Clipping, ...] = key("cut_off", default=())
    """Worst first; inputs before nodes."""


@record
class ExplainFound:
    """All that is known of the change from one model to the other."""

    before: Side
    after: Side
    comparison: Comparison
    verdict: Remark = sentence()
    """The whole in a sentence or two, of measured causes only."""
    rows: tuple[NodeRow, ...] = key("nodes")
    causes: tuple[Cause, ...]
    """Most costly first."""
    outside_ms: Change
    """The part of the change that no operator accounts for: hand-over between partitions, the engine itself."""
    instructions: Instructions
    plan: Plan = Plan()
    peaks: Peaks | None = None
    errors: NumericalErrors | None = None
    hints: tuple[Remark, ...] = ()
    """What may help, and has not been measured."""
    why_no_errors: Remark = sentence(default=Remark(""))
    """Why the numbers could not be compared, where they could not."""
    why_no_times: Remark = sentence(default=Remark(""))
    """Why the operators could not be timed, where they could not: there are no causes then."""
    doubts: tuple[Remark, ...] = ()

    @property
    def is_timed(self) -> bool:
        """Whether the operators were timed."""
        return not math.isnan(self.before.invoke_ms)

    def row_of(self, after: int) -> NodeRow:
        """The row of a node of the changed model."""
        return next(row for row in self.rows if row.after == after)

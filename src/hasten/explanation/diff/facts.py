"""What a diff found: for each node how far it is off, what of that it adds itself, and how much of it is to be
expected."""

from __future__ import annotations

import enum
import math

from hasten.core.codec import key, record, sentence
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark
from hasten.explanation.facts import Clipping, LossyInput
from hasten.model.matching import Certainty

CONSTANT = "diff.constant"
INSIDE = "diff.inside"
"""Reasons not to run a node alone that leave nothing unknown: it reads constants only, or another node's section has
it."""
WEIGHTS = "diff.weights"
"""The cause of a fault: constants of reals that differ by more than their types explain."""


class Status(enum.Enum):
    """What a node adds, run alone on the same inputs as its counterpart; the value is its name in JSON."""

    EQUAL = "equal"
    """Nothing: the outputs are the same to the last bit."""
    ROUNDING = "rounding"
    """No more than other kernels of the same precision add."""
    PRECISION = "precision"
    """More than that, and no more than its number format explains: integers, half precision."""
    CLIPPED = "clipped"
    """Its output's type has no room for values of the first model; its number format explains the rest."""
    UNEXPLAINED = "unexplained"
    """More than rounding and number formats explain."""
    NOT_FINITE = "not finite"
    """Infinities, or values that are no numbers."""
    UNKNOWN = "unknown"
    """It could not be run alone."""

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong with the node."""
        return self in (Status.CLIPPED, Status.UNEXPLAINED, Status.NOT_FINITE)


@record
class Side:
    """A model and how it was run."""

    model: Model
    plan: Plan = Plan()


@record
class DiffRow:
    """A node of the second model, and its counterpart in the first. A node that only the first has comes with None."""

    index: int | None
    before: int | None
    op: str
    match: Certainty = Certainty.NONE
    location: str = ""
    shape: str = ""
    snr_db: float | None = None
    """Signal-to-noise ratio of its outputs against the first model's, in the whole model: with what it inherits. None
    where they are equal, where they are integers, where they are not finite, and where they could not be compared."""
    max_error: float | None = None
    """The largest absolute error, likewise."""
    differing: float | None = None
    """The share of its values that are not exactly the first model's; None where they were not compared."""
    not_finite: int = 0
    """How many of its values are no finite numbers, where the first model's are."""
    inherited_db: float | None = None
    """The SNR of the worst of its inputs; None where they have no error."""
    status: Status = Status.UNKNOWN
    added_db: float | None = None
    """The SNR of the node alone, on the first model's inputs: of the error that it adds. None as for `snr_db`."""
    added_max_error: float | None = None
    expected_db: float | None = None
    """The SNR that rounding and number formats let expect of the node alone."""
    rank: int | None = None
    """1 for the node that adds most."""
    only_before: tuple[str, ...] = ()
    """Nodes of the first model that do a part of this one's work and have no counterpart, as `#5 RELU`."""
    only_after: tuple[str, ...] = ()
    """The same of the second model."""
    causes: tuple[Remark, ...] = ()
    """What both files have differently in this node, where it has a fault."""
    why: Remark = sentence(default=Remark(""))
    """Why it could not be run alone."""

    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows what it adds."""
        return self.status is Status.UNKNOWN and self.why.code not in (CONSTANT, INSIDE)

    @property
    def is_equal(self) -> bool:
        """Whether its outputs in the whole model are the same to the last bit."""
        return self.differing == 0


@record
class DiffOutput:
    """An output of the second model as it is, without any inner tensor being read."""

    name: str
    snr_db: float | None = None
    max_error: float | None = None
    differing: float = 0.0
    not_finite: int = 0


@record
class DiffFound:
    """Two models, or two plans of one, on the same inputs."""

    before: Side
    after: Side
    verdict: Remark = sentence()
    first: int | None
    """The node of the second model where the two diverge: the first that adds an error which nothing explains, or with
    which such a range begins; or else the first that adds what its number format explains. None where they are equal up
    to rounding."""
    rows: tuple[DiffRow, ...] = key("nodes")
    samples: int
    inputs: Remark = sentence()
    is_random: bool = key("random")
    outputs: tuple[DiffOutput, ...] = ()
    span: tuple[int, int] | None = key("range", default=None)
    """Nodes between which the two diverge, where no single node could be proven to do it."""
    lossy_inputs: tuple[LossyInput, ...] = ()
    clipped: tuple[Clipping, ...] = ()
    disturbance_db: float = key(null=math.inf, default=math.inf)
    """SNR of the outputs while inner tensors are read, against the same model left alone."""
    notes: tuple[Remark, ...] = ()

    @property
    def has_fault(self) -> bool:
        """Whether they differ by more than rounding and number formats explain."""
        return self.span is not None or any(row.status.is_fault for row in self.rows)

    def row_of(self, index: int) -> DiffRow:
        """The row of a node of the second model."""
        return next(row for row in self.rows if row.index == index)

    @property
    def ranked(self) -> tuple[DiffRow, ...]:
        """The nodes that add an error, the worst first."""
        known = [row for row in self.rows if row.rank is not None]
        return tuple(sorted(known, key=lambda row: row.rank or 0))

"""The records of a summary: figures, trials, verdicts, steps, and the views of what single practices measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hasten.core.codec import to_data

if TYPE_CHECKING:
    from hasten.show.blocks import Section, VerdictRow


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95 % interval, as far as there is one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class DoubtRow:
    """A reason to doubt a number, and the numbers that it touches."""

    reason: str
    evidence: str
    hint: str
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One thing that was tried. None and empty: not known, or not applicable."""

    name: str
    kind: str
    variant: str = ""
    plan: str = ""
    status: str = ""
    stage: str = ""
    latency: Figure | None = None
    """Milliseconds."""
    ratio: Figure | None = None
    """Its time against the original's: below 1 is faster."""
    verdict: str = ""
    accuracy: Figure | None = None
    metric: str = ""
    accuracy_kind: str = ""
    """`agreement` where it was compared with the original's answers, for want of labels."""
    accuracy_on: str = ""
    accuracy_samples: int | None = None
    higher_is_better: bool = True
    lost: float | None = None
    """Against the original on the same samples, of the half of the data that decides where that is known. Accuracies
    themselves are of as many samples as were needed, and only like may be compared with like."""
    size: int | None = None
    zipped_size: int | None = None
    memory_mb: float | None = None
    init_ms: float | None = None
    why: str = ""
    doubts: tuple[DoubtRow, ...] = ()
    elapsed_s: float | None = None
    """When it was first timed, since the start."""
    at: str = ""
    command: str = ""
    on_front: bool = False


@dataclass(frozen=True, slots=True)
class StepRow:
    """What one practice brought, on the way from the original to the result."""

    practice: str
    from_ms: float
    to_ms: float
    ratio: Figure | None = None
    what: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One of the few numbers that tell the story: before, after, and what it means."""

    title: str
    value: str
    before: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PracticeView:
    """What a practice left as rows of plain data, with its own conclusion."""

    model: str
    rows: tuple[dict[str, Any], ...]
    recommended: str = ""
    why: str = ""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the session, for the timeline."""

    seconds: float
    at: str
    kind: str
    label: str
    what: str = ""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A number, and the command that gives it again."""

    what: str
    value: str
    command: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole session in short, without raw samples."""

    title: str
    headline: str
    state: str
    """`complete`, `interrupted`, `unfinished` or `empty`."""
    facts: tuple[Fact, ...] = ()
    verdicts: tuple[VerdictRow, ...] = ()
    trials: tuple[TrialRow, ...] = ()
    steps: tuple[StepRow, ...] = ()
    sections: tuple[Section, ...] = ()
    """What single practices show, in the guide's order."""
    sensitivities: tuple[PracticeView, ...] = ()
    events: tuple[Event, ...] = ()
    doubts: tuple[DoubtRow, ...] = ()
    reproductions: tuple[Reproduction, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    other_kinds: tuple[tuple[str, int], ...] = ()
    """Kinds of lines that this report knows nothing about, and how many of each there are."""
    unreadable: tuple[str, ...] = ()
    """Lines whose data are not as they should be."""
    warnings: tuple[str, ...] = ()
    """What a reader must know beside the headline."""
    notes: tuple[str, ...] = ()
    """What the command itself remarked."""
    lost_lines: int = 0
    source: str = ""

    def as_data(self) -> dict[str, Any]:
        """The summary as JSON can hold it."""
        return to_data(self)

"""What a study of threads found: options (how many, on which cores) measured under conditions, and the choice."""

from __future__ import annotations

import enum

from hasten.core.codec import record, sentence
from hasten.core.cores import cores_text
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark

QUIET, SHARED, BUSY = "quiet", "shared", "busy"
SITUATIONS = (QUIET, SHARED, BUSY)
"""What a user can name as the situation: nothing else runs, half of the cores are busy, all are."""
LOAD_KINDS = ("compute", "memory")


@record
class Option:
    """A number of threads, and the cores that they are kept to (empty: all)."""

    threads: int
    cores: tuple[int, ...] = ()

    def plan_text(self) -> str:
        """The option as plan text takes it."""
        return f"threads={self.threads}" + (f",cores={cores_text(self.cores)}" if self.cores else "")


def option_of(plan: Plan) -> Option:
    """What a plan says of threads."""
    return Option(plan.threads, plan.cores)


@record
class Condition:
    """What runs beside the model: a situation, and in it one kind of work on some cores."""

    situation: str
    kind: str = ""
    workers: int = 0


@record
class Row:
    """An option measured under a condition."""

    threads: int
    load: str
    median_ms: float
    p95_ms: float
    cpu_seconds: float
    """CPU time of one run over all threads: what stands for energy where there is no counter."""
    cores: tuple[int, ...] = ()
    load_kind: str | None = None
    load_workers: int = 0
    ci95_ms: tuple[float, float] = (float("-inf"), float("inf"))
    spread: float = 0.0
    """How far the middle half of the runs is apart, as a share of their median."""
    cores_used: float = 0.0
    """CPU time over wall time."""
    effective_threads: int | None = None
    energy_mj: float | None = None
    """Energy of one run; only alone, as the counter is the whole chip's."""
    other_cores_busy: float | None = None
    usable_cores_busy: float | None = None
    """How many of the cores that the option could use other processes kept busy."""
    rounds: int = 0
    samples: int = 0
    doubts: tuple[Remark, ...] = ()

    @property
    def option(self) -> Option:
        """The threads and cores."""
        return Option(self.threads, self.cores)

    @property
    def condition(self) -> Condition:
        """What ran beside."""
        return Condition(self.load, self.load_kind or "", self.load_workers)


class Effect(enum.Enum):
    """Whether the thread setting did anything; the value is its name in JSON."""

    TAKEN = "taken"
    NONE = "none"
    UNKNOWN = "unknown"


@record
class EffectOfOption:
    """Whether an option's threads did anything, and how that was seen."""

    threads: int
    cores: tuple[int, ...]
    effect: Effect
    evidence: Remark = sentence()

    @property
    def option(self) -> Option:
        """The threads and cores."""
        return Option(self.threads, self.cores)


class Refusal(enum.Enum):
    """Why an option did not take the lead; the value is its name in JSON."""

    NONE = ""
    NEVER_MET = "never-met"
    NO_EFFECT = "no-effect"
    FEW_ROUNDS = "few-rounds"
    SLOWER = "slower"
    NOT_PROVEN = "not-proven"
    SLOWER_BESIDE = "slower-beside"
    UNPROVEN_BESIDE = "unproven-beside"
    """It may be slower beside one kind of work."""
    CONTENDED = "contended"
    """Other programs used cores that it needed."""


@record
class Step:
    """One option against the leader before it: its time over the leader's."""

    threads: int
    cores: tuple[int, ...]
    against_threads: int
    against_cores: tuple[int, ...]
    ratio: float
    ci95: tuple[float, float]
    rounds: int
    needed: float
    """The ratio that it had to come down to."""
    took_the_lead: bool
    refused: Refusal
    sure: bool
    """Whether more rounds would hardly change that."""
    beside: str = ""
    """The kind of work beside which it is slower, or may be, if that is why it was refused."""

    @property
    def option(self) -> Option:
        """What was to take the lead."""
        return Option(self.threads, self.cores)

    @property
    def leader(self) -> Option:
        """What it had to beat."""
        return Option(self.against_threads, self.against_cores)


@record
class Choice:
    """The option for a situation, the reason, and the steps that led to it."""

    threads: int
    cores: tuple[int, ...]
    sure: bool
    """Whether more rounds would hardly change it."""
    steps: tuple[Step, ...] = ()
    why: Remark = sentence(default=Remark(""))

    @property
    def option(self) -> Option:
        """The threads and cores to use."""
        return Option(self.threads, self.cores)


@record
class Trouble:
    """An option or condition that could not be measured."""

    where: str
    message: str


@record
class ThreadsFound:
    """Threads measured, and what to use."""

    model: Model
    plan: Plan
    """The plan in use now; its threads are what the finding judges."""
    load: str
    """The situation that the user named."""
    rows: tuple[Row, ...]
    by_load: dict[str, Choice]
    effect: tuple[EffectOfOption, ...]
    cores: int
    clusters: tuple[tuple[int, ...], ...] = ()
    troubles: tuple[Trouble, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def current(self) -> Option:
        """What the plan says now."""
        return option_of(self.plan)

    @property
    def choice(self) -> Choice | None:
        """The choice for the situation that the user named; None if nothing was measured there."""
        return self.by_load.get(self.load)

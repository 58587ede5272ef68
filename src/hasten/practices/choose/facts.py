"""What was found about models for a task: the accuracy, size and latency of each, and its place on the Pareto front."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from hasten.core.accuracy import Accuracy
from hasten.core.checks import check_kind, text_of
from hasten.core.codec import key, record, sentence
from hasten.core.comparison import Comparison
from hasten.core.errors import UsageError
from hasten.core.failure import Failure
from hasten.core.plan import Plan, Workload
from hasten.core.remark import Remark
from hasten.core.statistics import Interval
from hasten.data.request import Data
from hasten.gate.facts import Limits

FLOAT, INT8 = "float32", "int8"
PRECISIONS = (FLOAT, INT8)
DEFAULT_TASK = "image-classification"


class Source(enum.Enum):
    """Where an accuracy comes from; the value is its name in JSON."""

    MEASURED = "measured"
    """On the user's data, with the weights of this file."""
    PUBLISHED = "published"
    """By somebody else, for the weights that the row names. The file that was timed may have others."""
    UNKNOWN = "unknown"


class Place(enum.Enum):
    """Where a model stands with the Pareto front of accuracy and latency; the value is its name in JSON."""

    ON = "on"
    POSSIBLE = "possible"
    """On it as far as rounds and samples can tell: another may be at least as good in both."""
    OFF = "off"
    """Another is at least as good in both, and better in one."""
    UNKNOWN = "unknown"
    """Its accuracy or its latency is not known."""


class Origin(enum.Enum):
    """Where a model comes from; the value is its name in JSON."""

    CATALOGUE = "catalogue"
    """Built with random weights, which hardly change the latency."""
    FILE = "file"
    MADE = "made"
    """Quantized by hasten from a file of the user's."""


@record
class ModelRow:
    """One model in one precision on one plan. None and empty: not known."""

    name: str
    """What tells it from all other rows: model, precision and, off the CPU, the accelerator."""
    model: str
    """The name in the catalogue, or the file's."""
    precision: str
    size_bytes: int = key("size")
    origin: Origin = Origin.CATALOGUE
    path: str = ""
    """The file, where there is one that stays."""
    plan: Plan = Plan()
    parameters: int | None = None
    macs: int | None = None
    accuracy: Accuracy | None = None
    accuracy_source: Source = Source.UNKNOWN
    counted: bool = False
    """Whether a measured accuracy is the share of samples that are right."""
    weights: str = ""
    """The weights that a published accuracy belongs to."""
    cited: str = ""
    """Who published it."""
    license: str = ""
    locations: tuple[str, ...] = ()
    """Where the catalogue knows files with trained weights in this precision."""
    latency: Interval | None = None
    p95_ms: float | None = None
    rounds: int = 0
    """In how many fresh processes it was timed."""
    init_ms: float | None = None
    peak_memory_mb: float | None = None
    place: Place = Place.UNKNOWN
    rivals: tuple[str, ...] = ()
    """Where its place is not sure: the models that may be at least as good."""
    reference: str = ""
    """The row that it is compared with where its own accuracy is not known: the same model in float on the CPU. Empty
    where that takes no part."""
    against: Comparison | None = None
    """Its latency against the reference's."""
    why_dropped: Remark = sentence(default=Remark(""))
    doubts: tuple[Remark, ...] = ()
    failure: Failure | None = None

    @property
    def on_front(self) -> bool:
        """Whether it is on the front, proven or undecided."""
        return self.place in (Place.ON, Place.POSSIBLE)

    @property
    def median_ms(self) -> float:
        """The latency; infinite where there is none."""
        return self.latency.estimate if self.latency else float("inf")

    @property
    def merit(self) -> float:
        """The accuracy with a sign by which more is better; below everything where it is not known."""
        if self.accuracy is None:
            return float("-inf")
        return self.accuracy.value if self.accuracy.higher_is_better else -self.accuracy.value


@record
class PlanRow:
    """A way to run a model that was tried, next to the simplest one."""

    model: str
    plan: Plan
    latency: Interval | None = None
    against: Comparison | None = None
    """None for the simplest plan itself, and where it did not come to rounds."""
    used: bool = False
    trouble: str = ""
    """What the engine said, where it does not run there."""


@record
class Trouble:
    """A model that could not be built, evaluated or timed."""

    where: str
    message: str


@record
class ChooseFound:
    """Models for a task on this device."""

    task: str
    models: tuple[ModelRow, ...]
    limits: Limits = Limits()
    plan: Plan = Plan()
    """The plan that all were timed on."""
    plans: tuple[PlanRow, ...] = ()
    data: str = ""
    own: str = ""
    """The row of the model in use now, where there is one: the finding judges it."""
    device: str = ""
    troubles: tuple[Trouble, ...] = ()
    notes: tuple[Remark, ...] = ()
    seconds: float = 0.0
    timing_seconds: float = 0.0
    """Of the seconds, those for timing; the others are for building models and for accuracies."""
    interrupted: bool = False
    strict: bool = False
    """Whether only what is proven to keep a limit on accuracy may be chosen."""

    @property
    def basis(self) -> Source:
        """The accuracies to choose by. Figures of different data and weights are never compared with each other."""
        sources = {row.accuracy_source for row in self.models}
        return next((one for one in (Source.MEASURED, Source.PUBLISHED) if one in sources), Source.UNKNOWN)

    def row(self, name: str) -> ModelRow | None:
        """The row of this name."""
        return next((row for row in self.models if row.name == name), None)


@record
class CatalogueRow:
    """A model of the catalogue: its cost, what was published of it, and where trained weights are."""

    name: str
    task: str
    input_size: int
    parameters: int | None = None
    macs: int | None = None
    accuracies: dict[str, Accuracy] = field(default_factory=dict)
    """By precision, the first that was published for this input size."""
    weights: tuple[str, ...] = ()
    common: bool = False


@record
class CatalogueFound:
    """Models of the catalogue."""

    models: tuple[CatalogueRow, ...]


@dataclass(frozen=True, slots=True)
class ChooseRequest:
    """What to choose from, by what data, and within which limits."""

    task: str = ""
    """A task of the catalogue; empty: the usual one, or no catalogue where candidates are given."""
    candidates: tuple[str, ...] = ()
    """Model files, folders of them, bundles, lists in TOML, and names of the catalogue."""
    catalogue: tuple[str, ...] = ()
    """Files with more entries for the catalogue."""
    every: bool = False
    """Whether all models of the task take part, and not only the common ones."""
    data: Data = field(default=Data())
    limits: Limits = field(default=Limits())
    strict: bool = False
    """Whether to choose only what is proven to keep a limit on accuracy, nothing undecided."""
    precisions: tuple[str, ...] = PRECISIONS
    plan: Plan | None = None
    """How to run all of them; None to find threads and accelerators that pay."""
    workload: Workload = field(default=Workload())
    """What to run of the files; models of the catalogue have one signature and closed shapes."""
    trust_bundle: bool = False
    """Whether bundles among the candidates may load delegate libraries and use paths outside of their folder."""
    own: str = ""
    """The model in use now, one of the candidates."""
    command: str = ""
    """The command behind it, for the report."""

    def __post_init__(self) -> None:
        for name in ("task", "own", "command"):
            object.__setattr__(self, name, text_of(name, getattr(self, name)))
        for name in ("candidates", "catalogue", "precisions"):
            value = getattr(self, name)
            check_kind(name, value, (tuple, list), f'names, such as {name}=("…",)')
            object.__setattr__(self, name, tuple(text_of(name, entry) for entry in value))
        check_kind("data", self.data, Data, 'data=hasten.Data("folder")')
        check_kind("limits", self.limits, Limits, "the limits of hasten.api.choose_limits")
        check_kind("workload", self.workload, Workload, 'workload=hasten.Workload(signature="…")')
        if self.plan is not None:
            check_kind("plan", self.plan, Plan, "plan=hasten.Plan(threads=2)")
        for precision in self.precisions:
            if precision not in PRECISIONS:
                raise UsageError(f"There is no precision {precision!r}.", f"Use one of: {', '.join(PRECISIONS)}.")
        if not self.precisions:
            raise UsageError("No precision was given.", f"Use one of: {', '.join(PRECISIONS)}.")

    @property
    def with_catalogue(self) -> bool:
        """Whether models of the catalogue take part."""
        return bool(self.task or self.catalogue) or not self.candidates

"""The records of a search for variants: what is asked for, what to judge by, and what came out."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.comparison import Verdict
from hasten.core.errors import UsageError
from hasten.core.plan import Plan, Workload
from hasten.core.quantization import BROKEN, GOALS, SPEED, VariantRow
from hasten.data.preprocess import Preprocess
from hasten.evaluate.fingerprint import data_fingerprint, metric_fingerprint
from hasten.practices.quantize_folder import AS_IN_THE_FILE, CALIBRATION_CONTENT, DATA_CONTENT, METRIC_CONTENT, SHAPE
from hasten.variants.io_types import FLOAT, FLOAT_IO, IoTypes, fits
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name

if TYPE_CHECKING:
    from hasten.core.finding import Finding
    from hasten.core.mixing import Sensitivity
    from hasten.data.dataset import Dataset
    from hasten.data.metrics import Metric
    from hasten.measure.rounds import Candidate

DEFAULT_SECONDS: Final = 60.0
DEFAULT_MAX_DROP: Final = 0.01


@dataclass(frozen=True, slots=True)
class QuantizeSettings:
    """What is asked for."""

    recipes: tuple[str, ...] = RECIPE_NAMES
    max_drop: float = DEFAULT_MAX_DROP
    goal: str = SPEED
    mix: bool = True
    """Whether to look for a mix of float and integers where a promising recipe breaks the floor."""
    seconds: float = DEFAULT_SECONDS
    """For the timing of all variants together."""
    samples: int | None = None
    skip_bad: bool = False
    label_offset: int = 0
    prune: tuple[float, ...] = ()
    """Shares of weights to set to zero, each a pair of variants."""
    io_types: IoTypes = FLOAT_IO
    """The types of the variants' inputs and outputs. Of all recipes, those that cannot have them are left out."""

    def __post_init__(self) -> None:
        for name in self.recipes:
            recipe_from_name(name)
        if not 0 <= self.max_drop < math.inf:
            raise UsageError(f"a largest drop of {self.max_drop} is none", "Give a share, as 0.01 for 1 %.")
        if not 0 < self.seconds < math.inf:
            raise UsageError(f"variants cannot be timed in {self.seconds} seconds", "Give more than 0.")
        if self.goal not in GOALS:
            raise UsageError(f"there is no goal {self.goal!r}", f"Choose among {', '.join(GOALS)}.")
        if not self.recipes and not self.prune:
            raise UsageError("no recipe is asked for", f"Choose among {', '.join(RECIPE_NAMES)}.")
        for share in self.prune:
            if not 0 < share < 1:
                raise UsageError(f"a share of {share} cannot be pruned", "Give one between 0 and 1, as 0.5.")
        self._check_border()

    @property
    def fitting(self) -> tuple[str, ...]:
        """The recipes to try: those that can have the types asked for."""
        return tuple(name for name in self.recipes if fits(recipe_from_name(name), self.io_types))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The recipes that cannot have them."""
        return tuple(name for name in self.recipes if name not in self.fitting)

    def _check_border(self) -> None:
        """What was chosen by name is not left out behind the user's back."""
        able = [name for name in RECIPE_NAMES if fits(recipe_from_name(name), self.io_types)]
        if not able:
            raise UsageError(
                f"no recipe can have {self.io_types.describe()}",
                "Choose int8 or uint8 with float32, or int16 with float32, or one of them for both.",
            )
        if self.left_out and self.recipes != RECIPE_NAMES:
            raise UsageError(
                f"{', '.join(self.left_out)} cannot have {self.io_types.describe()}", f"These can: {', '.join(able)}."
            )
        if self.prune and not self.io_types.is_float:
            raise UsageError(
                f"pruned variants cannot have {self.io_types.describe()}", "Prune in a search of its own, with float32."
            )


@dataclass(frozen=True, slots=True)
class QuantizeData:
    """What to judge by. Without data of its own, calibration takes samples of the choosing half."""

    dataset: Dataset
    calibration: Dataset | None = None
    preprocess: Preprocess = Preprocess()
    metric: Metric | None = None


@dataclass(frozen=True, slots=True)
class QuantizeResult:
    """The rows, the original first; which one to use, and why."""

    rows: tuple[VariantRow, ...]
    chosen: str
    path: str
    why: str
    finding: Finding
    max_drop: float
    goal: str
    data: str
    sensitivity: tuple[Sensitivity, ...] = ()
    notes: tuple[str, ...] = ()
    already: str = ""
    resumed: bool = False
    skipped: tuple[tuple[str, str], ...] = ()
    """Samples that were left out, and why."""
    plan: Plan = Plan()
    workload: Workload = Workload()
    feeding: tuple[str, ...] = ()
    """The options by which another command is fed the same; none where the inputs were made up."""
    io_types: IoTypes = FLOAT_IO
    """The types that were asked for; the original keeps its own."""
    floor: dict[str, Any] = field(default_factory=dict)
    """What the largest drop means for this metric, as `floor_data` tells; empty before the original was judged."""

    @property
    def hints(self) -> tuple[str, ...]:
        """Commands that show why a variant is slower than the original, or wrong; one of each kind at most."""
        rows = [row for row in self.rows[1:] if row.path and row.against is not None]
        slower = next((row for row in rows if row.against and row.against.verdict is Verdict.SLOWER), None)
        wrong = next((row for row in rows if row.floor == BROKEN), None)
        if slower is not None and slower is wrong:
            return (self._explaining(slower, "slower, and wrong"),)
        asked = ((slower, "slower"), (wrong, "wrong"))
        return tuple(self._explaining(row, what) for row, what in asked if row is not None)

    def _explaining(self, row: VariantRow, what: str) -> str:
        words = ["hasten", "compare", self.rows[0].path, row.path, "--explain", *_plan_options(self.plan)]
        words += _workload_options(self.workload)
        if "wrong" in what:
            words += self.feeding
        return f"why is {row.recipe} {what}? {shlex.join(words)}"

    def as_data(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return {
            "variants": [row.as_data() for row in self.rows],
            "chosen": self.chosen,
            "path": self.path,
            "why": self.why,
            "sensitivity": [entry.as_data() for entry in self.sensitivity],
            "max_drop": self.max_drop,
            "floor": self.floor,
            "goal": self.goal,
            "data": self.data,
            "already_quantized": self.already,
            "input_type": self.io_types.input_type,
            "output_type": self.io_types.output_type,
            "notes": list(self.notes),
            "resumed": self.resumed,
            "finding": self.finding.as_data(),
            "hints": list(self.hints),
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped],
        }


def _plan_options(plan: Plan) -> list[str]:
    """The options that differ from their defaults, as the command line takes them."""
    default = Plan()
    plain = [
        word
        for name in ("accelerator", "threads", "kernel", "precision", "delegate")
        if getattr(plan, name) != getattr(default, name)
        for word in (f"--{name}", str(getattr(plan, name)))
    ]
    return [*plain, *(word for key, value in plan.options for word in ("--option", f"{key}={value}"))]


def _workload_options(workload: Workload) -> list[str]:
    """What to run of the model, as the command line takes it."""
    signature = ["--signature", workload.signature] if workload.signature else []
    return [*signature, *(word for shape in _shapes(workload) for word in ("--shape", shape))]


def _shapes(workload: Workload) -> list[str]:
    return [f"{name}={'x'.join(map(str, shape))}" for name, shape in workload.shapes]


def feeding_options(data: QuantizeData, *, skip_bad: bool) -> tuple[str, ...]:
    """The options by which another command is fed the same data; none where it was made up."""
    if data.dataset.is_random:
        return ()
    prepared = () if data.preprocess == Preprocess() else ("--preprocess", data.preprocess.describe())
    return ("--data", data.dataset.source, *prepared, *(("--skip-bad",) if skip_bad else ()))


def settings_to_compare(candidate: Candidate, data: QuantizeData, settings: QuantizeSettings) -> dict[str, Any]:
    """What must be the same for a search to go on: figures of different settings do not belong in one table.

    Types are named only where they are not float32: sessions from before they could be chosen name none. The same name
    may stand for other content later, so that this is told apart as well where it can be.
    """
    types = {"input type": settings.io_types.input_type, "output type": settings.io_types.output_type}
    contents = {
        DATA_CONTENT: data_fingerprint(data.dataset),
        CALIBRATION_CONTENT: data_fingerprint(data.calibration),
        METRIC_CONTENT: metric_fingerprint(data.metric),
    }
    return {
        "model": candidate.model.sha256,
        "data": data.dataset.source,
        "calibration": data.calibration.source if data.calibration is not None else "",
        "preprocess": data.preprocess.describe(),
        "metric": data.metric.name if data.metric is not None else "",
        "label offset": settings.label_offset,
        "number of samples": settings.samples,
        "largest drop": settings.max_drop,
        "plan": candidate.plan.describe(),
        "signature": candidate.workload.signature,
        SHAPE: ", ".join(sorted(_shapes(candidate.workload))) or AS_IN_THE_FILE,
        **{end: dtype for end, dtype in types.items() if dtype != FLOAT},
        **{what: content for what, content in contents.items() if content},
    }

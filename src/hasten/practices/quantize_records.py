"""The records of a search for variants: what is asked for, what to judge by, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError
from hasten.core.quantization import SPEED, VariantRow
from hasten.data.preprocess import Preprocess
from hasten.model.variants.recipes import RECIPE_NAMES, recipe_from_name

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

    def __post_init__(self) -> None:
        for name in self.recipes:
            recipe_from_name(name)
        for share in self.prune:
            if not 0 < share < 1:
                raise UsageError(f"a share of {share} cannot be pruned", "Give one between 0 and 1, as 0.5.")


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

    def as_data(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return {
            "variants": [row.as_data() for row in self.rows], "chosen": self.chosen, "path": self.path,
            "why": self.why, "sensitivity": [entry.as_data() for entry in self.sensitivity],
            "max_drop": self.max_drop, "goal": self.goal, "data": self.data, "already_quantized": self.already,
            "notes": list(self.notes), "resumed": self.resumed, "finding": self.finding.as_data(),
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped],
        }  # fmt: skip


def settings_to_compare(candidate: Candidate, data: QuantizeData, settings: QuantizeSettings) -> dict[str, Any]:
    """What must be the same for a search to go on: figures of different settings do not belong in one table."""
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
    }

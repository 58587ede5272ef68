"""What a tuning is asked for, and what must be the same for one to go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.limits import Limit
from hasten.practices.quantize_records import QuantizeSettings, settings_to_compare
from hasten.variants.recipes import RECIPE_NAMES

if TYPE_CHECKING:
    from hasten.measure.rounds import Candidate
    from hasten.practices.quantize_records import QuantizeData

DEFAULT_BUDGET_S: Final = 300.0
DEFAULT_MAX_DROP: Final = 0.01


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """What is asked for."""

    max_drop: float = DEFAULT_MAX_DROP
    limit: Limit = field(default=Limit())
    budget_s: float = DEFAULT_BUDGET_S
    seed: int = 0
    recipes: tuple[str, ...] = RECIPE_NAMES
    mix: bool = True
    extras: bool = True
    """Whether time that is left goes into what the report shows besides: profiles, copies, accelerators, threads."""
    samples: int | None = None
    skip_bad: bool = False
    label_offset: int = 0
    has_data: bool = True
    command: str = ""

    def for_variants(self) -> QuantizeSettings:
        """The same for the workshop that makes variants."""
        return QuantizeSettings(
            recipes=self.recipes,
            max_drop=self.max_drop,
            mix=self.mix,
            samples=self.samples,
            skip_bad=self.skip_bad,
            label_offset=self.label_offset,
        )


def settings_data(candidate: Candidate, data: QuantizeData, settings: TuneSettings, target: str) -> dict[str, Any]:
    """The line of the session that says what was asked for."""
    return {
        "model": candidate.model.path,
        "sha256": candidate.model.sha256,
        "size": candidate.model.size_bytes,
        "data": data.dataset.source if settings.has_data else "",
        "max_drop": settings.max_drop,
        "limit": settings.limit.as_data(),
        "budget_s": settings.budget_s,
        "target": target,
        "seed": settings.seed,
        "command": settings.command,
        "compared": to_compare(candidate, data, settings, target),
    }


def to_compare(candidate: Candidate, data: QuantizeData, settings: TuneSettings, target: str) -> dict[str, Any]:
    """What must be the same when a tuning goes on; a longer budget is what one goes on for."""
    known = settings_to_compare(candidate, data, settings.for_variants())
    return {**known, "limit": settings.limit.describe(), "target": target, "seed": settings.seed}

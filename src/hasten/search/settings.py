"""What a search is asked for, and what must be the same for one to go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.checks import SEED, SHARE, SHARE_TO_LOSE, check_kind, check_number, text_of
from hasten.core.codec import to_data
from hasten.core.errors import TargetError, UsageError
from hasten.core.goal import Goal, goal_named
from hasten.core.limits import Limit
from hasten.data.preprocess import Preprocess
from hasten.evaluate.fingerprint import data_fingerprint, metric_fingerprint
from hasten.practices.quantize.facts import shape_texts
from hasten.variants.io_types import FLOAT, FLOAT_IO, IoTypes, fits
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name

if TYPE_CHECKING:
    from hasten.core.machine import Machine
    from hasten.data.request import OpenData
    from hasten.measure.rounds import Candidate

QUANTIZE_SECONDS: Final = 60.0
"""For the timing of all variants together."""
TUNE_SECONDS: Final = 300.0
DEFAULT_MAX_DROP: Final = 0.01
ALSO: Final = ("choose",)
# Settings that are about the content behind a name; where a session has none, an earlier hasten has begun it.
DATA_CONTENT: Final = "content of the data"
CALIBRATION_CONTENT: Final = "content of the calibration data"
METRIC_CONTENT: Final = "code of the metric"
NAMED_BY: Final = {DATA_CONTENT: "data", CALIBRATION_CONTENT: "calibration", METRIC_CONTENT: "metric"}
_SHAPE: Final = "shape"
_SPLIT: Final = "split of the data"
_STRICT: Final = "strictness"
_GOAL: Final = "goal"
# Earlier releases chose by one half of the data.
_BY_HALVES, _BY_THIRDS = "1 to 1", "1 to 2"
_AS_IN_THE_FILE: Final = "as in the file"
_TYPES: Final = ("input type", "output type")
_IF_MISSING: Final = {
    **dict.fromkeys(_TYPES, FLOAT),
    _SHAPE: _AS_IN_THE_FILE,
    _SPLIT: _BY_HALVES,
    _STRICT: False,
    _GOAL: Goal.LATENCY.value,
}


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What is asked for. `quantize` takes shares to prune and types; `tune` limits, a seed and extras."""

    recipes: tuple[str, ...] = RECIPE_NAMES
    max_drop: float = DEFAULT_MAX_DROP
    strict: bool = False
    """Whether only what is proven to keep the floor may be chosen (`core.floor` has the rule)."""
    mix: bool = True
    """Whether to look for a mix of float and integers where a promising recipe breaks the floor."""
    goal: Goal = Goal.LATENCY
    """What to gain; `quantize` knows latency and size."""
    prune: tuple[float, ...] = ()
    """Shares of weights to set to zero, each a pair of variants."""
    io_types: IoTypes = FLOAT_IO
    """The types of the variants' inputs and outputs. Of all recipes, those that cannot have them are left out."""
    limit: Limit = field(default=Limit())
    seed: int = 0
    rewrites: bool = True
    """Whether to try models with a rewritten graph (`tune` only)."""
    kernels: bool = False
    """Whether to try hasten's own kernels, built by this machine's compiler (`tune` only)."""
    extras: bool = True
    """Whether time that is left goes into what the report shows besides: profiles, copies, accelerators, threads."""
    resume: bool = False
    """Whether a tuning goes on with what its folder holds."""
    also: tuple[str, ...] = ()
    """Practices that `tune` runs only if it is asked to: choose."""
    candidates: tuple[str, ...] = ()
    """Other models for the task, for `choose`: files, folders, bundles, names of the catalogue."""
    refit_head: bool = False
    """Whether the last layer of the most promising variant may be fitted again, to the labels of the choosing part."""
    command: str = ""

    def __post_init__(self) -> None:
        for name in ("also", "candidates"):
            check_kind(name, getattr(self, name), (tuple, list), f'names, such as {name}=("…",)')
            for entry in getattr(self, name):
                text_of(name, entry)
        if unknown := [name for name in self.also if name not in ALSO]:
            raise UsageError(f"A tuning cannot also run {unknown[0]!r}.", f"Use one of: {', '.join(ALSO)}.")
        check_kind("recipes", self.recipes, (tuple, list), f"names of recipes, such as {RECIPE_NAMES[:1]}")
        check_kind("prune", self.prune, (tuple, list), "shares, such as (0.5,)")
        check_kind("io_types", self.io_types, IoTypes, 'hasten.api.IoTypes("int8", "int8")')
        check_kind("limit", self.limit, Limit, "a hasten.core.limits.Limit")
        for name in self.recipes:
            recipe_from_name(text_of("recipes", name))
        check_number("max_drop", self.max_drop, SHARE_TO_LOSE)
        check_number("seed", self.seed, SEED)
        object.__setattr__(self, "goal", goal_named(self.goal))
        if not self.recipes and not self.prune:
            raise UsageError("No recipe was given.", f"Choose one of {', '.join(RECIPE_NAMES)}.")
        for share in self.prune:
            check_number("prune", share, SHARE)
        self._check_io_types()

    @property
    def measures_throughput(self) -> bool:
        """Whether runners side by side are to be measured, which takes longer than one alone."""
        return self.goal is Goal.THROUGHPUT or Goal.THROUGHPUT in self.limit.asked

    @property
    def measures_start(self) -> bool:
        """Whether start-up is a goal or has a limit, so that a cache is worth trying."""
        return self.goal is Goal.START or Goal.START in self.limit.asked

    @property
    def measures_energy(self) -> bool:
        """Whether energy is a goal or has a limit."""
        return self.goal is Goal.ENERGY or Goal.ENERGY in self.limit.asked

    @property
    def fitting(self) -> tuple[str, ...]:
        """The recipes to try: those that can have the types asked for."""
        return tuple(name for name in self.recipes if fits(recipe_from_name(name), self.io_types))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The recipes that cannot have them."""
        return tuple(name for name in self.recipes if name not in self.fitting)

    def _check_io_types(self) -> None:
        """What was chosen by name is not left out behind the user's back."""
        able = [name for name in RECIPE_NAMES if fits(recipe_from_name(name), self.io_types)]
        if not able:
            raise UsageError(
                f"No recipe can have {self.io_types.describe()}.",
                "Choose int8 or uint8 with float32, or int16 with float32, or one of them for both.",
            )
        if self.left_out and self.recipes != RECIPE_NAMES:
            raise UsageError(
                f"{', '.join(self.left_out)} cannot have {self.io_types.describe()}.", f"These can: {', '.join(able)}."
            )
        if self.prune and not self.io_types.is_float:
            raise UsageError(
                f"Pruned variants cannot have {self.io_types.describe()}.",
                "Prune in a search of its own, with float32.",
            )


def refuse_unmeasurable(settings: SearchSettings, machine: Machine) -> None:
    """Raise where the device cannot measure what is asked for."""
    if settings.measures_energy and not machine.energy_counter:
        raise TargetError(
            "hasten finds no energy counter on this device that it may read.",
            "On Linux, run as root, which lets it read /sys/class/powercap. Or use another goal than energy, and no"
            " limit on it.",
        )


def compared_settings(candidate: Candidate, data: OpenData, settings: SearchSettings) -> dict[str, Any]:
    """What must be the same for a search to go on: figures of different settings do not belong in one table.

    Types are named only where they are not float32: sessions from before they could be chosen name none. The same name
    may stand for other content later, so that this is told apart as well where it can be.
    """
    types = dict(zip(_TYPES, (settings.io_types.input_type, settings.io_types.output_type), strict=True))
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
        "label offset": data.given.label_offset,
        "number of samples": data.given.samples,
        "largest drop": settings.max_drop,
        **({} if data.dataset.is_random else {_SPLIT: _BY_THIRDS}),
        **({_STRICT: True} if settings.strict else {}),
        "plan": candidate.plan.describe(),
        "signature": candidate.workload.signature,
        _SHAPE: ", ".join(sorted(shape_texts(candidate.workload))) or _AS_IN_THE_FILE,
        **{end: dtype for end, dtype in types.items() if dtype != FLOAT},
        **{what: content for what, content in contents.items() if content},
    }


def value_if_missing(name: str, value: object) -> object:
    """What a setting means that one of two sessions does not name; what an earlier release did not compare is not held
    against its folder."""
    return _IF_MISSING.get(name, value)


def tune_settings_data(
    candidate: Candidate, data: OpenData, settings: SearchSettings, target: str, budget_s: float
) -> dict[str, Any]:
    """The line of a tuning's session that says what was asked for."""
    compared = compared_settings(candidate, data, settings)
    limit = settings.limit
    return {
        "model": candidate.model.path,
        "sha256": candidate.model.sha256,
        "size": candidate.model.size_bytes,
        "data": data.dataset.source if data.given.source else "",
        "max_drop": settings.max_drop,
        "limit": to_data(limit),
        "budget_s": budget_s,
        "target": target,
        "seed": settings.seed,
        "command": settings.command,
        **({"also": list(settings.also)} if settings.also else {}),
        _GOAL: settings.goal.value,
        "compared": {
            **compared,
            _GOAL: settings.goal.value,
            "limit": limit.describe(),
            "target": target,
            "seed": settings.seed,
        },
    }


def feeding_options(data: OpenData) -> tuple[str, ...]:
    """The options by which another command is fed the same data; none where it was made up."""
    if data.dataset.is_random:
        return ()
    given = data.given
    prepared = () if data.preprocess == Preprocess() else ("--preprocess", data.preprocess.describe())
    return ("--data", data.dataset.source, *prepared, *(("--skip-bad",) if given.skip_bad else ()))

"""What a search for variants found: a trial for each, which of them to use, and what single nodes cost."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from hasten.core.codec import key, record
from hasten.core.comparison import Verdict
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.plan import Plan, Workload
from hasten.core.remark import Remark
from hasten.core.trial import NOTHING, Trial
from hasten.variants.io_types import FLOAT_IO, IoTypes

# What all weights in integers are worth, as a part of a run's time.
_WORTH_OF_WEIGHTS: Final = 0.1
_SMALLEST_SHARE: Final = 1e-4


@record
class Sensitivity:
    """What quantizing only these nodes does to the output, and what they have to give."""

    recipe: str
    nodes: tuple[int, ...]
    op: str
    location: str
    error: float = key(null=math.inf)
    """Root of the mean square of the difference at the output, relative to the output's own."""
    share: float = 0.0
    """Their part of the weights, or of the time that integers save, as `share_of` says."""
    share_of: str = ""
    weights: float = 0.0
    """Their part of the weights, whatever the share is of."""

    @property
    def cost(self) -> float:
        """Error for each part of the gain: what has most of it goes back to float first. Errors of nodes that know
        nothing of each other add up by their squares. Who asks for speed has some use for a smaller file, too."""
        return self.error * self.error / max(self.share + _WORTH_OF_WEIGHTS * self.weights, _SMALLEST_SHARE)


@record
class QuantizeFound:
    """The trials, the original first; which one to use, and what to know about them."""

    model: str
    trials: tuple[Trial, ...] = key("variants")
    chosen: str
    path: str
    """The file of the chosen one."""
    goal: Goal = Goal.LATENCY
    max_drop: float = 0.0
    data: str = ""
    sensitivity: tuple[Sensitivity, ...] = ()
    notes: tuple[Remark, ...] = ()
    already: Remark = NOTHING
    """Why there is nothing to quantize, where the model is quantized already."""
    resumed: bool = False
    interrupted: bool = False
    skipped: tuple[tuple[str, str], ...] = ()
    """Samples that were left out, and why."""
    plan: Plan = Plan()
    workload: Workload = Workload()
    feeding: tuple[str, ...] = ()
    """The options by which another command is fed the same; none where the inputs were made up."""
    io_types: IoTypes = FLOAT_IO
    """The types that were asked for; the original keeps its own."""
    types_still: tuple[Remark, ...] = ()
    """Which ends of the original have other types than those asked for, where the original is the choice."""
    floor: Mapping[str, Any] = field(default_factory=dict)
    """What the largest drop means for this metric, as `Floor.as_data` tells; empty before the original was judged."""

    @property
    def original(self) -> Trial:
        """The model as it is."""
        return self.trials[0]

    @property
    def best(self) -> Trial:
        """The chosen one."""
        return next(trial for trial in self.trials if trial.variant == self.chosen)

    @property
    def unexplained(self) -> list[tuple[Trial, bool, bool]]:
        """The first variant that is slower than the original and the first that is wrong (which may be the same):
        `compare --explain` shows why."""
        known = [trial for trial in self.trials[1:] if trial.path and trial.against is not None]
        slower = next((one for one in known if one.against and one.against.verdict is Verdict.SLOWER), None)
        wrong = next((one for one in known if one.floor is FloorState.BROKEN), None)
        if slower is not None and slower is wrong:
            return [(slower, True, True)]
        asked = ((slower, True, False), (wrong, False, True))
        return [(one, is_slower, is_wrong) for one, is_slower, is_wrong in asked if one is not None]

    def explaining(self, trial: Trial, *, wrong: bool) -> str:
        """The command that explains what became of a variant."""
        words = ["hasten", "compare", self.original.path, trial.path, "--explain", *_plan_options(self.plan)]
        return shlex.join([*words, *_workload_options(self.workload), *(self.feeding if wrong else ())])


def _plan_options(plan: Plan) -> list[str]:
    """The options that differ from their defaults, as the command line takes them."""
    default = Plan()
    plain = [
        word
        for name in ("accelerator", "threads", "kernel", "precision", "delegate")
        if getattr(plan, name) != getattr(default, name)
        for word in (f"--{name}", str(getattr(plan, name)))
    ]
    plain += [word for library in plan.kernels for word in ("--kernel-library", library)]
    return [*plain, *(word for name, value in plan.options for word in ("--option", f"{name}={value}"))]


def _workload_options(workload: Workload) -> list[str]:
    """What to run of the model, as the command line takes it."""
    signature = ["--signature", workload.signature] if workload.signature else []
    return [*signature, *(word for shape in shape_texts(workload) for word in ("--shape", shape))]


def shape_texts(workload: Workload) -> list[str]:
    """The shapes of a workload, as the command line takes them."""
    return [f"{name}={'x'.join(map(str, shape))}" for name, shape in workload.shapes]

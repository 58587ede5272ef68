"""The phrases of what a tuning changed on the way from the original to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.goal import goal_in
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import remark_from_data
from hasten.core.units import several
from hasten.practices.quantize.words import made_words

if TYPE_CHECKING:
    from collections.abc import Mapping

_KERNELS: Final = {"delegate": "XNNPACK", "builtin": "the engine's own kernels", "reference": "the reference kernels"}


def _where(facts: Mapping[str, Any]) -> str:
    if facts["delegate"]:
        return f"Run on the delegate {facts['delegate']}"
    if facts["accelerator"] != "cpu":
        return f"Run on the {facts['accelerator'].upper()}"
    return f"Run on {_KERNELS[facts['kernel']]}"


STEPS: Final = Phrasebook(
    {
        "step.threads": Phrase(lambda facts: f"{several(facts['threads'], 'thread')} instead of {facts['before']}"),
        "step.where": Phrase(_where),
        "step.cache": Phrase("Start from a cache"),
        "step.rewritten": Phrase("Graph rewritten ({rewrites:list})"),
        "step.variant": Phrase(made_words),
        "step.all": Phrase("{trial}"),
    }
)


def _improved(facts: Mapping[str, Any]) -> str:
    ratio = facts["ratio"]
    return f"{STEPS.text(remark_from_data(facts['what']))}: {goal_in(facts).gain(ratio['ratio'], ratio['ci95'])}."


PHRASES: Final[dict[str, Phrase]] = {"tune.improved": Phrase(_improved)}

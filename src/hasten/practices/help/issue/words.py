"""The words of an issue bundle: what each file holds, and the text for the maintainers of LiteRT."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase
from hasten.core.units import interval_ms, milliseconds, several

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.practices.help.facts import ModelFound

TITLES: Final = {
    "what": "What happens",
    "expected": "What should happen",
    "reproduce": "How to reproduce it",
    "smallest": "Smallest model",
    "environment": "Environment",
    "latency": "Latency",
    "operators": "Operators",
    "delegates": "Delegates",
    "releases": "Other releases",
    "checks": "Checks of the model",
    "log": "Log",
    "private": "About the model",
}
PRIVATE: Final = (
    "The model is private. Its weights are random numbers with the mean, spread and range of the original's;"
    " quantization, shapes, operators and single numbers are the original's. All names are replaced."
)
_HEADLINES: Final = {
    "slow": "{what}: slow with {plan}",
    "wrong": "{what}: wrong outputs with {plan}",
    "crash": "{what}: failure with {plan}",
    "": "{what} with {plan}",
}
_EXPECTED: Final = {
    "slow": "About the time that {against} takes.",
    "wrong": "The outputs of {against}, up to rounding.",
    "crash": "The model loads and runs, or LiteRT returns an error that names the operator.",
    "": "See the checks below.",
}


def headline(found: ModelFound) -> str:
    """The title of the issue."""
    small = found.minimized if found.minimized is not None and found.minimized.shown else None
    kinds = list(dict.fromkeys(small.operators)) if small is not None else []
    what = ", ".join(kinds[:3]) if kinds else "A model"
    problem = small.problem if small is not None else "crash" if found.failure is not None else ""
    return _HEADLINES[problem].format(what=what, plan=found.plan.describe())


def expected(found: ModelFound) -> str:
    """What the reporter expects."""
    small = found.minimized
    problem = small.problem if small is not None else "crash" if found.failure is not None else ""
    if problem == "slow" and small is not None and not small.against:
        return f"{several(len(small.nodes), 'node')} of {small.total} do not take most of the run."
    against = small.against if small is not None and small.against else "the reference kernels"
    return _EXPECTED[problem].format(against=against)


def latency(found: ModelFound) -> str:
    """The latency with its interval and how it was measured."""
    if found.latency is None:
        return ""
    samples = found.latency.samples
    level = samples.latency
    interval = f" (95 % CI {interval_ms(level.low, level.high)})" if math.isfinite(level.high) else ""
    count = f"{several(samples.count, 'run')} in {several(samples.processes, 'fresh process')}"
    return (
        f"{milliseconds(level.estimate)}{interval}, p95 {milliseconds(samples.p95_ms)}, {count} after a warm-up."
        f" Start-up {milliseconds(found.latency.init_ms)}."
    )


def _whole(facts: Mapping[str, Any]) -> str:
    return "the model with random weights and without names" if facts["private"] else "the model"


def _part(facts: Mapping[str, Any]) -> str:
    return f"the smallest part that shows the problem{', with random weights' if facts['private'] else ''}"


PHRASES: Final[dict[str, Phrase]] = {
    "bundle.issue": Phrase("the text of the issue, ready to paste"),
    "bundle.model": Phrase(_whole),
    "bundle.smallest": Phrase(_part),
    "bundle.document": Phrase("all checks and figures as JSON"),
    "bundle.environment": Phrase("versions and the machine, without names"),
    "bundle.commands": Phrase("the commands that reproduce it"),
    "bundle.operators": Phrase("each operator with its time and placement"),
    "bundle.script": Phrase("a script that reproduces it without hasten"),
    "bundle.log": Phrase("the last lines of the log"),
}

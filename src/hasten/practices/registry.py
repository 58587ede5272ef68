"""The practices of the guide, in its order. A line here puts a practice into help, verdicts, report and JSON."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from hasten.core.phrases import Phrasebook
    from hasten.practices.practice import Practice


class Entry(NamedTuple):
    """A practice by name: what its page is called, and what `hasten --help` says of its command."""

    name: str
    title: str
    help: str = ""
    """Empty where there is no command of that name."""


GUIDE: Final = (
    Entry("choose", "Model choice", "find the best model for a task on this device"),
    Entry("profile", "Profile", "show the time, cost and headroom of each operator"),
    Entry("operators", "Operators", "rewrite the graph where that is equal and faster"),
    Entry("quantize", "Quantization", "make variants with measured accuracy, size and speed"),
    Entry("threads", "Threads", "find the number of threads, alone and under load"),
    Entry("copies", "Copies", "measure the cost of feeding and reading the model"),
    Entry("app", "Application", "show where an application's time goes"),
    Entry("accelerators", "Accelerators", "test what each accelerator does with the model"),
    Entry("help", "Help"),
)
NAMES: Final = tuple(entry.name for entry in GUIDE)
TITLES: Final = {entry.name: entry.title for entry in GUIDE}


def practice_named(name: str) -> Practice:
    """A practice, imported when it is asked for: `--help` needs none of them."""
    return cast("Practice", importlib.import_module(f"hasten.practices.{name}"))


@functools.cache
def phrasebook() -> Phrasebook:
    """The phrases of all practices, for whoever shows what several of them said."""
    # `--help` reads this module, and needs no phrases.
    from hasten.core import accuracy_notes, doubts
    from hasten.core.phrases import Phrasebook
    from hasten.custom_kernels import words as kernels
    from hasten.evaluate import trial_words
    from hasten.evaluate import words as evaluation
    from hasten.practices import step_words
    from hasten.retraining import words as retraining
    from hasten.variants import words as variants

    others = (step_words, trial_words, variants, kernels, evaluation, retraining, accuracy_notes)
    tables = [*(practice_named(name).PHRASES for name in NAMES), *(room.PHRASES for room in others)]
    # A page holds results of several commands, each with an option of its own for the time.
    return Phrasebook(*tables, doubts.phrases_with(""))

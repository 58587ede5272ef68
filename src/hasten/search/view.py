"""A tuning as blocks and as the document that `--json` prints."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import finite, to_data
from hasten.core.comparison import outcome_words
from hasten.core.goal import MEASURED, Goal
from hasten.core.units import duration, several, size
from hasten.practices.registry import TITLES, phrasebook
from hasten.practices.step_words import STEPS
from hasten.search.words import BOOK, run_words, verdict_words
from hasten.show.blocks import Cell, Facts, Headline, Note, Notes, Table, Verdicts, columns, notes, verdict_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.accuracy import Accuracy
    from hasten.core.remark import Remark
    from hasten.core.trial import Step, Trial
    from hasten.search.facts import TuneFound
    from hasten.show.blocks import Block


_KEYS: Final = {Goal.ENERGY: "energy_mj", Goal.THROUGHPUT: "throughput", Goal.START: "start_ms"}


def view(found: TuneFound) -> list[Block]:
    """The verdict, the steps to it, how the model stands with each practice, and where everything lies."""
    book = phrasebook()
    return [
        Headline(verdict_words(found)),
        Facts((("model", f"{Path(found.model).name} ({size(found.original.size_bytes)})"), ("run", run_words(found)))),
        *([_steps(found.steps)] if found.steps else []),
        Verdicts(tuple(verdict_row(finding, TITLES[finding.practice], book) for finding in found.findings)),
        Facts(tuple(_places(found))),
        *notes((*found.doubts, *found.notes), BOOK),
        *_untried(found.untried),
    ]


def document(found: TuneFound) -> dict[str, Any]:
    """The document of `hasten tune --json`; the session keeps the same as its result."""
    book = phrasebook()
    return {
        "model": found.model,
        "verdict": verdict_words(found),
        "verdicts": [book.finding_data(finding) for finding in found.findings],
        "best": _best(found),
        "goal": _goal(found),
        "front": [_on_front(trial) for trial in found.front],
        "untried": [BOOK.remark_data(one) for one in found.untried],
        "steps": [step_data(step) for step in found.steps],
        "trials": found.trials,
        "seconds": found.seconds,
        "interrupted": found.interrupted,
        "doubts": [BOOK.remark_data(doubt) for doubt in found.doubts],
        "unreachable": BOOK.sentences(found.unreachable),
        "notes": BOOK.sentences(found.notes),
        "remarks": [BOOK.remark_data(note) for note in (*found.unreachable, *found.notes)],
        "folder": found.folder,
        "files": list(found.files),
        "command": found.command,
        "max_drop": found.max_drop,
        "floor": dict(found.floor),
    }


def _best(found: TuneFound) -> dict[str, Any]:
    """What was chosen, and how it compares with the original."""
    best, original = found.best, found.original
    times, *interval = found.speedup
    known = found.against_latency
    return {
        "model": found.path,
        "variant": best.variant,
        "plan": asdict(found.plan),
        "speedup": times,
        "ci95": [finite(bound) for bound in interval],
        "verdict": None if known is None else known.verdict.value,
        "confirmed": found.is_confirmed,
        "latency_ms": finite(best.median_ms),
        "accuracy": _accuracy(best.accuracy),
        "accuracy_on": best.accuracy_on,
        "floor": best.floor.value,
        "floor_verdict": None if best.floor_verdict is None else to_data(best.floor_verdict),
        "optimistic": best.optimistic,
        "original_accuracy": _accuracy(original.accuracy),
        "size": best.size_bytes,
        "size_ratio": best.size_bytes / original.size_bytes if original.size_bytes else None,
        "recipe": best.recipe,
        "float_nodes": list(best.float_nodes),
        **_amounts(best),
    }


def _on_front(trial: Trial) -> dict[str, Any]:
    return {
        "id": trial.id,
        "latency_ms": finite(trial.median_ms),
        "accuracy": None if trial.accuracy is None else finite(trial.accuracy.value),
        "size": trial.size_bytes,
        "lost": trial.lost,
        **_amounts(trial),
    }


def _amounts(trial: Trial) -> dict[str, Any]:
    """What was measured besides latency, each with the unit in its key: `energy_mj`, `throughput`, `start_ms`."""
    return {_KEYS[goal]: None if (found := trial.amount(goal)) is None else finite(found.value) for goal in MEASURED}


def _goal(found: TuneFound) -> dict[str, Any]:
    """What was to be gained, and what was."""
    known, goal = found.against, found.goal
    before, after = (trial.amount(goal) for trial in (found.original, found.best))
    return {
        "name": goal.value,
        "unit": goal.unit,
        "original": None if before is None else to_data(before),
        "best": None if after is None else to_data(after),
        "compared_by": found.decisive.value,
        "ratio": None if known is None else finite(known.ratio),
        "ci95": None if known is None else [finite(end) for end in known.ci95],
        "verdict": None if known is None else known.verdict.value,
        "confirmed": found.is_confirmed,
    }


def _untried(left: Sequence[Remark]) -> list[Block]:
    """What was left untried; what to do about several of them is said once, after the last."""
    told = [Note(BOOK.text(one), BOOK.hint(one)) for one in left]
    later = [{note.hint for note in told[place + 1 :]} for place in range(len(told))]
    rows = tuple(
        replace(note, hint="") if note.hint in after else note for note, after in zip(told, later, strict=True)
    )
    return [Notes(rows)] if rows else []


def step_data(step: Step) -> dict[str, Any]:
    """A step of the waterfall, with its words."""
    return to_data(step, STEPS)


def _accuracy(known: Accuracy | None) -> dict[str, Any] | None:
    return None if known is None else known.as_data()


def _steps(steps: Iterable[Step]) -> Table:
    rows = tuple(
        (
            Cell(STEPS.text(step.what)),
            Cell(step.goal.written(step.before), step.before),
            Cell(step.goal.written(step.after), step.after),
            Cell(outcome_words(step.verdict, step.ratio, step.ci95, step.goal), step.ratio),
        )
        for step in steps
    )
    return Table("steps", "Steps from the original to the result", columns("step", "#from", "#to", "change"), rows)


def _places(found: TuneFound) -> Iterable[tuple[str, ...]]:
    floor = f"; floor: {found.floor.get('text', '')}" if found.original.accuracy is not None and found.floor else ""
    yield "timed", f"{several(found.trials, 'candidate')} in {duration(found.seconds)}{floor}"
    yield "bundle", found.folder
    if "report.html" in found.files:
        yield "report", str(Path(found.folder) / "report.html")
    yield "session", str(Path(found.folder) / "session.jsonl")
    if found.command and found.command.isprintable():  # a line break in a name cannot be shown as it is
        yield "again", found.command

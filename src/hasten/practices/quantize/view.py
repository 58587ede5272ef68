"""A search for variants as blocks and as the document that `--json` prints."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import Kind, is_share, value_text
from hasten.core.accuracy_notes import RANDOM_INPUTS
from hasten.core.codec import from_data, to_data
from hasten.core.comparison import Verdict
from hasten.core.floor import FloorState
from hasten.core.remark import Remark, each_once, remark
from hasten.core.trial import NOTHING, ORIGINAL, trial_data
from hasten.core.units import interval_ms, milliseconds, percent, percentage_points, several, size, speedup
from hasten.evaluate import words
from hasten.practices.quantize.facts import QuantizeFound, Sensitivity
from hasten.practices.quantize.rules import NAME, choice, finding_of
from hasten.practices.quantize.words import BOOK
from hasten.show.blocks import (
    Cell,
    Detail,
    Facts,
    Headline,
    Prose,
    Section,
    Snippet,
    Table,
    columns,
    doubt_notes,
    notes,
    sentences,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.accuracy import Accuracy
    from hasten.core.floor import FloorVerdict
    from hasten.core.session import Line
    from hasten.core.trial import Trial
    from hasten.show.blocks import Block

_MOST_SENSITIVE: Final = 5
_MOST_SKIPPED: Final = 3
_DELTA: Final = "\N{GREEK CAPITAL LETTER DELTA}"


def view(found: QuantizeFound) -> list[Block]:
    """The choice, the variants, and what to know about them."""
    finding = finding_of(found)
    if found.already != NOTHING:
        return [
            Headline(BOOK.text(finding.remark)),
            Facts(tuple(_as_it_is(found))),
            *_doubts(found.trials),
            *notes(_remarks(found), BOOK),
        ]
    # Steps on the way to a mix left no file: programs see them, people see where they led.
    shown = [trial for trial in found.trials if trial.path or not trial.is_step]
    common = _common_notes(shown)
    return [
        Headline(" ".join((f"{why(found)} {BOOK.hint(finding.remark)}").split())),
        Facts(tuple(_facts(found))),
        _table(shown),
        *sentences(f"{one.variant}: {BOOK.text(one.why)}" for one in shown[1:] if one.why != NOTHING),
        *_doubts(shown),
        *notes((*common, *_remarks(found)), BOOK),
        Detail((_accuracy_table(shown), *_about(shown, common), *_sensitive(found), *_explaining(found))),
    ]


def why(found: QuantizeFound) -> str:
    """Why this variant is the choice."""
    told = found.already if found.already != NOTHING else choice(found.trials, found.goal)
    return " ".join(BOOK.sentences((told, *found.types_still)))


def document(found: QuantizeFound) -> dict[str, Any]:
    """The document of `hasten quantize --json`."""
    finding = BOOK.finding_data(finding_of(found))
    return {
        "model": found.model,
        "variants": [trial_data(trial, BOOK) for trial in found.trials],
        "chosen": found.chosen,
        "path": found.path,
        "why": why(found),
        "sensitivity": [to_data(entry) for entry in found.sensitivity],
        "max_drop": found.max_drop,
        "floor": dict(found.floor),
        "goal": found.goal.value,
        "data": found.data,
        "already_quantized": BOOK.text(found.already),
        "input_type": found.io_types.input_type,
        "output_type": found.io_types.output_type,
        "notes": BOOK.sentences(found.notes),
        "remarks": [BOOK.remark_data(note) for note in found.notes],
        "resumed": found.resumed,
        "finding": {**finding, "evidence": why(found)},
        "hints": [f"{question} {command}" for question, command in _questions(found)],
        "skipped": [{"name": name, "reason": reason} for name, reason in found.skipped],
        "interrupted": found.interrupted,
    }


def session_lines(found: QuantizeFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps besides the trials, each of which is saved as it ends."""
    return [("finding", NAME, to_data(finding_of(found)))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """What a report shows besides the trials: what quantizing single nodes does to the outputs, by recipe."""
    groups: dict[str, dict[str, Sensitivity]] = {}
    for line in lines:
        if line.kind == "sensitivity":
            entry = from_data(Sensitivity, line.data)
            groups.setdefault(entry.recipe, {})[line.label] = entry
    tables = [_sensitivity_table(recipe, list(rows.values())) for recipe, rows in groups.items()]
    return [Section("sensitivities", "Sensitivity to quantization", tuple(tables))] if tables else []


def _facts(found: QuantizeFound) -> Iterable[tuple[str, ...]]:
    yield "model", f"{PurePath(found.model).name} ({size(found.original.size_bytes)}), {found.plan.describe()}"
    yield "chosen", f"{found.chosen}, copied to {found.path}"
    limit = found.floor.get("text") or f"at most {percent(found.max_drop)} lost"
    random = any(note.code == RANDOM_INPUTS for note in found.notes)
    part, figure = PurePath(found.data).name, _figure_name(found.trials)
    judged = f"one part of {part} is for choosing, {figure} is measured on the other"
    yield "floor", f"{limit}{', not judged, because no data was given' if random else f'; {judged}'}"


def _as_it_is(found: QuantizeFound) -> Iterable[tuple[str, ...]]:
    """What was measured of a model that stays as it is. Without labels it was compared with itself, which says
    nothing."""
    original, known = found.original, found.original.reporting
    yield "chosen", f"{found.chosen}, copied to {found.path}"
    if original.latency is not None:
        interval = interval_ms(original.latency.low, original.latency.high)
        yield "latency", f"{milliseconds(original.latency.estimate)} (95 % CI {interval})"
    if known is not None and known.kind is Kind.ACCURACY:
        yield "accuracy", f"{accuracy_words(known)}, one part of {found.data}"


def _doubts(trials: Sequence[Trial]) -> list[Block]:
    return doubt_notes({trial.variant: trial.doubts for trial in trials if trial.latency is not None}, BOOK)


def _remarks(found: QuantizeFound) -> tuple[Remark, ...]:
    if not found.skipped:
        return found.notes
    first = [list(entry) for entry in found.skipped[:_MOST_SKIPPED]]
    return (*found.notes, remark("quantize.skipped", count=len(found.skipped), first=first))


def _table(trials: Sequence[Trial]) -> Table:
    metric = next((metric_name(known) for one in trials if (known := one.accuracy) is not None), "accuracy")
    headings = columns(
        "variant", "#size", "#?zipped", "#latency", "#?95 % CI", "against the original", f"#{metric}", "floor"
    )
    rows = tuple(
        (
            Cell(one.variant, code=True),
            Cell(size(one.size_bytes) if one.size_bytes else "", one.size_bytes),
            Cell(size(one.zipped_bytes) if one.zipped_bytes else "", one.zipped_bytes),
            Cell("" if one.latency is None else milliseconds(one.latency.estimate), one.median_ms),
            Cell("" if one.latency is None else interval_ms(one.latency.low, one.latency.high)),
            Cell(_against(one), one.against.ratio if one.against else None),
            Cell(_figure(one), one.accuracy.value if one.accuracy else None),
            Cell("" if one.variant == ORIGINAL else one.floor.value),
        )
        for one in trials
    )
    return Table("variants", "Variants with size, latency and accuracy", headings, rows)


def _against(trial: Trial) -> str:
    if trial.against is None:
        return ""
    if trial.against.verdict in (Verdict.FASTER, Verdict.SLOWER):
        return speedup(trial.against.ratio)
    return str(trial.against.verdict.value)


def _figure(trial: Trial) -> str:
    """The metric's value. That of a variant that was not reported on is of other samples than the original's, so that
    only the change says something; agreement is with the original, whatever the samples."""
    known = trial.accuracy
    if known is None:
        return ""
    change = _only_change(trial)
    if change is None:
        return value_text(known.metric, known.value)
    # Values in units of their own may be below 0, so that a sign alone would not tell a change.
    return f"{'' if is_share(known.metric) else _DELTA}{_signed(known, change)}"


def _only_change(trial: Trial) -> float | None:
    """The change of a variant that was judged on the choosing part only; an error that grows is a loss as well."""
    known = trial.choosing
    if known is None or known.kind is not Kind.ACCURACY or trial.reporting is not None or trial.drop is None:
        return None
    return _as_change(known, trial.drop)


def _accuracy_table(trials: Sequence[Trial]) -> Table:
    headings = columns(
        "variant",
        f"{_figure_name(trials)} (95 % CI)",
        "change (95 % CI)",
        "#samples",
        "#breaks the floor from",
        "#would decide",
        "float nodes",
    )
    rows = []
    for one in trials:
        known = one.accuracy
        if known is None:
            continue
        integers = "" if one.integer_share is None else f", {percent(one.integer_share)} of the weights are integers"
        value, low, high = (value_text(known.metric, each) for each in (known.value, known.low, known.high))
        rows.append(
            (
                Cell(one.variant, code=True),
                Cell(f"{value} ({low} to {high})" if _only_change(one) is None else ""),
                Cell(_change_words(one, known)),
                Cell(str(known.samples), known.samples),
                *_power(one, known),
                Cell(f"{len(one.float_nodes)}{integers}" if one.is_mix else ""),
            )
        )
    return Table("variant-accuracy", "Accuracy of each variant", headings, tuple(rows))


def _figure_name(trials: Sequence[Trial]) -> str:
    """What the figures of these variants are: accuracy, or agreement with the original."""
    return next((words.kind_text(known.kind, known.metric) for one in trials if (known := one.accuracy)), "accuracy")


def _change_words(trial: Trial, known: Accuracy) -> str:
    """The change with its interval, on the samples of the accuracy."""
    verdict = trial.floor_verdict
    if verdict is None:  # of a session from before
        change = _only_change(trial)
        return "" if change is None else f"{_signed(known, change)}, choosing part"
    drop, low, high = (_signed(known, _as_change(known, value)) for value in (verdict.drop, *_ends(known, verdict)))
    return f"{drop} ({low} to {high})" + ("" if trial.reported else ", choosing part")


def _ends(known: Accuracy, verdict: FloorVerdict) -> tuple[float, float]:
    low, high = verdict.ci95
    return (high, low) if known.higher_is_better else (low, high)


def _as_change(known: Accuracy, drop: float) -> float:
    """A loss as a change of the value: an error that grows is a loss as well."""
    return 0.0 - drop if known.higher_is_better else drop


def _power(trial: Trial, known: Accuracy) -> tuple[Cell, Cell]:
    """The smallest drop that these samples could prove to be beyond the floor, and how many would decide."""
    verdict = trial.floor_verdict
    if verdict is None:
        return Cell(""), Cell("")
    shown, needed = verdict.smallest_beyond, verdict.samples_needed
    return (
        Cell(_signed(known, _as_change(known, shown)) if math.isfinite(shown) else "", shown),
        Cell("" if needed is None else f"{needed:,}", needed),
    )


def _about(trials: Sequence[Trial], common: Sequence[Remark]) -> list[Block]:
    """What there is to say of single variants."""
    return sentences(
        f"{one.variant}: {BOOK.text(note)}"
        for one in trials
        if one.floor is not FloorState.FAILED
        for note in one.notes
        if note not in common
    )


def _common_notes(trials: Sequence[Trial]) -> tuple[Remark, ...]:
    """Notes that all variants share, which are said once."""
    made = [trial for trial in trials if trial.floor is not FloorState.FAILED and trial.variant != ORIGINAL]
    if len(made) < 2:
        return ()
    return each_once(note for note in made[0].notes if all(note in trial.notes for trial in made))


def _sensitive(found: QuantizeFound) -> list[Block]:
    """The most sensitive nodes: of the recipe that the chosen mix is of, or else of the first that was looked into."""
    if not found.sensitivity:
        return []
    wanted = found.best.recipe
    recipe = wanted if any(one.recipe == wanted for one in found.sensitivity) else found.sensitivity[0].recipe
    mine = [entry for entry in found.sensitivity if entry.recipe == recipe]
    return [_sensitivity_table(recipe, sorted(mine, key=lambda entry: -entry.error)[:_MOST_SENSITIVE])]


def _sensitivity_table(recipe: str, entries: Sequence[Sensitivity]) -> Table:
    rows = tuple(
        (
            Cell(_node_words(entry.nodes), entry.nodes[0] if entry.nodes else None),
            Cell(entry.op),
            Cell(entry.location, code=True),
            Cell(percent(entry.error) if math.isfinite(entry.error) else "unusable", entry.error),
            Cell(percent(entry.share), entry.share),
        )
        for entry in entries
    )
    headings = columns("node", "operator", "location", "#error at the output", "#?share")
    return Table(f"sensitivity-{recipe}", f"Error when {recipe} quantizes only these nodes", headings, rows)


def _node_words(nodes: Sequence[int]) -> str:
    return f"{nodes[0]}-{nodes[-1]}" if len(nodes) > 1 else "".join(map(str, nodes))


def _questions(found: QuantizeFound) -> Iterable[tuple[str, str]]:
    for trial, slower, wrong in found.unexplained:
        what = " and ".join(word for word, said in (("slower", slower), ("less accurate", wrong)) if said)
        yield f"Why is {trial.variant} {what}?", found.explaining(trial, wrong=wrong)


def _explaining(found: QuantizeFound) -> list[Block]:
    return [block for question, command in _questions(found) for block in (Prose(question), Snippet(command))]


def metric_name(found: Accuracy) -> str:
    """What the figures are; of a metric of the user's own, the name of the function."""
    if found.kind is Kind.ACCURACY:
        return found.metric.rpartition(":")[2]
    return words.kind_text(found.kind, found.metric)


def accuracy_words(found: Accuracy) -> str:
    """A figure with its interval and its samples."""
    value, low, high = (value_text(found.metric, each) for each in (found.value, found.low, found.high))
    return f"{metric_name(found)} {value} (95 % CI {low} to {high}) on {several(found.samples, 'sample')}"


def _signed(found: Accuracy, change: float) -> str:
    """A change of a metric, with its sign."""
    if not math.isfinite(change):
        return "unknown"
    return percentage_points(change) if is_share(found.metric) else f"{change:+.3g}"

"""The other half of the data: how accurate the variants are, and what happens if the choice breaks the floor there.

The least float mix that passes on one half has had some luck there. Where the choice loses more than allowed on the
reporting half, it is broken: the next one is taken, and the result says that the reporting half had a part in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.errors import HastenError
from hasten.core.quantization import BROKEN, FAILED, KEPT, ORIGINAL, UNKNOWN, VariantRow, choose
from hasten.evaluate.evaluation import compare_evaluations
from hasten.evaluate.words import loss_text
from hasten.practices.mixed_precision import mix, mix_further
from hasten.practices.quantize_judge import REPORTING

if TYPE_CHECKING:
    from hasten.practices.quantize.run import QuantizePractice

# Each further look at the reporting half makes its figures a little more flattering.
MOST_SETBACKS: Final = 3


def report_on_other_half(practice: QuantizePractice) -> None:
    """Evaluate what keeps the floor on the reporting half, until the choice keeps it there as well."""
    setbacks: list[str] = []
    while True:
        wanted = choose(practice.rows, practice.settings.goal)
        _report_all(practice)
        if practice.judges.against_choosing or choose(practice.rows, practice.settings.goal).recipe == wanted.recipe:
            break
        setbacks.append(wanted.recipe)
        if len(setbacks) > MOST_SETBACKS or not practice.settings.mix:
            continue  # to the next one that is there: they get fewer, and the original always keeps the floor
        if not mix_further(practice, wanted):
            mix(practice)
    if setbacks:
        count = "it" if len(setbacks) == 1 else f"{len(setbacks)} choices"
        practice.note(
            f"{', '.join(setbacks)} kept the floor on the choosing half and broke it on the reporting half, which "
            f"decided against {count}: its figures for the final choice are a little flattering. More data would help"
        )


def _report_all(practice: QuantizePractice) -> None:
    rows = [row for row in practice.rows if row.floor not in ("", FAILED) and row.path and row.accuracy is None]
    for row in rows:
        practice.tell(0.9, f"{row.recipe} on the reporting half")
        if row.recipe == ORIGINAL:
            accuracy = practice.judges.original(REPORTING).accuracy
            practice.folder.save_skipped(practice.judges.skipped)
            practice.folder.save(replace(row, accuracy=accuracy, why=practice.judges.against_choosing))
        elif practice.judges.against_choosing and row.floor == KEPT:
            practice.folder.save(replace(row, floor=UNKNOWN))
        elif row.floor == KEPT:
            practice.folder.save(_reported(practice, row))
    practice.choose()


def _reported(practice: QuantizePractice, row: VariantRow) -> VariantRow:
    try:
        found = practice.judges.reported(practice.candidate_of(row))
    except HastenError as error:
        return replace(row, floor=FAILED, why=error.message)
    change = compare_evaluations(practice.judges.original(REPORTING), found)
    row = replace(row, accuracy=found.accuracy, change=change)
    floor = practice.judges.floor(REPORTING)
    if floor.keeps(change.drop):
        return row
    lost = loss_text(floor, change.drop)
    return replace(row, floor=BROKEN, why=f"keeps the floor on the choosing half, but loses {lost} on the other")

"""The checks of a model as blocks and as the document that `--json` prints."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import to_data
from hasten.core.doubts import DOUBTS
from hasten.core.remark import Remark, remark
from hasten.core.units import decibels, interval_ms, milliseconds, percent, several, size
from hasten.practices.help.facts import ModelFound, Status
from hasten.practices.help.model_rules import model_finding
from hasten.practices.help.words import BOOK
from hasten.show.blocks import (
    Cell,
    Detail,
    Facts,
    Headline,
    Note,
    Notes,
    Table,
    cell,
    columns,
    doubt_notes,
    known,
    notes,
    sentences,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.practices.help.facts import Check, IssueBundle
    from hasten.practices.help.minimize.facts import Minimized
    from hasten.practices.help.releases.facts import ReleaseRow
    from hasten.show.blocks import Block

_MOST_OPERATORS: Final = 15


def view(found: ModelFound) -> list[Block]:
    """What to mend first, then every check, the smallest part, other releases and the bundle."""
    return [
        Headline(BOOK.text(model_finding(found).remark)),
        Facts(_rows(found)),
        *sentences(_advice(found)),
        *([] if found.latency is None else doubt_notes({"latency": found.latency.doubts}, DOUBTS)),
        Detail((*_good_checks(found), *delegates_table(found), *operators_table(found))),
        *_minimized(found.minimized),
        *([] if found.releases is None else [Headline(BOOK.text(found.releases.finding)), *releases_table(found)]),
        *([] if found.bundle is None else [Headline(_written(found.bundle))]),
    ]


def _rows(found: ModelFound) -> tuple[tuple[str, str, str], ...]:
    """What ran, what delegates take and what is not good, each with its finding; what else is good by name only."""
    told = [check for check in found.checks if check.status is not Status.GOOD or _tells_figures(check)]
    rest = [check.name for check in found.checks if check not in told]
    rows = [(check.status.value, check.name, BOOK.text(check.finding)) for check in told]
    return (*rows, *([(Status.GOOD.value, several(len(rest), "other"), f"{', '.join(rest)}.")] if rest else []))


def _tells_figures(check: Check) -> bool:
    return check.finding.code in ("model.runs", "delegate.whole")


def _advice(found: ModelFound) -> Iterator[str]:
    """What to do; advice that serves several checks is given once."""
    hints: dict[str, list[str]] = {}
    for check in found.checks:
        if check.status is not Status.GOOD and (hint := hint_of(check, found)):
            hints.setdefault(hint, []).append(check.name)
    for hint, names in hints.items():
        told = ", ".join(names)
        yield f"{told[:1].upper()}{told[1:]}: {hint}"


def _good_checks(found: ModelFound) -> list[Block]:
    rows = [check for check in found.checks if check.status is Status.GOOD and not _tells_figures(check)]
    cells = tuple((Cell(check.name), Cell(BOOK.text(check.finding))) for check in rows)
    return [Table("good", "Good", columns("check", "finding"), cells)] if rows else []


def document(found: ModelFound) -> dict[str, Any]:
    """The document of `hasten doctor MODEL --json`."""
    data = to_data(found, BOOK)
    for raw in ("latency", "profile", "machine"):
        data.pop(raw)
    checks = [
        {**to_data(check, BOOK), "facts": dict(check.finding.facts), "what_to_do": hint_of(check, found)}
        for check in found.checks
    ]
    return {**data, "latency": _latency(found), "checks": checks, "finding": BOOK.finding_data(model_finding(found))}


def hint_of(check: Check, found: ModelFound) -> str:
    """What to do about a check, with the model's own path in the command.

    What a delegate refuses is looked into by commands that run the model: no advice where it does not run.
    """
    if found.failure is not None and check.finding.code == "delegate.partial":
        return ""
    return BOOK.hint(with_model(check.finding, found.model.path))


def with_model(told: Remark, model: str) -> Remark:
    """The remark with the model as commands take it."""
    return Remark(told.code, {**told.facts, "model": shlex.quote(model)})


def checks_table(found: ModelFound) -> list[Block]:
    """Every check that is not good."""
    bad = [check for check in found.checks if check.status in (Status.BETTER, Status.BROKEN)]
    rows = tuple((Cell(check.name), Cell(check.status.value), Cell(BOOK.text(check.finding))) for check in bad)
    return [Table("checks", "Checks", columns("check", "status", "finding"), rows)] if rows else []


def delegates_table(found: ModelFound) -> list[Block]:
    """What each delegate takes and refuses."""
    rows = tuple(
        (
            Cell(fit.name),
            Cell("observed" if fit.observed else "by rules"),
            Cell(f"{fit.taken}/{fit.total}"),
            cell(fit.partitions),
            known(fit.taken_macs, percent),
            Cell("; ".join(f"{len(row.nodes)} {row.op}: {BOOK.text(row.why)}" for row in fit.refusals)),
        )
        for fit in found.delegates
    )
    titles = columns("delegate", "basis", "#operators", "#partitions", "#MACs", "refused")
    return [Table("delegates", "Delegates", titles, rows)] if rows else []


def operators_table(found: ModelFound) -> list[Block]:
    """The operators that take most of a run."""
    if found.profile is None:
        return []
    largest = sorted(found.profile.operators, key=lambda row: -row.ms)[:_MOST_OPERATORS]
    rows = tuple(
        (cell(row.index), Cell(row.op), Cell(row.kernel), Cell(milliseconds(row.ms), row.ms), Cell(percent(row.share)))
        for row in largest
    )
    return [Table("operators", "Operators", columns("#node", "operator", "kernel", "#time", "#share"), rows)]


def releases_table(found: ModelFound) -> list[Block]:
    """What each release does with the model."""
    if found.releases is None:
        return []
    rows = tuple(_release_row(row) for row in found.releases.rows)
    titles = columns("LiteRT", "status", "shows it", "#latency", "95 % CI", "#SNR")
    failed = [(row.release, row.failure) for row in found.releases.rows if row.failure is not None]
    told = (f"{release}: {failure.message} {failure.hint}".rstrip() for release, failure in failed)
    return [Table("releases", "Releases", titles, rows), *sentences(told)]


def bundle_blocks(bundle: IssueBundle) -> list[Block]:
    """What is in a bundle."""
    rows = tuple((entry.name, size(entry.size_bytes), BOOK.text(entry.what)) for entry in bundle.entries)
    return [Headline(f"Issue bundle {bundle.path}"), Facts(rows)]


def _written(bundle: IssueBundle) -> str:
    total = sum(entry.size_bytes for entry in bundle.entries)
    return f"Issue bundle: {bundle.path}, {several(len(bundle.entries), 'file')}, {size(total)}."


def _release_row(row: ReleaseRow) -> tuple[Cell, ...]:
    shows = {True: "yes", False: "no", None: "unknown"}[row.shows]
    latency = row.latency
    snr = "equal" if row.equal else "" if row.snr_db is None else decibels(row.snr_db, 0)
    return (
        Cell(row.release),
        Cell(row.status.value),
        Cell(shows),
        Cell("" if latency is None else milliseconds(latency.estimate)),
        Cell("" if latency is None else interval_ms(latency.low, latency.high)),
        Cell(snr),
    )


def _minimized(small: Minimized | None) -> list[Block]:
    if small is None:
        return []
    if not small.shown:
        told = remark("minimize.not-shown", problem=small.problem)
        return [Headline(BOOK.text(told)), Notes((Note(BOOK.text(small.whole), BOOK.hint(told)),))]
    code = "minimize.found" if small.complete else "minimize.cut-short"
    told = remark(code, count=len(small.nodes), total=small.total, operators=list(small.operators))
    return [Headline(BOOK.text(told)), Notes((Note(BOOK.text(small.part), BOOK.hint(told)),)), *private_note(small)]


def private_note(small: Minimized) -> list[Block]:
    """Whether random weights keep the problem, where that was asked."""
    if small.private_shows is None:
        return []
    return notes([remark("minimize.private-shows" if small.private_shows else "minimize.private-lost")], BOOK)


def _latency(found: ModelFound) -> dict[str, Any] | None:
    if found.latency is None:
        return None
    samples = found.latency.samples
    level = samples.latency
    return {
        "median_ms": level.estimate,
        "ci95_ms": [level.low, level.high],
        "p95_ms": samples.p95_ms,
        "min_ms": samples.min_ms,
        "samples": samples.count,
        "doubts": [DOUBTS.remark_data(doubt) for doubt in found.latency.doubts],
    }

"""A profile as blocks and as the document that `--json` prints."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.core.doubts import PROFILING
from hasten.core.profile import Profile
from hasten.core.units import count, milliseconds, percent, size
from hasten.practices.profile.charts import kinds_spec, roofline_spec, treemap_spec
from hasten.practices.profile.rules import (
    NAME,
    by_headroom,
    placement,
    remarks_on_mapping,
    unprofiled_ms,
    where_time_goes,
)
from hasten.practices.profile.words import BOOK
from hasten.show.blocks import Cell, Chart, Facts, Headline, Prose, Section, Table, cell, columns, known, notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.profile import OperatorTime
    from hasten.core.session import Line
    from hasten.show.blocks import Block

_KINDS_SHOWN: Final = 8
_OPERATORS_SHOWN: Final = 15
_MOST_HEADROOM: Final = 30
_FILTER_FROM: Final = 12
# The profiles of a tuning, in their order.
_ORDER: Final = {"before": 0, "after": 1}
_RUNS_ON: Final = {
    "exact": "delegate",
    "ambiguous": "delegate (mapping ambiguous)",
    "guess": "delegate (mapping guessed)",
    "engine": "built-in kernel",
    "partition": "delegate (not by operator)",
}


def view(found: Profile, most: int = _OPERATORS_SHOWN) -> list[Block]:
    """Where the time of a run goes: by kind of operator, and by operator (on a terminal, as many as `most` says)."""
    return _blocks({PurePath(found.model.path).name: found}, most)


def document(found: Profile) -> dict[str, Any]:
    """The document of `hasten profile --json`."""
    operators = [{**to_data(operator), "kernel": operator.kernel or None} for operator in found.operators]
    return {**to_data(found, BOOK), "ops": operators}


def session_lines(found: Profile) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a profile."""
    return [(NAME, found.model.path, to_data(found))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report; the profiles before and after a tuning stand side by side."""
    found = {line.label: line for line in lines if line.kind == NAME}
    ordered = sorted(found.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER)))
    profiles = {PurePath(label).name or label: profile_from_line(line) for label, line in ordered}
    shown = {label: profile for label, profile in profiles.items() if profile.operators}
    return [Section(NAME, "Where the time goes", tuple(_blocks(shown)))] if shown else []


def profile_from_line(line: Line) -> Profile:
    """A profile of this release or an older one, which joined kernels in one text and named the model by the label."""
    operators = [
        {"kernels": [kernel] if (kernel := operator.get("kernel")) else [], **operator}
        for operator in line.data["ops"]
        if operator.get("ms") is not None
    ]
    absent = {"model": {"path": line.label, "size_bytes": 0, "sha256": ""}, "plan": {}}
    return from_data(Profile, {**absent, **line.data, "ops": operators})


def _blocks(profiles: Mapping[str, Profile], most: int = _OPERATORS_SHOWN) -> list[Block]:
    """One profile, or several side by side, by their labels."""
    several = len(profiles) > 1
    blocks: list[Block] = []
    for label, profile in profiles.items():
        name = f"{label[:1].upper()}{label[1:]}: " if several else ""
        blocks += [Headline(f"{name}{BOOK.text(where_time_goes(profile))}"), _facts(profile)]
    blocks += _by_kind(profiles)
    for place, (label, profile) in enumerate(profiles.items()):
        blocks += _by_operator(profile, place, label if several else "", most)
        blocks += notes([*profile.doubts, *remarks_on_mapping(profile)], BOOK)
    return [*blocks, *_roofline(profiles)]


def _facts(profile: Profile) -> Facts:
    cost = _profiling_cost(profile)
    share = percent(profile.share(profile.seen_ms))
    rows = [
        ("operators", f"{milliseconds(profile.seen_ms)}, {share} of a profiled run"),
        ("unprofiled", f"{milliseconds(unprofiled_ms(profile))}, measured in alternation; profiling adds {cost}"),
    ]
    if profile.model.sha256:
        rows.insert(0, ("model", f"{PurePath(profile.model.path).name}, {profile.plan.describe()}"))
    rows.append(("delegated", BOOK.text(placement(profile))))
    if peaks := profile.peaks:
        rows += [
            (
                "peak",
                f"{peaks.float_gflops:.0f} GFLOP/s float, {peaks.int8_gops:.0f} GOP/s int8,"
                f" {peaks.bandwidth[-1][1]:.0f} GB/s (measured)",
            ),
            ("headroom", _headroom(profile)),
        ]
    return Facts(tuple(rows))


def _profiling_cost(profile: Profile) -> str:
    """What profiling adds to a run, as far as other processes let it be seen."""
    if any(doubt.code == PROFILING and doubt.facts.get("disturbed") for doubt in profile.doubts):
        return f"at most {percent(profile.profiling_cost)}"
    return percent(profile.profiling_cost) if profile.profiling_cost > 0 else "nothing measurable"


def _headroom(profile: Profile) -> str:
    if not profile.seen_ms:
        return "unknown, as the profiler sees no operator's time"
    total_ms = sum(operator.headroom_ms or 0.0 for operator in profile.operators)
    least = "" if profile.is_mostly_seen else "at least "
    return f"{least}{milliseconds(total_ms)} per run, if every operator reached that peak"


def _says_something(profile: Profile, ms: float) -> bool:
    """Whether a time of the profile does: where the profiler saw little, 0 only means that it did not see it."""
    return ms > 0 or profile.is_mostly_seen


def _by_kind(profiles: Mapping[str, Profile]) -> list[Block]:
    """A bar for each kind and profile."""
    several = len(profiles) > 1
    rows = tuple(
        (
            *((Cell(label),) if several else ()),
            Cell(kind.op),
            cell(kind.count),
            Cell(_ms(kind.ms), kind.ms),
            Cell(percent(profile.share(kind.ms)), kind.ms),
            known(kind.macs, count),
        )
        for label, profile in profiles.items()
        for kind in profile.by_kind()
        if _says_something(profile, kind.ms)
    )
    if not rows:
        return []
    headings = columns(*(("profile",) if several else ()), "operator", "#count", "#time, ms", "#share", "#MACs")
    said = "A bar for each kind of operator: the time that all of them take in a run."
    title = "Time by kind of operator"
    sheet = Table("profile-kinds-table", title, headings, rows, most=_KINDS_SHOWN * len(profiles))
    return [Chart("profile-kinds", title, said, kinds_spec(profiles), sheet)]


def _by_operator(profile: Profile, place: int, label: str, most: int) -> list[Block]:
    """A tile for each operator; as a table, those that take most time first."""
    headings = columns(
        "#node",
        "operator",
        "output",
        "#time, ms",
        "#share",
        "bound by",
        "#headroom, ms",
        "#?GFLOP/s",
        "#?MACs",
        "#?bytes",
        "?runs on",
        "?kernel",
        "?location",
        "?fused",
    )
    operators = [operator for operator in profile.operators if _says_something(profile, operator.ms)]
    rows = tuple(_operator(operator) for operator in sorted(operators, key=lambda operator: -operator.ms))
    if not rows:
        return []
    title = f"Operators, {label}" if label else "Operators"
    said = "Each tile is an operator. Its area is the time that the operator takes."
    sheet = Table(
        f"profile-table-{place}", f"{title}, by time", headings, rows, filterable=len(rows) > _FILTER_FROM, most=most
    )
    return [Chart(f"profile-tree-{place}", title, said, treemap_spec(profile), sheet)]


def _operator(operator: OperatorTime) -> tuple[Cell, ...]:
    return (
        cell(operator.index if operator.index >= 0 else None),
        Cell(operator.op),
        Cell(operator.shapes.rpartition("→ ")[2]),
        Cell(_ms(operator.ms), operator.ms),
        Cell(percent(operator.share), operator.share),
        Cell(operator.bound or ""),
        known(operator.headroom_ms, _ms),
        known(operator.gflops, _rate),
        known(operator.macs, count),
        known(operator.bytes, size),
        Cell(_RUNS_ON.get(operator.mapped, operator.mapped)),
        Cell(operator.kernel, code=True),
        Cell(operator.location, code=True),
        Cell(", ".join(operator.fused)),
    )


def _ms(value: float) -> str:
    """Milliseconds in a column: all in one unit, so that they can be compared at a glance."""
    return f"{value:.3f}" if value < 99.9995 else f"{value:.1f}" if value < 9999.95 else f"{value:.0f}"


def _rate(gflops: float) -> str:
    """Three digits, never an exponent; none where there is nothing to compute."""
    if not gflops:
        return ""
    return f"{gflops:.3g}" if gflops < 999.5 else f"{gflops:.0f}"


def _roofline(profiles: Mapping[str, Profile]) -> list[Block]:
    """The operators below the machine's peaks, and a table of those with most headroom."""
    spec = roofline_spec(profiles)
    if spec is None:
        known = any(profile.peaks for profile in profiles.values())
        return [] if known else [Prose("This machine's peak was not measured, so no headroom is known.")]
    ranked = sorted(
        ((label, operator) for label, profile in profiles.items() for operator in by_headroom(profile)),
        key=lambda pair: -(pair[1].headroom_ms or 0.0),
    )
    rows = tuple(
        (
            Cell(label),
            cell(operator.index),
            Cell(operator.op),
            Cell(_ms(operator.headroom_ms or 0.0), operator.headroom_ms),
            Cell(operator.bound or ""),
        )
        for label, operator in ranked[:_MOST_HEADROOM]
    )
    headings = columns("profile", "#node", "operator", "#headroom, ms", "bound by")
    sheet = Table("profile-headroom-table", "Operators with most headroom", headings, rows)
    said = (
        "The lines are this machine's peak: memory limits it on the left, arithmetic on the right."
        " An operator far below its line has headroom. A larger mark takes more time."
    )
    return [Chart("profile-roofline", "Roofline", said, spec, sheet, on_terminal=False)]

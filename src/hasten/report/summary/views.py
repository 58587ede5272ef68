"""What single practices left in a session: profiles, threads, accelerators, copies, applications, comparisons."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.report.summary.reading import records, text
from hasten.report.summary.records import PracticeView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hasten.core.session import Line


# Samples stay in the session file.
_RAW: Final = ("blocks", "samples")


def short(path: str) -> str:
    """A path's last part; other words as they are."""
    return PurePath(path).name or path


def practice_views(lines: Iterable[Line], kind: str, rows: str = "rows") -> tuple[PracticeView, ...]:
    """What a practice left: its rows as they are, what it recommends, and the rest of its data."""
    found = {line.label: line.data for line in lines if line.kind == kind}
    return tuple(
        PracticeView(
            short(text(data, "model") or text(data, "model", "path") or label),
            tuple(records(data, rows)),
            _recommended(data),
            text(data, "why") or text(data, "verdict") or text(data, "finding", "evidence"),
            {key: value for key, value in data.items() if key not in (rows, *_RAW)},
        )
        for label, data in found.items()
    )


def _recommended(data: dict[str, Any]) -> str:
    found = data.get("recommended")
    if isinstance(found, dict):
        return ", ".join(f"{key}: {value}" for key, value in found.items())
    return "" if found is None else str(found)


def sensitivity_views(lines: Iterable[Line]) -> tuple[PracticeView, ...]:
    """What quantising single nodes does, by recipe."""
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        if line.kind == "sensitivity":
            groups.setdefault(text(line.data, "recipe"), {})[line.label] = line.data
    return tuple(PracticeView(recipe, tuple(rows.values())) for recipe, rows in groups.items())

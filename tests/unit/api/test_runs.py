"""Runs of a model as users of the library start them."""

from __future__ import annotations

from typing import Any

from hasten import api
from hasten.core.codec import to_data
from hasten.core.session import Line, merged_rounds
from hasten.demo import MODEL


def test_bench_saves_each_round_as_it_ends_and_the_whole_takes_their_place() -> None:
    lines: list[Line] = []
    so_far: list[int] = []

    def keep(kind: str, label: str, data: dict[str, Any]) -> None:
        lines.append(Line(kind, label, "", data))

    effort = api.Effort(0.5, progress=lambda share, text: so_far.append(len(lines)), keep=keep)
    found = api.bench(MODEL, effort=effort)
    assert found.samples.processes == len(lines) == max(so_far)
    assert [line.data["round"] for line in lines] == list(range(1, len(lines) + 1))
    (saved,) = merged_rounds(lines)
    assert saved.data["samples"] == to_data(found)["samples"]
    whole = Line("measurement", str(MODEL), "", to_data(found))
    again = lines[0]
    assert merged_rounds([*lines, whole, again]) == [whole, again]
    other = Line("measurement", str(MODEL), "", to_data(api.bench(MODEL, effort=api.Effort(0.1))))
    assert merged_rounds([*lines, other]) == [saved, other]

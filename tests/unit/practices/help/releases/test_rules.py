"""Since which release a problem exists, from rows with a known answer."""

from __future__ import annotations

import pytest

from hasten.practices.help.releases.facts import ReleaseRow, ReleaseStatus
from hasten.practices.help.releases.rules import finding, in_order
from hasten.practices.help.words import BOOK


def rows(**shows: bool | None) -> list[ReleaseRow]:
    """`v2_1=True`: LiteRT 2.1 shows the problem."""
    names = {name: name.removeprefix("v").replace("_", ".") for name in shows}
    return [ReleaseRow(names[name], ReleaseStatus.RUNS, told) for name, told in shows.items()]


def test_releases_are_ordered_by_number_and_not_by_letter() -> None:
    assert in_order(["2.10.0", "2.2.0", "2.1.6", "2.2.0", "2.10.0rc1"]) == ["2.1.6", "2.2.0", "2.10.0rc1", "2.10.0"]


@pytest.mark.parametrize(
    ("shows", "code", "release"),
    [
        ({"v2_1": False, "v2_2": True, "v2_3": True}, "releases.since", "2.2"),
        ({"v2_1": True, "v2_2": True, "v2_3": False}, "releases.fixed", "2.3"),
        ({"v2_1": True, "v2_2": True}, "releases.all", None),
        ({"v2_1": False, "v2_2": False}, "releases.none", None),
        ({"v2_1": True, "v2_2": False, "v2_3": True}, "releases.mixed", None),
        ({"v2_1": None, "v2_2": None}, "releases.unknown", None),
        ({"v2_1": False, "v2_2": None, "v2_3": True}, "releases.since", "2.3"),
    ],
)
@pytest.mark.parametrize("problem", ["slow", "wrong", "crash"])
def test_the_answer(shows: dict[str, bool | None], code: str, release: str | None, problem: str) -> None:
    told = finding(rows(**shows), problem)
    assert told.code == code
    assert told.facts.get("release") == release
    text = BOOK.text(told)
    assert code not in text
    assert all(name in text for name in told.facts["unknown"])

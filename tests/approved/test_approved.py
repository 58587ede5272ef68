"""What hasten says, compared whole with what was approved. After a change that is meant: `make approve`."""

from __future__ import annotations

import sys

import pytest

from tests.approved.cases import FOLDER, cases

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_output_is_as_approved(name: str) -> None:
    if name.endswith("-help.txt") and sys.version_info >= (3, 13):
        pytest.skip("argparse writes options in another way from Python 3.13 on")
    path = FOLDER / name
    approved = path.read_text(encoding="utf-8") if path.exists() else "nothing was approved: make approve\n"
    assert f"{CASES[name]()}\n" == approved


def test_no_output_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(CASES)


@pytest.mark.parametrize(
    "name", [name for name in CASES if name.endswith(".txt") and not (".verbose." in name or name.startswith("error-"))]
)
def test_output_fits_80_columns(name: str) -> None:
    wide = [line for line in CASES[name]().splitlines() if len(line) > 80]
    # A path or a name of most of a line stays whole, to be copied.
    assert [line for line in wide if max(map(len, line.split())) < 60] == []

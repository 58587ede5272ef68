"""Records come back from JSON as they went, from this release and from older ones."""

from __future__ import annotations

import enum
import json
import math
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.block import Block, Conditions
from hasten.core.codec import checked_from_data, from_data, key, record, to_data
from hasten.core.finding import Finding, Standing
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import Remark, remark, said


class Color(enum.Enum):
    RED = "red"


@record
class Part:
    name: str
    weight: float = key(null=math.inf)
    bounds: tuple[float, float] = (0.0, 1.0)


@record
class Whole:
    size_bytes: int = key("size")
    parts: tuple[Part, ...] = ()
    color: Color = Color.RED
    notes: tuple[Remark, ...] = ()
    levels: dict[int, float] = key(default_factory=dict)
    extra: Part | None = None


def through_json(value: Any) -> Any:
    return from_data(type(value), json.loads(json.dumps(to_data(value), allow_nan=False)))


numbers = st.floats(allow_nan=False, allow_infinity=False)
bounds = st.tuples(st.floats(max_value=0, allow_nan=False), st.floats(min_value=0, allow_nan=False, exclude_min=True))
parts = st.builds(Part, st.text(), numbers | st.just(math.inf), bounds)
remarks = st.builds(Remark, st.text(min_size=1), st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()))
wholes = st.builds(
    Whole,
    st.integers(),
    st.lists(parts).map(tuple),
    st.just(Color.RED),
    st.lists(remarks).map(tuple),
    st.dictionaries(st.integers(), numbers),
    st.none() | parts,
)


@given(wholes)
def test_every_record_comes_back(whole: Whole) -> None:
    assert through_json(whole) == whole


def test_keys_are_the_fields_or_what_they_are_told_to_be() -> None:
    data = to_data(Whole(3, (Part("a", math.inf),)))
    assert data["size"] == 3
    assert data["parts"] == [{"name": "a", "weight": None, "bounds": [0.0, 1.0]}]


def test_an_older_session_lacks_keys_and_a_newer_one_has_more() -> None:
    assert from_data(Whole, {"size": 3, "something_new": [1]}) == Whole(3)


def test_an_interval_that_is_open_is_null() -> None:
    part = Part("a", 1.0, (-math.inf, math.inf))
    assert to_data(part)["bounds"] == [None, None]
    assert through_json(part) == part


BOOK = Phrasebook({"many": Phrase("There are {count:count part}.", "Use fewer than {count}.")})


def test_with_a_phrasebook_words_stand_beside_code_and_facts() -> None:
    data = to_data(Whole(3, notes=(remark("many", count=2),)), BOOK)
    assert data["notes"] == [
        {
            "code": "many",
            "facts": {"count": 2},
            "text": "There are 2 parts.",
            "hint": "Use fewer than 2.",
            "reason": "many",
            "evidence": "There are 2 parts.",
        }
    ]


@pytest.mark.parametrize("finding", [Finding("threads", Standing.GOOD, remark("many", count=1))])
def test_findings_come_back(finding: Finding) -> None:
    assert from_data(Finding, json.loads(json.dumps(BOOK.finding_data(finding)))) == finding


def test_a_finding_of_an_older_session_keeps_its_sentences() -> None:
    old = {"practice": "threads", "verdict": "to do", "evidence": "2 are faster.", "what_to_do": "Use 2."}
    found = from_data(Finding, old)
    assert BOOK.text(found.remark) == "2 are faster."
    assert BOOK.hint(found.remark) == "Use 2."


def test_a_code_that_nobody_knows_is_shown_with_its_facts() -> None:
    assert BOOK.text(remark("newer.code", share=0.5)) == "newer.code: share 0.5"
    assert BOOK.text(said("As it was.")) == "As it was."


@record
class Given:
    name: str
    parts: tuple[Part, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    count: int | None = None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "name is missing"),
        ({"name": 1}, "name is 1"),
        ({"name": "x", "parts": {}}, "parts is {}"),
        ({"name": "x", "parts": [{"name": "p", "weight": True}]}, r"parts\[0\].weight is True"),
        ({"name": "x", "parts": [{"name": "p"}]}, r"parts\[0\].weight is missing"),
        ({"name": "x", "parts": [{"name": "p", "weight": math.nan}]}, r"parts\[0\].weight is nan"),
        ({"name": "x", "pairs": [["a", 1, 2]]}, r"pairs\[0\] is \['a', 1, 2\]"),
        ({"name": "x", "pairs": [["a", "1"]]}, r"pairs\[0\]\[1\] is '1'"),
        ({"name": "x", "count": "1"}, "count is '1'"),
    ],
)
def test_data_of_anybody_is_checked(data: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked_from_data(Given, data)


@pytest.mark.parametrize("count", [None, 3])
def test_checked_data_that_fits_becomes_the_record(count: int | None) -> None:
    whole = Given("x", (Part("p", 1.5),), (("a", 1),), count)
    assert checked_from_data(Given, json.loads(json.dumps(to_data(whole)))) == whole


def test_a_block_of_a_later_release_is_read_without_what_is_not_known_here() -> None:
    block = Block(1, 0.5, array("q", [10, 11]), Conditions(1.0, 0.9))
    data = to_data(block)
    data["conditions"]["known_later"] = 3.0
    assert to_data(from_data(Block, data)) == to_data(block)

"""Remarks on a view: each sentence once, a few of a kind, and what to do about them said once."""

from __future__ import annotations

from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.remark import Remark, remark, said
from hasten.show.blocks import Note, Notes, notes

BOOK = Phrasebook({"slow": Phrase("{name} is slow.", "Use another one."), "busy": Phrase("Busy.", "Wait.")})


def shown(remarks: list[Remark]) -> list[Note]:
    return [note for block in notes(remarks, BOOK) if isinstance(block, Notes) for note in block.rows]


def test_one_sentence_is_shown_once() -> None:
    assert shown([remark("busy")] * 10) == [Note("Busy.", "Wait.")]
    assert shown([said("An old sentence.")] * 2) == [Note("An old sentence.")]


def test_of_ten_alike_three_are_shown_and_the_others_counted() -> None:
    found = shown([remark("slow", name=f"trial {number}") for number in range(10)])
    assert [note.text for note in found] == [
        "trial 0 is slow.",
        "trial 1 is slow.",
        "trial 2 is slow.",
        "7 more like these; --json lists them.",
    ]
    assert [note.hint for note in found] == ["", "", "Use another one.", ""]


def test_what_is_said_of_others_stays_apart() -> None:
    found = shown([remark("slow", name="a"), remark("busy"), remark("slow", name="b"), said("One."), said("Two.")])
    assert [note.text for note in found] == ["a is slow.", "b is slow.", "Busy.", "One.", "Two."]


def test_nothing_to_say_is_no_block() -> None:
    assert notes([], BOOK) == []

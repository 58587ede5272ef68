"""What a retraining comes to: a head that has learned something, and one that is not known to have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.core.finding import Standing
from hasten.retraining import words
from hasten.retraining.facts import ClassRow, RetrainFound
from hasten.retraining.rules import finding_of
from hasten.retraining.view import view
from hasten.show.blocks import Headline, Snippet
from tests.unit.retraining import examples


def by_chance() -> RetrainFound:
    """Better than the class that is most common in training, which the test data hardly has; not than chance."""
    found = examples.typical()
    classes = tuple(ClassRow(name, 8, 5, 1, 5) for name in "abcd")
    scores = replace(found.accuracy, test=0.35, interval=(0.18, 0.57), test_right=7, test_samples=20)
    return replace(found, classes=classes, accuracy=scores, baselines=found.baselines[:1])


@pytest.mark.parametrize(
    ("found", "code"), [(examples.odd(), words.BY_MAJORITY), (by_chance(), words.BY_CHANCE)], ids=["majority", "chance"]
)
def test_what_has_not_learned_is_not_to_be_made_fast(found: RetrainFound, code: str) -> None:
    finding = finding_of(found)
    assert (finding.standing, finding.remark.code) == (Standing.UNDECIDED, code)
    blocks = view(found)
    assert isinstance(blocks[0], Headline)
    assert words.BOOK.hint(finding.remark) in blocks[0].text
    commands = [block.text for block in blocks if isinstance(block, Snippet)]
    assert commands == ["hasten choose --list"]


def test_what_has_learned_is_made_fast_next() -> None:
    found = examples.typical()
    assert finding_of(found).standing is Standing.IMPROVED
    (command,) = [block.text for block in view(found) if isinstance(block, Snippet)]
    assert command.startswith("hasten tune mine.tflite")


def test_several_classes_of_a_sample_have_no_such_chance() -> None:
    assert finding_of(replace(by_chance(), multi_label=True)).standing is Standing.IMPROVED

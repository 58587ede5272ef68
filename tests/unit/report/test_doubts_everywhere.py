"""Whatever reason there is to doubt a number of a record is on the terminal, on the page and in JSON, each once."""

from __future__ import annotations

import dataclasses
import json
from array import array
from typing import Any

import pytest
from tests.approved.cases import examples

from hasten import api
from hasten.core import doubts
from hasten.core.block import Block, Conditions
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark, remark, said
from hasten.core.session import Line, Session
from hasten.core.sustained import SustainedFound, sustained_from_blocks
from hasten.core.trial import trial_data
from hasten.practices.quantize.facts import QuantizeFound
from hasten.search.facts import TuneFound
from hasten.show.blocks import Notes, doubt_notes
from hasten.show.terminal import terminal_text

# Words that no other sentence has, so that finding them means that this doubt is shown.
# They are graver than any doubt that the samples of an example raise themselves.
GRAVE = {**dict.fromkeys(("half_width", "cores", "share", "rise", "spread", "cost"), 1e9), "runs": -1, "seen": -1}
PLANTED = {
    code: Remark(code, {**said(f"planted {code} evidence", code, "planted hint").facts, **GRAVE})
    for code in doubts.PHRASES
}
FIELDS = ("doubts", "other_doubts")


def planted(value: Any, *also: Remark) -> Any:
    """The value, with every doubt that there is wherever a record of it has doubts."""
    if isinstance(value, tuple):
        return tuple(planted(entry, *also) for entry in value)
    if isinstance(value, dict):
        return {name: planted(entry, *also) for name, entry in value.items()}
    if not dataclasses.is_dataclass(value) or isinstance(value, type | Remark):
        return value
    names = [field.name for field in dataclasses.fields(value) if field.init]
    return dataclasses.replace(
        value,
        **{
            name: (*PLANTED.values(), *also) if name in FIELDS else planted(getattr(value, name), *also)
            for name in names
        },
    )


def has_doubts(value: Any) -> bool:
    return bool(planted(value) != value)


EXAMPLES = {name: make for name, make in examples() if has_doubts(make())}


def lines_of(found: object) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a record; a search keeps its trials."""
    if isinstance(found, TuneFound):
        return [("trial", trial.id, trial_data(trial)) for trial in (found.original, found.best)]
    if isinstance(found, QuantizeFound):
        return [("variant", trial.variant, trial_data(trial)) for trial in found.trials]
    return api.session_lines(found)


def page_of(found: object) -> str:
    lines = tuple(Line(kind, label, "2026-01-01T00:00:00", data) for kind, label, data in lines_of(found))
    return api.session_report(Session({}, lines), "md")


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_every_command_that_measures_has_an_example() -> None:
    commands = {name.partition("-")[0] for name in EXAMPLES}
    measuring = {
        "accelerators",
        "app",
        "bench",
        "choose",
        "compare",
        "copies",
        "explanation",
        "gate",
        "profile",
        "quantize",
        "search",
    }
    assert commands >= {*measuring, "sustained", "threads"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_doubt_is_on_the_terminal_and_in_json(name: str) -> None:
    found = planted(EXAMPLES[name]())
    shown, document = one_line(terminal_text(api.blocks(found))), json.dumps(api.document(found), ensure_ascii=False)
    for doubt in PLANTED.values():
        if doubt.code == doubts.MORE_CORES and name.startswith("accelerators"):
            continue  # it stands with its row; see the test of that
        words = doubt.facts["text"]
        assert words in shown, "not on the terminal"
        assert shown.count(words) == 1, "said twice"
        assert words in document, "not in JSON"


def is_measured(found: object) -> bool:
    """Whether a session keeps more of it than a verdict: the doctor's figures are not a page of their own."""
    return any(kind != "finding" for kind, _, _ in lines_of(found))


@pytest.mark.parametrize("name", [name for name, make in EXAMPLES.items() if is_measured(make())])
def test_every_doubt_is_on_the_page(name: str) -> None:
    page = page_of(planted(EXAMPLES[name]()))
    assert not [doubt.code for doubt in PLANTED.values() if doubt.facts["text"] not in page.replace("\\", "")]


def text_of(named: dict[str, list[Remark]]) -> list[str]:
    (block,) = doubt_notes(named, doubts.DOUBTS)
    assert isinstance(block, Notes)
    return [note.text for note in block.rows]


def test_a_doubt_of_several_figures_is_said_once_with_the_gravest_facts() -> None:
    named = {name: [remark(doubts.OTHER_LOAD, cores=cores)] for name, cores in (("a", 0.4), ("b", 1.9), ("c", 1.0))}
    assert text_of(named) == ["Other processes kept up to 1.9 cores busy during the measurement."]
    few = {name: [remark(doubts.FEW_SAMPLES, runs=runs)] for name, runs in (("a", 20), ("b", 3))}
    assert text_of(few) == ["As few as 3 runs were timed."]
    shares = {name: [remark(doubts.OUTLIERS, share=share)] for name, share in (("a", 0.3), ("b", 0.2), ("c", 0.2))}
    assert text_of(shares) == ["Up to 30 % of the runs were outliers, far slower than the rest."]
    wide = {name: [remark(doubts.NOISY, half_width=width)] for name, width in (("a", 0.1), ("b", 5.53))}
    assert text_of({**wide, "c": []}) == ["a, b: The measurement is noisy: the 95 % CI is up to ±553 %."]


def test_a_doubt_of_some_figures_names_them() -> None:
    named: dict[str, list[Remark]] = {name: [] for name in "abcdef"}
    busy = remark(doubts.OTHER_LOAD, cores=1.0)
    assert text_of({**named, "b": [busy]}) == ["b: Other processes kept 1.0 cores busy during the measurement."]
    most = {name: [busy] for name in "abcde"}
    assert text_of({**named, **most})[0].startswith("a, b, c and 2 more: Other processes")


def test_a_long_run_beside_other_processes_says_so_and_does_not_blame_the_heat() -> None:
    def found(**conditions: Any) -> Any:
        blocks = [
            Block(0, second, array("q", [1_000_000 if second < 60 else 1_300_000] * 20), Conditions(0.02, **conditions))
            for second in range(0, 240, 2)
        ]
        return SustainedFound(Model("folder/model.tflite", 100, ""), Plan(), sustained_from_blocks(blocks, 60.0))

    assert "throttles after 60 s" in terminal_text(api.blocks(found()))
    busy = found(other_cores_busy=1.5)
    shown = one_line(terminal_text(api.blocks(busy)))
    assert "throttles" not in shown
    assert "Other work on this machine may be the cause." in shown
    assert "Other processes kept 1.5 cores busy" in shown
    assert api.document(busy)["sustained"]["doubts"][0]["code"] == doubts.OTHER_LOAD

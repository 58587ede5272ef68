"""A tuning that is asked to also compares its result with other models, and its verdict says what came of it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from simulated import candidate

from hasten.core.codec import to_data
from hasten.core.errors import UsageError
from hasten.core.failure import Failure
from hasten.core.finding import Finding, Standing
from hasten.core.limits import Limit
from hasten.data.request import Data
from hasten.measure.rounds import Candidate, FailedCandidate
from hasten.model.reader import read_graph
from hasten.practices.choose.rules import finding_of
from hasten.practices.practice import Evidence
from hasten.search.full_practices import FullPractices
from hasten.search.settings import SearchSettings
from hasten.search.tuning import nine_findings
from tests.example_models import mobilenet_like, one_operator
from tests.unit.fake_target import FakeTarget
from tests.unit.practices.choose import examples
from tests.unit.search.examples import typical

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hasten.practices.choose.facts import ChooseRequest


class Folder:
    """Keeps the lines that a tuning saves."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def keep(self, kind: str, label: str, data: dict[str, Any]) -> None:
        self.lines.append((kind, label, data))

    def save_in_full(self, finding: Finding, about: Candidate) -> None:
        self.keep("in-full", finding.practice, to_data(finding))

    def keep_all(self, lines: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        self.lines += lines


class Target(FakeTarget):
    name = "none"

    def start(self, plan: object) -> Any:
        raise AssertionError("nothing runs here")


@pytest.fixture
def extras() -> FullPractices:
    folder: Any = Folder()
    target: Any = Target()
    return FullPractices(target, folder, time.monotonic() + 60.0, lambda text: None)


def asked(extras: FullPractices, monkeypatch: pytest.MonkeyPatch, outcome: object) -> list[ChooseRequest]:
    """Let the choice come to this; what it was asked for."""
    requests: list[ChooseRequest] = []

    def run(request: ChooseRequest, *_: object) -> object:
        requests.append(request)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr("hasten.search.full_practices.run_choose", run)
    return requests


def choose(extras: FullPractices, folder: Path, model: bytes, *candidates: str) -> None:
    path = folder / "model.tflite"
    path.write_bytes(model)
    settings = SearchSettings(candidates=candidates, limit=Limit(size_bytes=5_000_000))
    extras.choose(candidate("model"), read_graph(path), Data("images"), settings)


def kinds(extras: FullPractices) -> list[str]:
    folder: Any = extras.folder
    return [kind for kind, _, _ in folder.lines]


def test_the_verdict_is_that_of_the_choice(
    extras: FullPractices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests = asked(extras, monkeypatch, examples.own())
    choose(extras, tmp_path, mobilenet_like(8, 1), "other.tflite")
    assert extras.findings["choose"].standing is Standing.TO_DO
    assert kinds(extras) == ["finding", "choose", "in-full"]
    (request,) = requests
    assert request.candidates == ("model.tflite", "other.tflite")
    assert (request.own, request.data, request.with_catalogue) == ("model.tflite", Data("images"), False)
    assert request.limits.size_bytes == 5_000_000


def test_without_files_an_image_classifier_meets_the_catalogue(
    extras: FullPractices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests = asked(extras, monkeypatch, examples.own_among_published())
    monkeypatch.chdir(tmp_path)
    choose(extras, tmp_path, mobilenet_like(8, 1))
    choose(extras, tmp_path, mobilenet_like(8, 1, dtype="int8"))
    assert extras.findings["choose"].standing is Standing.UNDECIDED
    assert [(one.task, one.data) for one in requests] == [("image-classification", Data())] * 2
    assert [one.precisions for one in requests] == [("float32",), ("int8",)]


def test_a_model_of_another_kind_meets_nothing(
    extras: FullPractices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert asked(extras, monkeypatch, None) == []
    choose(extras, tmp_path, one_operator())
    assert extras.findings == {}


@pytest.mark.parametrize(
    "outcome",
    [
        UsageError("There is no model to choose from."),
        Failure("start", "target", "no answer"),
        FailedCandidate(candidate("model"), Failure("load", "engine", "it does not load")),
    ],
)
def test_trouble_is_saved_and_costs_nothing_else(
    extras: FullPractices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: object
) -> None:
    asked(extras, monkeypatch, outcome)
    choose(extras, tmp_path, mobilenet_like(8, 1), "other.tflite")
    assert kinds(extras) == ["failure"]
    assert extras.findings == {}


def test_only_known_practices_can_be_asked_for() -> None:
    assert SearchSettings(also=("choose",)).also == ("choose",)
    with pytest.raises(UsageError):
        SearchSettings(also=("cooking",))


def test_the_ninth_verdict_is_no_longer_not_examined() -> None:
    tuned = typical()
    known = Evidence([tuned.original, tuned.best], tuned.best, tuned.original)
    assert nine_findings(known)[0].standing is Standing.NOT_EXAMINED
    given = replace(known, given={"choose": finding_of(examples.own())})
    assert nine_findings(given)[0].standing is Standing.TO_DO

"""What a search may claim: only what its data shows, of the samples and outputs that were looked at, now or before."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.api import Data, Effort, SearchSettings, document, quantize, tune
from hasten.core.accuracy import Kind
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.failure import Failure
from hasten.core.floor import FloorState
from hasten.core.goal import Goal
from hasten.core.remark import remark
from hasten.core.session import read_session
from hasten.core.trial import ORIGINAL
from hasten.evaluate import words
from hasten.evaluate.evaluation import Skipped
from hasten.evaluate.run import evaluate
from hasten.search import accuracy, quantizing
from hasten.search.folder import CHOSEN, QUANTIZE, SESSION, SearchFolder
from hasten.search.settings import DATA_CONTENT
from hasten.variants.maker_process import VariantMaker
from tests.example_models import mobilenet_like
from tests.model_builder import ModelBuilder

if TYPE_CHECKING:
    from hasten.practices.quantize.facts import QuantizeFound

SOURCE = np.random.default_rng(0)
# Plain colors: noise alone would always get the same answer.
INPUTS = (SOURCE.normal(0, 4, (24, 1, 1, 3)) * np.ones((1, 16, 16, 1))).astype(np.float32)
FLOAT16 = SearchSettings(recipes=("float16",), mix=False, max_drop=0.5)
QUICK = Effort(0.1)
STATIC = replace(FLOAT16, recipes=("static_int8_min_max",))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16))
    return path


def arrays(folder: Path, **values: Any) -> Data:
    np.savez(folder / "data.npz", **values)
    return Data(str(folder / "data.npz"))


def codes(found: QuantizeFound) -> list[str]:
    return [note.code for note in found.notes]


@pytest.mark.slow
def test_data_that_has_changed_is_refused_where_a_search_goes_on(tiny: Path, tmp_path: Path) -> None:
    data = arrays(tmp_path, x=INPUTS)
    quantize(tiny, tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
    arrays(tmp_path, x=INPUTS[::-1])
    with pytest.raises(UsageError, match=r"data\.npz has changed since the search"):
        quantize(tiny, tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
    arrays(tmp_path, x=INPUTS)
    assert quantize(tiny, tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK).resumed


def test_a_search_from_before_contents_were_recorded_goes_on_with_a_doubt(tmp_path: Path) -> None:
    SearchFolder(tmp_path / "out", QUANTIZE, {"data": "d.npz"}).close()
    again = SearchFolder(tmp_path / "out", QUANTIZE, {"data": "d.npz", DATA_CONTENT: "ab"})
    assert list(again.notes) == [remark("search.content-not-recorded", name="d.npz")]
    again.close()


def test_labels_that_do_not_fit_let_nothing_be_chosen(tiny: Path, tmp_path: Path) -> None:
    data = arrays(tmp_path, x=INPUTS, y=np.full(24, 5))  # which it never answers
    found = quantize(tiny, tmp_path / "out", data=data, settings=replace(FLOAT16, goal=Goal.SIZE), effort=QUICK)
    assert found.chosen == ORIGINAL
    assert found.trials[1].floor is FloorState.UNKNOWN
    assert found.original.why == remark(words.BY_CHANCE)
    (doubt,) = [note for note in found.notes if note.code == words.GUESSING]
    assert (doubt.facts["right"], doubt.facts["samples"]) == (0, 12)
    assert "chance" in document(found)["why"]


@pytest.mark.slow
def test_a_handful_of_samples_lets_nothing_be_chosen(tiny: Path, tmp_path: Path) -> None:
    found = quantize(
        tiny, tmp_path / "out", data=arrays(tmp_path, x=INPUTS[:8]), settings=replace(FLOAT16, goal=Goal.SIZE)
    )
    assert found.chosen == ORIGINAL
    assert found.original.why == remark(words.TOO_FEW, samples=4)


@pytest.mark.slow
def test_doubts_and_what_was_left_out_come_back_with_a_search(tiny: Path, tmp_path: Path) -> None:
    inputs = INPUTS.copy()
    inputs[[5, 6, 7, 8]] = np.nan
    data, settings = replace(arrays(tmp_path, x=inputs), skip_bad=True), replace(STATIC, max_drop=0.01)
    found = quantize(tiny, tmp_path / "out", data=data, settings=settings, effort=QUICK)
    again = quantize(tiny, tmp_path / "out", data=data, settings=settings, effort=QUICK)
    assert len(found.skipped) == 4
    assert again.skipped == found.skipped
    assert {words.COARSE, words.FEW} & set(codes(found))
    assert again.notes[1:] == found.notes
    assert again.floor == found.floor != {}


@pytest.mark.slow
def test_a_variant_is_judged_on_the_samples_of_the_original(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original fails on some samples that the variant can answer."""

    def without_some(target: Any, candidate: Any, *arguments: Any, **options: Any) -> Any:
        found = evaluate(target, candidate, *arguments, **options)
        if candidate.label == "float16" or isinstance(found, Failure):
            return found
        return replace(
            found,
            positions=found.positions[2:],
            names=found.names[2:],
            statistics=found.statistics[2:],
            accuracy=replace(found.accuracy, samples=len(found.positions) - 2),
        )

    monkeypatch.setattr(accuracy, "evaluate", without_some)
    data = replace(arrays(tmp_path, x=INPUTS), skip_bad=True)
    found = quantize(tiny, tmp_path / "out", data=data, settings=replace(FLOAT16, max_drop=0.0), effort=QUICK)
    original, variant = found.trials
    assert original.reporting is not None
    assert variant.choosing is not None
    assert variant.reporting is not None
    assert original.reporting.samples == variant.reporting.samples == variant.choosing.samples == 10
    shown = document(found)["variants"][1]
    assert (shown["choosing"]["samples"], shown["drop"]) == (10, 0.0)


def test_a_variant_that_cannot_answer_what_the_original_can_has_failed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_gaps(target: Any, candidate: Any, *arguments: Any, **options: Any) -> Any:
        found = evaluate(target, candidate, *arguments, **options)
        if candidate.label != "float16" or isinstance(found, Failure):
            return found
        bad = Skipped(found.names[0], f"the model answered {found.names[0]} with NaN")
        return replace(found, skipped=(bad,))

    monkeypatch.setattr(accuracy, "evaluate", with_gaps)
    data = replace(arrays(tmp_path, x=INPUTS), skip_bad=True)
    found = quantize(tiny, tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
    assert found.trials[1].floor is FloorState.FAILED
    assert "with NaN" in found.trials[1].why.facts["message"]


def two_outputs(folder: Path) -> Path:
    """A class, and numbers of which one needs a range that leaves nothing of the others in eight bits."""
    g = ModelBuilder(11)
    hidden = g.fully_connected(g.input("x", (1, 32)), 64, activation="relu")
    g.output(g.softmax(g.fully_connected(hidden, 4)), "cls")
    scale = g.constant(np.array([[3000, 1, 1, 1, 1, 1, 1, 1]], np.float32))
    scaled = g.mul(g.fully_connected(hidden, 8), scale)
    g.output(g.add(scaled, scaled), "reg")
    path = folder / "two.tflite"
    g.write(path)
    return path


@pytest.mark.slow
def test_an_output_that_no_metric_looks_at_must_not_be_ruined(tmp_path: Path) -> None:
    data = arrays(tmp_path, x=SOURCE.normal(size=(40, 32)).astype(np.float32))
    settings = replace(STATIC, recipes=("float16", "static_int8_min_max"))
    found = quantize(two_outputs(tmp_path), tmp_path / "out", data=data, settings=settings, effort=QUICK)
    _, float16, static = found.trials
    assert float16.floor is FloorState.KEPT
    assert static.floor is FloorState.BROKEN
    assert static.why.code == "trial.ruined-output"
    assert (static.why.facts["judged"], static.why.facts["output"]) == ("cls", "reg")
    assert remark("search.one-output-judged", output="cls", count=2, metric="top-1") in found.notes


@pytest.mark.slow
def test_an_error_without_labels_is_a_part_of_the_size_of_the_outputs(tiny: Path, tmp_path: Path) -> None:
    settings = replace(FLOAT16, max_drop=0.01)
    data = replace(arrays(tmp_path, x=INPUTS), metric="mae")
    found = quantize(tiny, tmp_path / "out", data=data, settings=settings, effort=QUICK)
    assert found.trials[1].floor is FloorState.KEPT
    floor = document(found)["floor"]
    assert floor["kind"] == "relative"
    assert floor["allowed"] == pytest.approx(0.01 * floor["relative_to"])
    assert "mean magnitude of the outputs" in floor["text"]


def test_hidden_files_are_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").write_bytes(b"")
    SearchFolder(tmp_path, QUANTIZE, {}).close()
    (tmp_path / "Thumbs.db").write_bytes(b"")
    again = SearchFolder(tmp_path, QUANTIZE, {})
    assert again.resumed
    again.close()


def test_the_chosen_model_is_copied_only_where_it_changes(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Path] = []
    copy = shutil.copyfile

    def count(source: Path, place: Path) -> None:
        copies.append(source)
        copy(source, place)

    monkeypatch.setattr(shutil, "copyfile", count)
    data = arrays(tmp_path, x=INPUTS)
    for _ in range(2):
        quantize(tiny, tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
    chosen = [trial.label for trial in read_session(tmp_path / "out" / SESSION).lines if trial.kind == "chosen"]
    assert len(copies) == len(dict.fromkeys(chosen))
    (tmp_path / "out" / CHOSEN).unlink()
    quantize(tiny, tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
    assert (tmp_path / "out" / CHOSEN).is_file()


def test_a_full_disk_is_told_as_such(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, place: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(DataError, match=r"No space left on device\. Everything found so far is saved\.") as raised:
        quantize(tiny, tmp_path / "out", data=arrays(tmp_path, x=INPUTS), settings=FLOAT16, effort=QUICK)
    assert "Make room" in raised.value.hint
    assert raised.value.found.original.variant


def test_a_bundle_that_finds_no_room_costs_no_result(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise DataError("The bundle cannot be written.") from OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hasten.search.tuning.write_bundle", full)
    with pytest.raises(DataError, match="Everything found so far is saved") as raised:
        tune(tiny, tmp_path / "out", data=arrays(tmp_path, x=INPUTS), settings=FLOAT16, effort=QUICK)
    assert "--resume" in raised.value.hint
    assert raised.value.found.original.latency is not None


def test_a_disk_that_is_full_while_variants_are_made_is_not_a_recipes_fault(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ModelError("something odd")

    def full(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if path.name == ".making.tflite" and mode == "ab":
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, mode, *arguments, **options)

    opened = Path.open
    monkeypatch.setattr(VariantMaker, "make", fail)
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DataError, match="No space left"):
        quantize(tiny, tmp_path / "out", data=arrays(tmp_path, x=INPUTS), settings=FLOAT16, effort=QUICK)


def test_a_quantized_model_is_run_and_judged_before_it_is_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "int8.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16, dtype="int8"))
    found = quantize(path, tmp_path / "out", data=arrays(tmp_path, x=INPUTS), settings=FLOAT16, effort=QUICK)
    assert found.already.code == "quantize.already"
    assert found.original.latency is not None
    assert found.original.reporting is not None
    assert found.original.reporting.kind is Kind.AGREEMENT


def test_a_quantized_model_that_does_not_run_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Failure:
        return Failure("load", "engine", "LiteRT refuses it")

    path = tmp_path / "int8.tflite"
    path.write_bytes(mobilenet_like(8, 1, 16, dtype="int8"))
    monkeypatch.setattr(quantizing, "bench", refused)
    with pytest.raises(ModelError, match="LiteRT refuses it"):
        quantize(path, tmp_path / "out", settings=FLOAT16, effort=QUICK)
    assert not (tmp_path / "out" / CHOSEN).exists()

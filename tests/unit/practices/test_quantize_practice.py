"""The search for variants: real runs on a tiny model, its folder, its halves of the data; interrupted and resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.core.accuracy import Kind
from hasten.core.comparison import Verdict
from hasten.core.errors import DataError, UsageError
from hasten.core.failure import Failure
from hasten.core.plan import Plan, Workload
from hasten.core.quantization import KEPT, ORIGINAL, UNKNOWN, VariantRow
from hasten.core.session import read_session
from hasten.data.dataset import Dataset, Sample
from hasten.demo import MODEL
from hasten.evaluate.fingerprint import file_hash
from hasten.evaluate.run import evaluate
from hasten.evaluate.split import halves
from hasten.explain import node_gains
from hasten.library import quantize, run_quantize, study_quantize
from hasten.model.example_models import mobilenet_like
from hasten.practices import quantize_judge
from hasten.practices.quantize import run as practice_module
from hasten.practices.quantize_folder import CHOSEN, SESSION, QuantizeFolder
from hasten.practices.quantize_records import QuantizeResult, QuantizeSettings
from hasten.variants.maker import VariantMaker
from hasten.variants.pruning import prune_variant

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = QuantizeSettings(recipes=("float16", "static_int8"), seconds=0.1, mix=False, max_drop=0.5)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model and inputs for it, without labels."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    colours = np.random.default_rng(0).normal(0, 4, (24, 1, 1, 3))  # noise alone would always get the same answer
    values = (colours * np.ones((1, 16, 16, 1))).astype(np.float32)
    np.savez(folder / "inputs.npz", x=values)
    return folder


@pytest.fixture(scope="module")
def found(place: Path) -> QuantizeResult:
    return quantize(place / "tiny.tflite", place / "out", data=str(place / "inputs.npz"), settings=SETTINGS)


def test_each_recipe_has_a_row_with_size_agreement_and_latency(found: QuantizeResult) -> None:
    assert [row.recipe for row in found.rows] == [ORIGINAL, "float16", "static_int8"]
    for row in found.rows[1:]:
        assert row.size_bytes < found.rows[0].size_bytes
        assert row.accuracy is not None
        assert row.accuracy.kind is Kind.AGREEMENT
        assert row.accuracy.samples == 12
        assert row.latency is not None
        assert row.against is not None
    assert found.rows[1].floor == KEPT
    assert any("choosing half" in note for note in found.notes)


def test_everything_is_on_the_disk(found: QuantizeResult, place: Path) -> None:
    names = sorted(path.name for path in (place / "out").iterdir())
    assert names == [CHOSEN, "float16.tflite", SESSION, "static_int8.tflite"]
    kinds = [trial.kind for trial in read_session(place / "out" / SESSION).trials]
    assert {"settings", "variant", "measurement", "chosen"} <= set(kinds)
    chosen = next(row for row in found.rows if row.recipe == found.chosen)
    assert file_hash(place / "out" / CHOSEN) == chosen.sha256
    json.dumps(found.as_data(), allow_nan=False)


def test_a_rerun_makes_nothing_anew(found: QuantizeResult, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("this was done before")

    monkeypatch.setattr(VariantMaker, "make", refuse)
    monkeypatch.setattr(quantize_judge, "evaluate", refuse)
    monkeypatch.setattr(practice_module, "race", refuse)
    again = quantize(place / "tiny.tflite", place / "out", data=str(place / "inputs.npz"), settings=SETTINGS)
    assert again.rows == found.rows
    assert again.resumed
    assert any("went on" in note for note in again.notes)


def test_other_settings_are_refused_in_the_same_folder(found: QuantizeResult, place: Path) -> None:
    other = replace(SETTINGS, max_drop=0.25)
    with pytest.raises(UsageError, match=r"another largest drop: 0\.5, not 0\.25"):
        study_quantize(place / "tiny.tflite", place / "out", data=str(place / "inputs.npz"), settings=other)
    shaped = Workload(shapes=(("x", (1, 8, 8, 3)),))
    with pytest.raises(UsageError, match="another shape: as in the file, not x=1x8x8x3"):
        study_quantize(
            place / "tiny.tflite", place / "out", Plan(), shaped, data=str(place / "inputs.npz"), settings=SETTINGS
        )


def test_an_interruption_leaves_a_model_and_the_rerun_goes_on(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(share: float, text: str) -> None:
        if text.startswith("judging static_int8"):
            raise KeyboardInterrupt

    settings = replace(SETTINGS, recipes=("float16", "static_int8"))
    data = str(place / "inputs.npz")
    practice = study_quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=settings)
    with pytest.raises(KeyboardInterrupt):
        run_quantize(practice, press)
    assert practice.found().chosen == ORIGINAL
    assert (tmp_path / "out" / CHOSEN).read_bytes() == (place / "tiny.tflite").read_bytes()

    made = []

    make = VariantMaker.make

    def count(self: VariantMaker, recipe: str, *arguments: Any, **options: Any) -> Any:
        made.append(recipe)
        return make(self, recipe, *arguments, **options)

    monkeypatch.setattr(VariantMaker, "make", count)
    again = quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=settings)
    assert made == ["static_int8"]
    assert [row.recipe for row in again.rows] == [ORIGINAL, "float16", "static_int8"]
    assert all(row.latency is not None for row in again.rows)


def test_an_interruption_while_timing_keeps_what_is_decided(place: Path, tmp_path: Path) -> None:
    def press(share: float, text: str) -> None:
        if "round 4" in text:
            raise KeyboardInterrupt

    settings = replace(SETTINGS, recipes=("float16", "static_int16"), seconds=30.0)
    practice = study_quantize(
        place / "tiny.tflite", tmp_path / "out", data=str(place / "inputs.npz"), settings=settings
    )
    with pytest.raises(KeyboardInterrupt):
        run_quantize(practice, press)
    rows = {row.recipe: row for row in practice.found().rows}
    assert rows[ORIGINAL].latency is not None
    decided = rows["static_int16"].against  # many times slower, which three rounds show
    assert decided is None or decided.verdict is not Verdict.UNDECIDED
    assert rows["float16"].against is None or rows["float16"].against.verdict is not Verdict.UNDECIDED
    again = quantize(
        place / "tiny.tflite", tmp_path / "out", data=str(place / "inputs.npz"), settings=replace(settings, seconds=1.0)
    )
    timed_again = rows["float16"].against is None  # a race that went to its end says more of the original
    assert (again.rows[0].latency != rows[ORIGINAL].latency) == timed_again


def test_without_data_accuracy_is_unknown_and_the_original_stays(place: Path, tmp_path: Path) -> None:
    found = quantize(place / "tiny.tflite", tmp_path / "out", settings=replace(SETTINGS, recipes=("float16",)))
    assert found.rows[1].floor == UNKNOWN
    assert found.chosen == ORIGINAL
    assert any("accuracy is unknown" in note for note in found.notes)


def test_a_variant_that_cannot_be_made_is_a_row_with_its_reason(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DataError("it cannot be done")

    monkeypatch.setattr(VariantMaker, "make", fail)
    found = quantize(
        place / "tiny.tflite",
        tmp_path / "out",
        data=str(place / "inputs.npz"),
        settings=replace(SETTINGS, recipes=("float16",)),
    )
    assert (found.rows[1].floor, found.rows[1].why) == ("failed", "it cannot be done")
    assert found.chosen == ORIGINAL


def test_a_variant_that_crashes_leaves_no_file_and_the_folder_usable(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(target: Any, candidate: Any, *arguments: Any, **options: Any) -> Any:
        if candidate.label == "float16":
            return Failure("evaluate", "crash", "the runner died")
        return evaluate(target, candidate, *arguments, **options)

    monkeypatch.setattr(quantize_judge, "evaluate", crash)
    settings = replace(SETTINGS, recipes=("float16",))
    for _ in range(2):
        found = quantize(place / "tiny.tflite", tmp_path / "out", data=str(place / "inputs.npz"), settings=settings)
        assert (found.rows[1].floor, found.rows[1].path) == ("failed", "")
        assert "the runner died" in found.rows[1].why
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [CHOSEN, SESSION]


def test_pruned_variants_are_judged_and_their_kernels_named(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_gains, "SECONDS", 0.6)
    settings = replace(SETTINGS, recipes=(), prune=(0.8,))
    found = quantize(place / "tiny.tflite", tmp_path / "out", data=str(place / "inputs.npz"), settings=settings)
    zeroed, sparse = found.rows[1:]
    assert (zeroed.recipe, sparse.recipe) == ("pruned_80", "pruned_80_sparse")
    assert zeroed.zipped_bytes < found.rows[0].zipped_bytes
    assert all(row.against is not None and row.choosing is not None for row in (zeroed, sparse))
    assert any("no sparse path is taken" in note for note in zeroed.notes)
    assert any("other kernels than before (built-in kernel)" in note for note in sparse.notes)


def test_zeros_in_the_model_are_noted_with_what_they_are_worth(place: Path, tmp_path: Path) -> None:
    prune_variant(place / "tiny.tflite", 0.9, tmp_path / "sparse.tflite")
    found = quantize(
        tmp_path / "sparse.tflite",
        tmp_path / "out",
        data=str(place / "inputs.npz"),
        settings=replace(SETTINGS, recipes=("float16",)),
    )
    assert any("weights are zero" in note and "sparse path is not taken" in note for note in found.notes)


def test_what_cannot_be_pruned_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be pruned"):
        QuantizeSettings(prune=(1.0,))


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        QuantizeSettings(recipes=("int9",))
    assert "static_int8" in raised.value.hint


def test_halves_share_nothing_and_are_always_the_same() -> None:
    samples = [Sample(str(number), (np.zeros(1),)) for number in range(11)]
    dataset = Dataset("numbers", samples, labelled=False)
    first, second = ([sample.name for _, sample in half.drawn()] for half in halves(dataset, None))
    assert sorted(first + second, key=int) == [str(number) for number in range(11)]
    assert [half.count for half in halves(dataset, 5)] == [3, 2]
    assert [sample.name for _, sample in halves(dataset, None)[0].drawn()] == first
    with pytest.raises(UsageError, match="--samples 1 is too few"):
        halves(dataset, 1)
    with pytest.raises(DataError, match="numbers has only 1 sample: a choice needs at least 2"):
        halves(replace(dataset, samples=samples[:1]), None)


def test_a_stream_is_split_by_turns() -> None:
    dataset = Dataset("stream", lambda: (Sample(str(number), ()) for number in range(9)), labelled=False)
    first, second = ([sample.name for _, sample in half.drawn()] for half in halves(dataset, 7))
    assert (first, second) == (["0", "2", "4", "6"], ["1", "3", "5"])
    with pytest.raises(DataError, match="stream has only 1 sample: a choice needs at least 2"):
        halves(replace(dataset, samples=lambda: iter([Sample("0", ())])), None)


def test_a_folder_with_foreign_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"letter\.txt"):
        QuantizeFolder(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_variant_that_somebody_changed_is_refused(tmp_path: Path) -> None:
    folder = QuantizeFolder(tmp_path / "out", {"model": "m"})
    folder.making.write_bytes(b"one")
    row = VariantRow("float16", str(tmp_path / "out" / "float16.tflite"), file_hash(folder.making))
    folder.place(row)
    folder.close()
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    again = QuantizeFolder(moved, {"model": "m"})
    assert again.has_file_of(again.rows["float16"])
    again.close()
    (moved / "float16.tflite").write_bytes(b"two")
    with pytest.raises(UsageError, match=r"another float16\.tflite"):
        QuantizeFolder(moved, {"model": "m"})


def test_a_second_run_in_the_same_folder_is_kept_out_while_the_first_is_at_work(tmp_path: Path) -> None:
    first = QuantizeFolder(tmp_path / "out", {"model": "m"})
    with pytest.raises(UsageError, match="another run is at work"):
        QuantizeFolder(tmp_path / "out", {"model": "m"})
    first.close()
    QuantizeFolder(tmp_path / "out", {"model": "m"}).close()


def test_the_session_of_another_command_is_refused(tmp_path: Path) -> None:
    (tmp_path / SESSION).write_text('{"hasten_session": 1, "command": "bench"}\n')
    with pytest.raises(UsageError, match="another command"):
        QuantizeFolder(tmp_path, {})


def test_a_place_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="cannot be used"):
        QuantizeFolder(tmp_path / "out", {})


def test_the_model_itself_is_never_written(found: QuantizeResult, place: Path) -> None:
    assert (place / "tiny.tflite").read_bytes() == mobilenet_like(8, 1, 16)
    assert MODEL.is_file()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_drop": float("nan")}, "largest drop"),
        ({"max_drop": -1.0}, "largest drop"),
        ({"seconds": 0.0}, "cannot be timed in 0.0 seconds"),
        ({"goal": "fast"}, "no goal 'fast'"),
        ({"recipes": ()}, "no recipe"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        QuantizeSettings(**wrong)

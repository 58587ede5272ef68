"""The search for variants: real runs on a tiny model, its folder, its halves of the data; interrupted and resumed."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.api import Data, Effort, SearchSettings, document, markdown, quantize
from hasten.core import accuracy_notes
from hasten.core.accuracy import Kind
from hasten.core.comparison import Verdict
from hasten.core.errors import DataError, Interrupted, UsageError
from hasten.core.failure import Failure
from hasten.core.floor import FloorState
from hasten.core.plan import Plan, Workload
from hasten.core.session import read_session
from hasten.core.trial import ORIGINAL, Trial
from hasten.data.dataset import Dataset, Sample
from hasten.demo import MODEL
from hasten.engine.model_file import file_hash
from hasten.evaluate.run import evaluate
from hasten.evaluate.split import parts
from hasten.explanation import node_gains
from hasten.search import accuracy, quantizing
from hasten.search.folder import CHOSEN, QUANTIZE, SESSION, SearchFolder
from hasten.search.quantizing import ProgressPlan
from hasten.variants.maker_process import VariantMaker
from hasten.variants.pruning import prune_variant
from tests.example_models import mobilenet_like

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.quantize.facts import QuantizeFound

SETTINGS = SearchSettings(recipes=("float16", "static_int8"), mix=False, max_drop=0.5)
FLOAT16 = replace(SETTINGS, recipes=("float16",))
QUICK = Effort(0.1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model and inputs for it, without labels."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.tflite").write_bytes(mobilenet_like(8, 1, 16))
    colors = np.random.default_rng(0).normal(0, 4, (24, 1, 1, 3))  # noise alone would always get the same answer
    values = (colors * np.ones((1, 16, 16, 1))).astype(np.float32)
    np.savez(folder / "inputs.npz", x=values)
    return folder


@pytest.fixture(scope="module")
def data(place: Path) -> Data:
    return Data(str(place / "inputs.npz"))


@pytest.fixture(scope="module")
def found(place: Path, data: Data) -> QuantizeFound:
    return quantize(place / "tiny.tflite", place / "out", data=data, settings=SETTINGS, effort=QUICK)


def test_each_recipe_has_a_trial_with_size_agreement_and_latency(found: QuantizeFound) -> None:
    assert [trial.variant for trial in found.trials] == [ORIGINAL, "float16", "static_int8"]
    for trial in found.trials[1:]:
        assert trial.size_bytes < found.original.size_bytes
        assert trial.reporting is not None
        assert trial.reporting.kind is Kind.AGREEMENT
        assert trial.reporting.samples == 12
        assert trial.latency is not None
        assert trial.against is not None
    assert found.trials[1].floor is FloorState.KEPT
    assert "search.calibration-from-choosing" in [note.code for note in found.notes]


def test_everything_is_on_the_disk(found: QuantizeFound, place: Path) -> None:
    names = sorted(path.name for path in (place / "out").iterdir())
    assert names == [CHOSEN, "float16.tflite", SESSION, "static_int8.tflite"]
    kinds = [line.kind for line in read_session(place / "out" / SESSION).lines]
    assert {"settings", "variant", "measurement", "chosen", "finding"} <= set(kinds)
    assert file_hash(place / "out" / CHOSEN) == found.best.sha256
    json.dumps(document(found), allow_nan=False)


def test_a_rerun_makes_nothing_anew(
    found: QuantizeFound, place: Path, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("this was done before")

    monkeypatch.setattr(VariantMaker, "make", refuse)
    monkeypatch.setattr(accuracy, "evaluate", refuse)
    monkeypatch.setattr(quantizing, "run_race", refuse)
    again = quantize(place / "tiny.tflite", place / "out", data=data, settings=SETTINGS, effort=QUICK)
    assert again.trials == found.trials
    assert again.resumed
    assert again.notes[0].code == "search.resumed"


def test_other_settings_are_refused_in_the_same_folder(found: QuantizeFound, place: Path, data: Data) -> None:
    other = replace(SETTINGS, max_drop=0.25)
    with pytest.raises(UsageError, match=r"another largest drop: 0\.5, not 0\.25"):
        quantize(place / "tiny.tflite", place / "out", data=data, settings=other)
    shaped = Workload(shapes=(("x", (1, 8, 8, 3)),))
    with pytest.raises(UsageError, match="another shape: as in the file, not x=1x8x8x3"):
        quantize(place / "tiny.tflite", place / "out", Plan(), shaped, data=data, settings=SETTINGS)


@pytest.mark.slow
def test_an_interruption_leaves_a_model_and_the_rerun_goes_on(
    place: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(share: float, text: str) -> None:
        if text.startswith("judging static_int8"):
            raise KeyboardInterrupt

    effort = Effort(0.1, progress=press)
    with pytest.raises(Interrupted) as raised:
        quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=SETTINGS, effort=effort)
    assert raised.value.found.chosen == ORIGINAL
    assert raised.value.found.interrupted
    assert (tmp_path / "out" / CHOSEN).read_bytes() == (place / "tiny.tflite").read_bytes()

    made = []

    make = VariantMaker.make

    def count(self: VariantMaker, recipe: str, *arguments: Any, **options: Any) -> Any:
        made.append(recipe)
        return make(self, recipe, *arguments, **options)

    monkeypatch.setattr(VariantMaker, "make", count)
    again = quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=SETTINGS, effort=QUICK)
    assert made == []
    assert [trial.variant for trial in again.trials] == [ORIGINAL, "float16", "static_int8"]
    assert all(trial.latency is not None for trial in again.trials)


@pytest.mark.slow
def test_an_interruption_while_timing_keeps_what_is_decided(place: Path, data: Data, tmp_path: Path) -> None:
    def press(share: float, text: str) -> None:
        if "round 4" in text:
            raise KeyboardInterrupt

    settings = replace(SETTINGS, recipes=("float16", "static_int16"))
    effort = Effort(30.0, progress=press)
    with pytest.raises(Interrupted) as raised:
        quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=settings, effort=effort)
    trials = {trial.variant: trial for trial in raised.value.found.trials}
    assert trials[ORIGINAL].latency is not None
    decided = trials["static_int16"].against  # many times slower, which three rounds show
    assert decided is None or decided.verdict is not Verdict.UNDECIDED
    assert trials["float16"].against is None or trials["float16"].against.verdict is not Verdict.UNDECIDED
    again = quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=settings, effort=Effort(1.0))
    assert again.original.latency == trials[ORIGINAL].latency  # later races are told in terms of the first
    for trial in again.trials[1:]:
        if trial.against is not None and trial.latency is not None and again.original.latency is not None:
            assert trial.latency.estimate == pytest.approx(again.original.latency.estimate * trial.against.ratio)


def test_without_data_accuracy_is_unknown_and_the_original_stays(place: Path, tmp_path: Path) -> None:
    found = quantize(place / "tiny.tflite", tmp_path / "out", settings=FLOAT16, effort=QUICK)
    assert found.trials[1].floor is FloorState.UNKNOWN
    assert found.chosen == ORIGINAL
    assert accuracy_notes.RANDOM_INPUTS in [note.code for note in found.notes]


def test_a_variant_that_cannot_be_made_is_a_trial_with_its_reason(
    place: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DataError("It cannot be done.")

    monkeypatch.setattr(VariantMaker, "make", fail)
    found = quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
    assert found.trials[1].floor is FloorState.FAILED
    assert document(found)["variants"][1]["why"] == "It cannot be done."
    assert found.chosen == ORIGINAL


def test_a_variant_that_crashes_leaves_no_file_and_the_folder_usable(
    place: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(target: Any, candidate: Any, *arguments: Any, **options: Any) -> Any:
        if candidate.label == "float16":
            return Failure("evaluate", "crash", "the runner died")
        return evaluate(target, candidate, *arguments, **options)

    monkeypatch.setattr(accuracy, "evaluate", crash)
    for _ in range(2):
        found = quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
        assert (found.trials[1].floor, found.trials[1].path) == (FloorState.FAILED, "")
        assert "the runner died" in found.trials[1].why.facts["message"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [CHOSEN, SESSION]


@pytest.mark.slow
def test_pruned_variants_are_judged_and_their_kernels_named(
    place: Path, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_gains, "SECONDS", 0.6)
    settings = replace(SETTINGS, recipes=(), prune=(0.8,))
    found = quantize(place / "tiny.tflite", tmp_path / "out", data=data, settings=settings, effort=QUICK)
    zeroed, sparse = found.trials[1:]
    assert (zeroed.variant, sparse.variant) == ("pruned_80", "pruned_80_sparse")
    assert zeroed.zipped_bytes < found.original.zipped_bytes
    assert all(trial.against is not None and trial.choosing is not None for trial in (zeroed, sparse))
    kernels = [
        note.facts["kernels"] for one in (zeroed, sparse) for note in one.notes if note.code == "quantize.kernels"
    ]
    assert kernels == [[], ["built-in kernel"]]


@pytest.mark.slow
def test_zeros_in_the_model_are_noted_with_what_they_are_worth(place: Path, data: Data, tmp_path: Path) -> None:
    prune_variant(place / "tiny.tflite", 0.9, tmp_path / "sparse.tflite")
    found = quantize(tmp_path / "sparse.tflite", tmp_path / "out", data=data, settings=FLOAT16, effort=QUICK)
    (sparsity,) = [note for note in found.notes if note.code == "search.sparsity"]
    assert sparsity.facts["sparse_nodes"] == 0


def test_what_cannot_be_pruned_is_refused() -> None:
    with pytest.raises(UsageError, match="value of prune"):
        SearchSettings(prune=(1.0,))


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        SearchSettings(recipes=("int9",))
    assert "static_int8" in raised.value.hint


def test_parts_share_nothing_and_are_always_the_same() -> None:
    samples = [Sample(str(number), (np.zeros(1),)) for number in range(11)]
    dataset = Dataset("numbers", samples, labelled=False)
    first, second = ([sample.name for _, sample in part.drawn()] for part in parts(dataset, None))
    assert sorted(first + second, key=int) == [str(number) for number in range(11)]
    assert [part.count for part in parts(dataset, 5)] == [3, 2]
    many = Dataset("numbers", samples * 60, labelled=False)
    assert [part.count for part in parts(many, None)] == [220, 440]
    assert [part.count for part in parts(many, 72)] == [30, 42]
    assert [sample.name for _, sample in parts(dataset, None)[0].drawn()] == first
    with pytest.raises(UsageError, match="--samples 1 is too few"):
        parts(dataset, 1)
    with pytest.raises(DataError, match="numbers has only 1 sample: a choice needs at least 2"):
        parts(replace(dataset, samples=samples[:1]), None)


def test_a_stream_is_split_by_turns() -> None:
    dataset = Dataset("stream", lambda: (Sample(str(number), ()) for number in range(9)), labelled=False)
    first, second = ([sample.name for _, sample in part.drawn()] for part in parts(dataset, 7))
    assert (first, second) == (["0", "2", "4", "6"], ["1", "3", "5"])
    long = Dataset("stream", lambda: (Sample(str(number), ()) for number in range(660)), labelled=False)
    assert [sum(1 for _ in part.drawn()) for part in parts(long, None)] == [230, 430]
    with pytest.raises(DataError, match="stream has only 1 sample: a choice needs at least 2"):
        parts(replace(dataset, samples=lambda: iter([Sample("0", ())])), None)


def opened(path: Path) -> SearchFolder:
    return SearchFolder(path, QUANTIZE, {"model": "m"})


def test_a_folder_with_foreign_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"letter\.txt"):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_variant_that_somebody_changed_is_refused(tmp_path: Path) -> None:
    folder = opened(tmp_path / "out")
    folder.making.write_bytes(b"one")
    folder.place(Trial("float16", path=str(folder.place_of("float16")), sha256=file_hash(folder.making)))
    folder.close()
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    again = opened(moved)
    assert again.has_file_of(again.variants["float16"])
    again.close()
    (moved / "float16.tflite").write_bytes(b"two")
    with pytest.raises(UsageError, match=r"float16\.tflite in .* has changed"):
        opened(moved)


def test_a_second_run_in_the_same_folder_is_kept_out_while_the_first_is_at_work(tmp_path: Path) -> None:
    first = opened(tmp_path / "out")
    with pytest.raises(UsageError, match="Another run is using"):
        opened(tmp_path / "out")
    first.close()
    opened(tmp_path / "out").close()


def test_the_session_of_another_command_is_refused(tmp_path: Path) -> None:
    (tmp_path / SESSION).write_text('{"hasten_session": 1, "command": "bench"}\n')
    with pytest.raises(UsageError, match="another command"):
        opened(tmp_path)


def test_a_place_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="cannot be used"):
        opened(tmp_path / "out")


def test_the_model_itself_is_never_written(found: QuantizeFound, place: Path) -> None:
    assert (place / "tiny.tflite").read_bytes() == mobilenet_like(8, 1, 16)
    assert MODEL.is_file()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"max_drop": float("nan")}, "max_drop"),
        ({"max_drop": -1.0}, "max_drop"),
        ({"goal": "fast"}, "no goal 'fast'"),
        ({"recipes": ()}, "No recipe"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SearchSettings(**wrong)


@pytest.mark.parametrize("mixes", [True, False])
def test_each_step_moves_the_bar_and_none_but_the_last_fills_it(mixes: bool) -> None:
    plan = ProgressPlan(mixes=mixes)
    # Recipes, timing, a search for a mix, the other half, and another search as the first did not hold there.
    shares = [0.0, 0.1, 0.1, 0.4, 0.5, *[0.75] * 60, 0.8, 0.9, *[0.75] * 60, 0.8, 0.9]
    places = [plan.step(share) for share in shares]
    assert all(later > earlier for earlier, later in itertools.pairwise(places))
    assert places[-1] < 1
    assert plan.step(1.0) == 1


def test_a_race_moves_the_bar_by_its_time() -> None:
    plan = ProgressPlan(mixes=True)
    begin = plan.step(0.5)
    places = [plan.timing(begin, spent) for spent in (0.0, 0.5, 1.0, 7.0)]
    assert places[0] == begin < places[1] < places[2] == places[3] < plan.step(0.75)


@pytest.mark.slow
def test_without_data_no_half_of_it_is_spoken_of(place: Path, tmp_path: Path) -> None:
    settings = SearchSettings(recipes=("static_int8",))
    found = quantize(place / "tiny.tflite", tmp_path / "out", settings=settings, effort=QUICK)
    assert "search.calibration-from-noise" in [note.code for note in found.notes]
    assert " half " not in markdown(found)

"""What takes part: files, folders, bundles and lists; what cannot take part says so and hides nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.model.reader import read_graph
from hasten.practices.choose.candidates import Gathering, Listed, files_of, on_plan, task_of
from hasten.practices.choose.facts import ChooseRequest, Origin, Source
from hasten.variants.variant import Variant
from tests.example_models import flex_operator, mobilenet_like, one_operator

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FLOAT_ONLY = ("float32",)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Two classifiers of different width, one of them in int8."""
    folder = tmp_path / "models"
    (folder / "more").mkdir(parents=True)
    (folder / "narrow.tflite").write_bytes(mobilenet_like(8, 1))
    (folder / "more" / "wide.tflite").write_bytes(mobilenet_like(16, 2, dtype="int8"))
    return folder


def gathered(tmp_path: Path, *candidates: object, **request: Any) -> Gathering:
    asked = ChooseRequest(candidates=tuple(map(str, candidates)), **{"precisions": FLOAT_ONLY, **request})
    gathering = Gathering(asked, tmp_path / "built", tmp_path / "made", lambda text: None)
    gathering.run()
    return gathering


def test_a_folder_gives_all_its_models(models: Path, tmp_path: Path) -> None:
    found = gathered(tmp_path, models).contenders
    assert [(one.name, one.row.precision, one.row.origin) for one in found] == [
        ("wide int8", "int8", Origin.FILE),
        ("narrow float32", "float32", Origin.FILE),
    ]
    assert all(one.row.macs and one.row.size_bytes and one.candidate.label == one.name for one in found)
    assert {one.row.accuracy_source for one in found} == {Source.UNKNOWN}
    assert all(one.data is None for one in found)


def test_the_same_content_takes_part_once(models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.tflite"
    copy.write_bytes((models / "narrow.tflite").read_bytes())
    gathering = gathered(tmp_path, models / "narrow.tflite", copy)
    assert [one.name for one in gathering.contenders] == ["narrow float32"]
    assert [note.code for note in gathering.notes] == ["choose.same-file"]


def test_two_files_of_one_name_are_told_apart(models: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "narrow.tflite"
    other.parent.mkdir()
    other.write_bytes(mobilenet_like(8, 2))
    found = gathered(tmp_path, models / "narrow.tflite", other).contenders
    assert [one.name for one in found] == ["models/narrow float32", "other/narrow float32"]
    third = tmp_path / "more" / "other" / "narrow.tflite"
    third.parent.mkdir(parents=True)
    third.write_bytes(mobilenet_like(8, 3))
    names = [one.name for one in gathered(tmp_path, models / "narrow.tflite", other, third).contenders]
    above = tmp_path.name
    assert names == [f"{above}/{folder}/narrow float32" for folder in ("models", "other")] + [
        "more/other/narrow float32"
    ]


def test_a_model_that_cannot_be_read_is_a_trouble_and_the_others_take_part(models: Path, tmp_path: Path) -> None:
    (models / "broken.tflite").write_bytes(b"not a model")
    (models / "flex.tflite").write_bytes(flex_operator())
    gathering = gathered(tmp_path, models)
    assert {one.name for one in gathering.contenders} == {"wide int8", "narrow float32"}
    assert [trouble.where.rpartition("/")[2] for trouble in gathering.troubles] == ["broken.tflite", "flex.tflite"]


def test_if_none_can_be_read_the_first_trouble_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "broken.tflite").write_bytes(b"not a model")
    with pytest.raises(ModelError) as caught:
        gathered(tmp_path, tmp_path / "broken.tflite")
    assert caught.value.message == "broken.tflite is not a TensorFlow Lite model."
    assert "TFL3" in caught.value.hint


@pytest.mark.parametrize("name", ["missing.tflite", "models/missing", "list.toml"])
def test_a_path_that_is_not_there_is_wrong_usage(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        files_of(str(tmp_path / name))


def test_a_plain_name_may_be_one_of_the_catalogue() -> None:
    assert files_of("mobilenet_v2_1.0_224") is None


def test_an_empty_folder_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no \.tflite file"):
        files_of(str(tmp_path))


def test_a_bundle_says_how_it_is_fed(models: Path, tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "tuned", preprocess="mean=1,std=2", label_offset=1)
    write_bundle(models / "narrow.tflite", bundle)
    found = gathered(tmp_path, tmp_path / "tuned", data=Data("images", preprocess="std=255")).contenders
    assert [one.name for one in found] == ["tuned float32"]
    assert found[0].data == Data("images", preprocess="mean=1,std=2", label_offset=1)


def test_a_list_says_how_each_model_is_fed(models: Path, tmp_path: Path) -> None:
    text = '[[models]]\npath = "narrow.tflite"\nname = "n"\nlabel_offset = 1\n[[models]]\npath = "more/wide.tflite"\n'
    (models / "list.toml").write_text(text)
    found = gathered(tmp_path, models / "list.toml", data=Data("images", preprocess="std=255")).contenders
    assert [(one.name, one.data) for one in found] == [
        ("n float32", Data("images", preprocess="std=255", label_offset=1)),
        ("wide int8", Data("images", preprocess="std=255")),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "models = 3",
        "[[models]]",
        "[[models]]\npath = 3",
        '[[models]]\npath = "x"\nlabel_offset = "1"',
        '[[models]]\npath = "x"\nspeed = 1',
        '[[other]]\npath = "x"',
        "not toml at all",
        '[[models]]\npath = "x"\npreprocess = "nosuch=1"',
    ],
)
def test_a_wrong_list_ends_in_a_sentence_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list.toml"
    path.write_text(text)
    with pytest.raises((DataError, UsageError), match=r"list\.toml"):
        files_of(str(path))


def test_paths_in_a_list_are_relative_to_it(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[models]]\npath = "x.tflite"\n')
    assert files_of(str(path)) == [Listed(str(tmp_path / "x.tflite"))]


def test_data_without_trained_files_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="random weights"):
        gathered(tmp_path, data=Data("images"))


@pytest.mark.parametrize(("model", "task"), [(mobilenet_like(8, 1), "image-classification"), (one_operator(), "")])
def test_the_task_is_seen_by_inputs_and_outputs(tmp_path: Path, model: bytes, task: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    assert task_of(read_graph(path), Workload()) == task


def test_a_plan_changes_candidate_and_row_alike(models: Path, tmp_path: Path) -> None:
    found = on_plan(gathered(tmp_path, models / "narrow.tflite").contenders[0], threads=2)
    assert found.row.plan == found.candidate.plan == Plan(threads=2)


class FakeMaker:
    """Writes a file where the quantizer would; or fails as it may."""

    made: list[str]
    fails: Exception | None = None

    def __init__(self, model: Path, signature: str = "") -> None:
        self.model = model

    def make(self, recipe: str, out: Path, samples: list[dict[str, Any]]) -> Variant:
        if FakeMaker.fails is not None:
            raise FakeMaker.fails
        assert samples
        FakeMaker.made.append(self.model.stem)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(mobilenet_like(8, 1, dtype="int8"))
        return Variant(out, recipe, 1, 1)

    def close(self) -> None: ...


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> type[FakeMaker]:
    FakeMaker.made, FakeMaker.fails = [], None
    monkeypatch.setattr("hasten.practices.choose.candidates.VariantMaker", FakeMaker)
    return FakeMaker


BOTH = ("float32", "int8")


def test_a_float_file_is_quantized_once_and_found_again(models: Path, tmp_path: Path, maker: type[FakeMaker]) -> None:
    first = gathered(tmp_path, models, precisions=BOTH).contenders
    assert [(one.name, one.row.origin, one.row.reference) for one in first[1:]] == [
        ("narrow float32", Origin.FILE, ""),
        ("narrow int8", Origin.MADE, "narrow float32"),
    ]
    again = gathered(tmp_path, models, precisions=BOTH).contenders
    assert maker.made == ["narrow"]
    assert [one.candidate.model.sha256 for one in again] == [one.candidate.model.sha256 for one in first]
    assert not list((tmp_path / "made").glob(".*"))


def test_another_calibration_is_another_file(models: Path, tmp_path: Path, maker: type[FakeMaker]) -> None:
    """A file that an earlier run calibrated on noise must not be judged by images."""
    for name in ("a", "b"):
        shape = (8, *read_graph(models / "narrow.tflite").inputs[0].shape[1:])
        x = np.random.default_rng(0).random(shape, np.float32)
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.arange(8) % 2)
    asked = [Data(), Data(str(tmp_path / "a.npz")), Data(str(tmp_path / "a.npz"), skip_bad=True)]
    asked += [Data(str(tmp_path / "a.npz"), calibration=str(tmp_path / "b.npz")), asked[1]]
    files = [gathered(tmp_path, models, precisions=BOTH, data=data).contenders[-1].row.path for data in asked]
    assert len(maker.made) == len(set(files)) == 4
    assert files[-1] == files[1]


def test_each_of_two_files_of_one_name_is_quantized(models: Path, tmp_path: Path, maker: type[FakeMaker]) -> None:
    other = tmp_path / "other" / "narrow.tflite"
    other.parent.mkdir()
    other.write_bytes(mobilenet_like(8, 2))
    found = gathered(tmp_path, models / "narrow.tflite", other, precisions=BOTH).contenders
    assert [(one.name, one.row.reference) for one in found] == [
        ("models/narrow float32", ""),
        ("models/narrow int8", "models/narrow float32"),
        ("other/narrow float32", ""),
        ("other/narrow int8", "other/narrow float32"),
    ]


def test_an_int8_model_of_the_catalogue_is_compared_with_its_float_one(tmp_path: Path) -> None:
    """Not with a file of the same name; where only int8 is asked for, with nothing."""
    name = "mobilenet_v1_0.25_128"
    file = tmp_path / f"{name}.tflite"
    file.write_bytes(mobilenet_like(8, 1))
    found = gathered(tmp_path, file, name, precisions=("int8", "float32"), own=str(file)).contenders
    assert [(one.name, one.row.reference) for one in found] == [
        (f"{name} float32", ""),
        (f"catalogue/{name} float32", ""),
        (f"{name} int8", f"catalogue/{name} float32"),
    ]
    alone = gathered(tmp_path, name, precisions=("int8",)).contenders
    assert [one.row.reference for one in alone] == [""]


def test_published_figures_of_other_data_are_not_compared(tmp_path: Path) -> None:
    model = """[[models]]
name = "{name}"
task = "toys"
input_size = 32
family = "mobilenet_v1"
settings = {{ width = 0.25, classes = 3 }}
common = true
accuracies = [
  {{ value = 0.9, metric = "top-1", weights = "w", input_size = 32, precision = "float32", source = "s"{data} }},
]
"""
    data = {"a": "", "b": ', data = "other images"', "c": ""}
    file = tmp_path / "more.toml"
    file.write_text("".join(model.format(name=name, data=text) for name, text in data.items()))
    found = gathered(tmp_path, task="toys", catalogue=(str(file),)).contenders
    assert {one.row.model: one.row.accuracy_source for one in found} == {
        "a": Source.PUBLISHED,
        "b": Source.UNKNOWN,
        "c": Source.PUBLISHED,
    }


def test_a_name_in_a_list_cannot_lead_out_of_the_folder(models: Path, tmp_path: Path, maker: type[FakeMaker]) -> None:
    (models / "list.toml").write_text('[[models]]\npath = "narrow.tflite"\nname = "../../escaped"\n')
    made = gathered(tmp_path, models / "list.toml", precisions=BOTH).contenders[1]
    assert made.candidate.path.parent == tmp_path / "made"


def test_what_an_earlier_run_has_made_is_no_candidate(models: Path, tmp_path: Path, maker: type[FakeMaker]) -> None:
    first = gathered(tmp_path, tmp_path, precisions=BOTH).contenders
    again = gathered(tmp_path, tmp_path, precisions=BOTH).contenders
    assert [one.name for one in again] == [one.name for one in first]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UsageError("The quantizer is not installed.", "Install it."), (["choose.no-quantizer"], [])),
        (ModelError("The quantizer crashed."), ([], ["narrow int8"])),
        (MemoryError(), ([], ["narrow int8"])),
    ],
)
def test_without_a_quantizer_the_float_file_takes_part(
    models: Path, tmp_path: Path, maker: type[FakeMaker], error: Exception, expected: tuple[list[str], list[str]]
) -> None:
    maker.fails = error
    gathering = gathered(tmp_path, models, precisions=BOTH)
    assert [one.name for one in gathering.contenders] == ["wide int8", "narrow float32"]
    assert ([note.code for note in gathering.notes], [one.where for one in gathering.troubles]) == expected


def test_the_model_in_use_is_not_quantized_again(models: Path, tmp_path: Path, maker: type[FakeMaker]) -> None:
    own = str(models / "narrow.tflite")
    assert [one.name for one in gathered(tmp_path, own, precisions=BOTH, own=own).contenders] == ["narrow float32"]
    assert maker.made == []


def test_a_request_is_checked_before_any_work() -> None:
    wrong: list[Callable[[], ChooseRequest]] = [
        lambda: ChooseRequest(precisions=("float64",)),
        lambda: ChooseRequest(precisions=()),
        lambda: ChooseRequest(candidates="model.tflite"),  # type: ignore[arg-type]
        lambda: ChooseRequest(task=3),  # type: ignore[arg-type]
        lambda: ChooseRequest(limits={"latency": 1}),  # type: ignore[arg-type]
        lambda: replace(ChooseRequest(), plan="threads=2"),  # type: ignore[arg-type]
    ]
    for make in wrong:
        with pytest.raises(UsageError):
            make()

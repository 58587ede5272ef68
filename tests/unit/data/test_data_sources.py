"""What --data takes: each form is read lazily, and bad data is named."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from hasten.core.accuracy_notes import NESTED, NO_MASK, RANDOM_INPUTS
from hasten.core.errors import DataError, UsageError
from hasten.core.remark import remark
from hasten.data.classes import LabelReader
from hasten.data.dataset import Dataset, LazySamples, Sample
from hasten.data.prepare import Preparer
from hasten.data.sources import open_dataset, random_dataset
from hasten.data.tensor_forms import TensorForm

if TYPE_CHECKING:
    from collections.abc import Callable


def save_image(path: Path, value: int = 0, size: tuple[int, int] = (4, 3), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode in "LP" else (value,) * 3).save(path)
    return path


def samples_of(dataset: Dataset) -> list[Sample]:
    return list(dataset.samples() if callable(dataset.samples) else dataset.samples)


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module, and returns its name."""

    def write(text: str) -> str:
        name = f"users_{abs(hash((text, str(tmp_path))))}"
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return name

    monkeypatch.syspath_prepend(tmp_path)
    return write


# -- folders


def test_a_subfolder_for_each_class(tmp_path: Path) -> None:
    for name in ("dog/1.png", "dog/2.jpg", "ant/1.png"):
        save_image(tmp_path / name)
    (tmp_path / "dog" / ".hidden.png").write_text("no image")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    found = open_dataset(str(tmp_path))
    assert found.labelled
    assert found.classes == ("ant", "dog")
    assert [(sample.name, sample.label) for sample in samples_of(found)] == [
        ("ant/1.png", "ant"),
        ("dog/1.png", "dog"),
        ("dog/2.jpg", "dog"),
    ]


@pytest.mark.parametrize("place", ["classes.txt", "../classes.txt"])
def test_classes_file_inside_or_beside_sets_the_order(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "images"
    save_image(folder / "dog" / "1.png")
    (folder / place).write_text("dog\nant\n")
    found = open_dataset(str(folder))
    assert (found.classes, found.classes_from) == (("dog", "ant"), "classes.txt")
    (folder / place).write_text("cat\n")
    with pytest.raises(DataError, match="dog is not one of the classes"):
        open_dataset(str(folder))


def test_folder_names_that_are_numbers_are_numbers(tmp_path: Path) -> None:
    for name in ("10", "9", "0"):
        save_image(tmp_path / name / "1.png")
    assert sorted(sample.label for sample in samples_of(open_dataset(str(tmp_path)))) == [0, 9, 10]  # type: ignore[type-var]


def test_folders_inside_of_those_of_classes_are_told(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/1.png", "dog/more/2.png"):
        save_image(tmp_path / name)
    (tmp_path / "dog" / "empty").mkdir()
    found = open_dataset(str(tmp_path))
    assert len(samples_of(found)) == 2
    assert [(note.code, note.facts) for note in found.notes] == [(NESTED, {"folders": 1})]


def test_images_without_subfolders_have_no_labels(tmp_path: Path) -> None:
    save_image(tmp_path / "b.png")
    save_image(tmp_path / "a.jpg")
    found = open_dataset(str(tmp_path))
    assert not found.labelled
    assert [sample.name for sample in samples_of(found)] == ["a.jpg", "b.png"]


@pytest.mark.parametrize(("image", "mask"), [("images/1.jpg", "masks_voc/1.png"), ("1.jpg", "1.png")])
def test_masks_beside_images(tmp_path: Path, image: str, mask: str) -> None:
    save_image(tmp_path / image)
    save_image(tmp_path / image.replace("1", "2"))
    save_image(tmp_path / mask, mode="L")
    found = open_dataset(str(tmp_path))
    (sample,) = samples_of(found)
    assert sample.label == tmp_path / mask
    assert found.notes == (remark(NO_MASK, images=1),)


def test_empty_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no images"):
        open_dataset(str(tmp_path))
    save_image(tmp_path / "cat" / "1.png")
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match="dog holds no images"):
        open_dataset(str(tmp_path))
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    with pytest.raises(DataError, match="has a mask of the same name"):
        open_dataset(str(tmp_path))


# -- tables


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("file,class_index,wnid,name\n1.png,7,n01,tench\n2.png,3,n02,goldfish\n", [7, 3]),
        ("1.png,7\n2.png,3\n", [7, 3]),
        ("path,label\n1.png,dog\n\n2.png,ant\n", ["dog", "ant"]),
        ("1.png,0.5\n2.png,1\n", [0.5, 1.0]),
    ],
)
@pytest.mark.parametrize("folder", [".", "images"])
def test_table_of_path_and_label(tmp_path: Path, text: str, labels: list[object], folder: str) -> None:
    for name in ("1.png", "2.png"):
        save_image(tmp_path / folder / name)
    (tmp_path / "labels.csv").write_text(text)
    found = open_dataset(str(tmp_path / "labels.csv"))
    assert [sample.label for sample in samples_of(found)] == labels
    assert samples_of(found)[0].inputs == (tmp_path / folder / "1.png",)
    assert found.classes == (("ant", "dog") if labels == ["dog", "ant"] else ())


def test_a_blank_label_among_others_is_named_with_its_line(tmp_path: Path) -> None:
    save_image(tmp_path / "1.png")
    for text, others in (
        ("1.png,7\n1.png,\n1.png,3\n", [7, 3]),
        ("1.png,dog\n1.png, \n1.png,ant\n", ["dog", "ant"]),
        ("1.png,1.png\n1.png,\n1.png,1.png\n", [tmp_path / "1.png"] * 2),
    ):
        (tmp_path / "labels.csv").write_text(text)
        found = open_dataset(str(tmp_path / "labels.csv"))
        first, blank, last = samples_of(found)
        assert (first.label, blank.label, last.label) == (others[0], None, others[1])
        assert (found.labelled, "" in found.classes) == (True, False)
        assert blank.name == f"1.png (line 2 of {tmp_path / 'labels.csv'})"
        assert blank.inputs == (tmp_path / "1.png",)
    (tmp_path / "labels.csv").write_text("file,label\n1.png,\n")
    assert not open_dataset(str(tmp_path / "labels.csv")).labelled


def test_table_of_masks_and_without_labels(tmp_path: Path) -> None:
    save_image(tmp_path / "1.png")
    (tmp_path / "a.csv").write_text("1.png,1.png\n")
    assert samples_of(open_dataset(str(tmp_path / "a.csv")))[0].label == tmp_path / "1.png"
    (tmp_path / "b.tsv").write_text("file\n1.png\n")
    assert not open_dataset(str(tmp_path / "b.tsv")).labelled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lists no files"),
        ("file,label\n", "below its head"),
        ("nowhere.png,1\n", "no such file"),
        ("file,color\n1.png,red\n", "no column for labels"),
        ("1.png,1\n1.png\n", "Line 2 .* has only 1 column"),
    ],
)
def test_bad_tables_are_named(tmp_path: Path, text: str, message: str) -> None:
    save_image(tmp_path / "1.png")
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        open_dataset(str(tmp_path / "bad.csv"))


# -- arrays


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_mapped_and_read_by_row(tmp_path: Path, save: Callable[..., None]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    save(tmp_path / "d.npz", x=np.asfortranarray(x), y=np.array([3, 2, 1, 0]))
    found = open_dataset(str(tmp_path / "d.npz"))
    assert (found.count, found.labelled) == (4, True)
    samples = samples_of(found)
    assert [sample.label for sample in samples] == [3, 2, 1, 0]
    assert not isinstance(samples[2].inputs, dict)
    np.testing.assert_array_equal(np.asarray(samples[2].inputs[0]), x[2])  # type: ignore[index]


def test_several_inputs_by_number_or_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "n.npz", x1=np.ones((2, 3)), x0=np.zeros((2, 2)))
    (first, _) = samples_of(open_dataset(str(tmp_path / "n.npz")))
    assert [np.asarray(value).shape for value in first.inputs] == [(2,), (3,)]
    assert first.label is None
    np.savez(tmp_path / "m.npz", left=np.ones((2, 3)), right=np.zeros((2, 2)), y=np.array(["b", "a"]))
    found = open_dataset(str(tmp_path / "m.npz"))
    assert set(samples_of(found)[0].inputs) == {"left", "right"}
    assert samples_of(found)[0].label == "b"
    assert found.classes == ("a", "b")


def test_an_input_called_x_does_not_hide_the_others(tmp_path: Path) -> None:
    forms = [TensorForm("flag", "flag", (), "bool"), TensorForm("x", "x", (1, 4), "float32")]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez(tmp_path / "d.npz", flag=np.array([True, False, True]), x=x, y=np.arange(3), mean=np.zeros(5))
    flag, values = Preparer(forms).prepare(samples_of(open_dataset(str(tmp_path / "d.npz")))[1])
    assert (flag.shape, bool(flag)) == ((), False)
    np.testing.assert_array_equal(values[0], x[1])


def test_arrays_beside_x_are_left_alone_where_the_model_has_no_such_input(tmp_path: Path) -> None:
    form = TensorForm("image", "image", (1, 4), "float32")
    np.savez(tmp_path / "d.npz", x=np.ones((3, 4), np.float32), ids=np.arange(3), y=np.arange(3))
    (values,) = Preparer([form]).prepare(samples_of(open_dataset(str(tmp_path / "d.npz")))[0])
    assert values.tolist() == [[1, 1, 1, 1]]
    forms = [form, TensorForm("other", "other", (1, 2), "float32")]
    np.savez(tmp_path / "d.npz", x0=np.ones((3, 4)), x1=np.zeros((3, 2)), ids=np.arange(3))
    assert [v.size for v in Preparer(forms).prepare(samples_of(open_dataset(str(tmp_path / "d.npz")))[0])] == [4, 2]
    np.savez(tmp_path / "d.npz", x=np.ones((3, 4)), ids=np.arange(3))
    with pytest.raises(DataError, match=r"sample 0 of .*d\.npz has no values for input 'image'; it has x, ids"):
        Preparer(forms).prepare(samples_of(open_dataset(str(tmp_path / "d.npz")))[0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.zeros(3)}, "holds no inputs"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2)}, "number of rows"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, "holds no samples"),
        ({"x": np.array([object()])}, "Python objects"),
    ],
)
def test_bad_arrays_are_named(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        open_dataset(str(tmp_path / "bad.npz"))


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match=r"torn\.npz cannot be read"):
        open_dataset(str(tmp_path / "torn.npz"))
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("x.npy", b"not an array")
    with pytest.raises(DataError, match=r"odd\.npz cannot be read"):
        open_dataset(str(tmp_path / "odd.npz"))


# -- functions


def test_function_gives_samples_again_and_again(importable: Callable[[str], str]) -> None:
    name = importable("def data():\n    for i in range(3):\n        yield [i, i], i\n")
    found = open_dataset(f"{name}:data")
    assert (found.count, found.labelled) == (None, True)
    assert [sample.label for _, sample in found.drawn()] == [0, 1, 2]
    assert [position for position, _ in found.drawn(2)] == [0, 1]


def test_function_may_give_a_new_iterator_of_any_kind(importable: Callable[[str], str]) -> None:
    name = importable("def data(): return zip([[1.0], [2.0]], [1, 2])")
    found = open_dataset(f"{name}:data")
    for _ in range(3):
        assert [sample.label for _, sample in found.drawn()] == [1, 2]


def test_function_may_name_files_and_several_inputs(importable: Callable[[str], str]) -> None:
    name = importable("def data():\n    return [(('a.png', [1.0]), None), ({'x': [2]}, None)]\n")
    first, second = samples_of(open_dataset(f"{name}:data"))
    assert isinstance(first.inputs, tuple)
    assert first.inputs[0] == Path("a.png")
    assert isinstance(second.inputs, dict)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("data = 3", UsageError, "is not a function"),
        ("", UsageError, "cannot be found"),
        ("def data(): return []", DataError, "returned no samples"),
        ("def data(): return [1]", DataError, "sample 0 is not a pair"),
        ("def data():\n    yield [1], None\n    yield [1], 1", DataError, "sample 1 has a label"),
        ("def data():\n    yield [1], 1\n    raise OSError('gone')", DataError, "at sample 1: OSError: gone"),
        ("import sys\ndef data(): sys.exit()", DataError, r"at sample 0: it called sys\.exit\(\)"),
        (
            "import sys\ndef data():\n    yield [1], 1\n    sys.exit(7)",
            DataError,
            r"at sample 1: it called sys\.exit\(7\)",
        ),
        ("import sys\nsys.exit(0)", DataError, r"cannot be loaded: it called sys\.exit\(0\)"),
        ("open('nowhere')", DataError, "cannot be loaded: FileNotFoundError"),
        ("g = (([i], i) for i in range(3))\ndef data(): return g", DataError, "same iterator at each call"),
        ("g = zip([[1], [2]], [1, 2])\ndef data(): return g", DataError, "same iterator at each call"),
    ],
)
def test_bad_functions_are_named(
    importable: Callable[[str], str], text: str, error: type[Exception], message: str
) -> None:
    name = importable(text)
    with pytest.raises(error, match=message):
        samples_of(open_dataset(f"{name}:data"))


def test_what_is_no_data_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no data"):
        open_dataset(str(tmp_path / "nowhere"))
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(DataError, match=r"hasten cannot read .* as data"):
        open_dataset(str(tmp_path / "a.doc"))


# -- order, random inputs, labels


def test_samples_are_drawn_in_a_random_order_that_the_seed_decides() -> None:
    dataset = Dataset("d", LazySamples(50, lambda i: Sample(str(i), ())), labelled=False)
    order = [position for position, _ in dataset.drawn(seed=1)]
    assert sorted(order) == list(range(50))
    assert order != sorted(order)
    assert [position for position, _ in dataset.drawn(7, seed=1)] == order[:7]
    assert all(sample.name == str(position) for position, sample in dataset.drawn())
    assert isinstance(dataset.samples, LazySamples)
    assert [sample.name for sample in dataset.samples[-2:]] == ["48", "49"]
    with pytest.raises(IndexError):
        dataset.samples[50]


def test_random_inputs_come_from_the_seed_and_say_so() -> None:
    forms = [
        TensorForm("a", "a", (1, 3), "float32"),
        TensorForm("b", "b", (1, 2), "int8"),
        TensorForm("c", "c", (2,), "int32"),
    ]
    found, again = random_dataset(forms, 4, seed=5), random_dataset(forms, 4, seed=5)
    assert (found.is_random, found.labelled, found.notes) == (True, False, (remark(RANDOM_INPUTS),))
    for one, other in zip(samples_of(found), samples_of(again), strict=True):
        for a, b in zip(one.inputs, other.inputs, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_labels_become_numbers_of_outputs() -> None:
    data = Dataset("d", [], labelled=True, classes=("ant", "dog"), classes_from="names in alphabetical order")
    reader = LabelReader(data)
    reader.check_count(2)
    assert [reader.number(label, 2, "f") for label in ("ant", "dog", 1)] == [0, 1, 1]
    with pytest.raises(DataError, match=r"2 classes .* 3 outputs"):
        reader.check_count(3)
    with pytest.raises(DataError, match=r"f\.png has the label 'cat'"):
        reader.number("cat", 2, "f.png")
    with pytest.raises(DataError, match=r"f\.png has the label 2, outside"):
        reader.number(2, 2, "f.png")
    with pytest.raises(DataError, match="which is not a class"):
        reader.number(0.5, 2, "f.png")
    assert reader.number(1.0, 2, "f") == reader.number(np.array([1.0]), 2, "f") == 1
    LabelReader(data, offset=1).check_count(3)
    assert LabelReader(data, offset=1).number("ant", 3, "f") == 1


@pytest.mark.parametrize(
    ("label", "offset", "message", "hint"),
    [
        (9, 5, "the label 9, which --label-offset 5 makes 14, outside the model's 12 classes", "Without"),
        (12, 0, "the label 12, outside the model's 12 classes", "--label-offset -1"),
        (99, 0, "the label 99, outside", "--skip-bad"),
        (-1, 0, "the label -1, outside", "--skip-bad"),
    ],
)
def test_a_label_outside_of_the_classes_gets_advice_that_helps(
    label: int, offset: int, message: str, hint: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        LabelReader(Dataset("d", [], labelled=True), offset=offset).number(label, 12, "f")
    assert hint in caught.value.hint


def test_the_models_own_labels_set_the_order() -> None:
    data = Dataset("d", [], labelled=True, classes=("ant", "dog"), classes_from="names in alphabetical order")
    reader = LabelReader(data, ("background", "dog", "cat", "ant"), offset=1)
    reader.check_count(4)
    assert reader.source == "the model's labels"
    assert [reader.number(label, 4, "f") for label in ("ant", "dog")] == [3, 1]

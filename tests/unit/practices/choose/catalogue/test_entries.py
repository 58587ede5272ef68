"""The catalogue's data: every figure has a source and agrees with it, names stay, and files of users are checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.core.codec import from_data, to_data
from hasten.core.errors import DataError, UsageError
from hasten.data.metrics import metric_from_text
from hasten.practices.choose import catalogue
from hasten.practices.choose.catalogue import Entry
from hasten.practices.choose.catalogue.families import FAMILIES
from hasten.practices.choose.catalogue.hubs import address_of, is_path

ENTRIES = catalogue.entries()
NAMES = Path(__file__).with_name("names.txt").read_text(encoding="utf-8").split()
# Shares of 1 that hasten does not measure itself yet.
OTHER_METRICS = {"map"}
UNITS = {"": 1, "M": 10**6, "B": 10**9}
PLAIN = '[[models]]\nname = "toy"\ntask = "toys"\ninput_size = 8\n'


def figure(text: str) -> tuple[float, float]:
    """A published number, and the worth of its last digit."""
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?([MB]?)", text)
    assert match, text
    whole, fraction, unit = match[1], match[2] or "", UNITS[match[3]]
    return float(f"{whole}.{fraction or 0}") * unit, unit / 10 ** len(fraction)


def agrees(built: int, text: str) -> bool:
    """Whether a number is that of the source, within 1 % or the last digit: sources round, and some cut off."""
    published, last_digit = figure(text)
    return abs(built - published) <= max(0.01 * published, last_digit)


def written(folder: Path, text: str, name: str = "more.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_names_stay() -> None:
    """Scripts and sessions name models: one may be added, none renamed or removed."""
    assert [entry.name for entry in ENTRIES] == NAMES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_counts_are_those_of_the_source_or_the_difference_is_explained(entry: Entry) -> None:
    assert entry.parameters
    assert entry.macs
    counted = entry.counted
    assert counted.source.startswith("https://")
    pairs = [(entry.parameters, counted.parameters), (entry.macs, counted.macs)]
    differs = [text for built, text in pairs if not text or not agrees(built, text)]
    assert bool(differs) <= bool(counted.difference), f"{differs} needs an explanation"


def test_an_explanation_is_there_for_a_difference_only() -> None:
    for entry in ENTRIES:
        pairs = [(entry.parameters, entry.counted.parameters), (entry.macs, entry.counted.macs)]
        same = all(text and agrees(built or 0, text) for built, text in pairs)
        assert not (same and entry.counted.difference), entry.name


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_figure_has_weights_size_precision_and_source(entry: Entry) -> None:
    seen = set()
    for one in entry.accuracies:
        assert 0 < one.value < 1
        assert one.metric in OTHER_METRICS or metric_from_text(one.metric)
        assert one.precision in ("float32", "uint8", "int8")
        assert one.weights
        assert one.input_size == entry.input_size
        assert one.source.startswith("https://")
        seen.add((one.metric, one.weights, one.precision))
    assert len(seen) == len(entry.accuracies), "one figure for each training"


def test_an_accuracy_of_one_precision_is_none_of_another() -> None:
    entry = next(entry for entry in ENTRIES if entry.name == "efficientnet_lite0_224")
    assert entry.published("float32", "top-1")[0].value == 0.751
    assert [one.value for one in entry.published("int8", "top-1")] == [0.744]
    assert entry.published("int4", "top-1") == ()


def test_the_accuracy_that_is_compared_is_that_of_the_weights_that_can_be_had() -> None:
    """But for two files of which nobody has published one."""
    other = set()
    for entry in ENTRIES:
        for precision in {source.precision for source in entry.weights}:
            first = next(source for source in entry.weights if source.precision == precision)
            published = [one for one in entry.accuracies if one.precision == precision]
            if published and not published[0].weights.startswith(first.weights):
                other.add((entry.name, precision))
    assert other == {("ssd_mobilenet_v1_0.75_300", "uint8"), ("yamnet", "float32")}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_locations_are_whole(entry: Entry) -> None:
    for source in entry.weights:
        assert not is_path(source.location)
        assert source.source.startswith("https://")
        if not source.location.startswith("kaggle:"):  # that would ask for a version
            assert address_of(source).url.startswith("https://")


def test_tasks_and_families() -> None:
    assert {entry.family for entry in ENTRIES} == set(FAMILIES)
    common = [entry for entry in catalogue.entries("image-classification") if entry.common]
    assert len(common) == 25
    for task in ("object-detection", "image-segmentation", "audio-classification"):
        assert catalogue.entries(task)
    assert catalogue.entries("cooking") == ()


def test_an_entry_survives_json() -> None:
    for entry in ENTRIES:
        assert from_data(Entry, to_data(entry)) == entry


def test_a_users_file_adds_and_replaces(tmp_path: Path) -> None:
    first = written(tmp_path, PLAIN + '[[models]]\nname = "yamnet"\ntask = "toys"\ninput_size = 9\n')
    second = written(tmp_path, PLAIN.replace("8", "16"), "second.toml")
    found = catalogue.entries("toys", [first, second])
    assert [(entry.name, entry.input_size, entry.parameters, entry.family) for entry in found] == [
        ("yamnet", 9, None, ""),
        ("toy", 16, None, ""),
    ]
    assert len(catalogue.entries(None, [first, second])) == len(ENTRIES) + 1
    assert catalogue.entries() == ENTRIES


def test_the_example_of_the_documentation_is_a_model(tmp_path: Path) -> None:
    text = (Path(__file__).parents[5] / "docs" / "choose.md").read_text(encoding="utf-8")
    example = next(block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "family" in block)
    (entry,) = set(catalogue.entries(None, [written(tmp_path, example)])) - set(ENTRIES)
    assert (entry.name, entry.family, entry.weights[0].location) == (
        "flowers",
        "mobilenet_v2",
        str(tmp_path.resolve() / "flowers.tflite"),
    )


def test_sources_stand_for_address_and_license(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[sources]\npaper = { url = "https://paper.example", license = "CC-BY-4.0" }\n'
        + PLAIN
        + 'accuracies = [{ value = 0.5, metric = "top-1", weights = "mine", input_size = 8, precision = "int8", '
        + 'source = "paper" }]\nweights = [{ location = "toy.tflite", source = "https://other.example" }]\n',
    )
    (entry,) = catalogue.entries("toys", [path])
    assert (entry.accuracies[0].source, entry.accuracies[0].license) == ("https://paper.example", "CC-BY-4.0")
    assert (entry.weights[0].source, entry.weights[0].license) == ("https://other.example", "")
    assert entry.weights[0].location == str(tmp_path.resolve() / "toy.tflite")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name =", "TOML"),
        ("[[model]]\nname = 'toy'", "'model'"),
        ("models = 3", "no list"),
        ("[sources]\npaper = 'x'", "[sources]"),
        ("[[models]]\ntask = 'toys'\ninput_size = 8", "name is missing"),
        (PLAIN + PLAIN, "twice"),
        (PLAIN.replace('toy"', '../toy"'), "the name"),
        (PLAIN + "input_sizes = 8", "input_sizes"),
        (PLAIN + "settings = { widht = 1.0 }", "settings.widht"),
        (PLAIN + "settings = { width = -1.0 }", "settings.width"),
        (PLAIN + "settings = { classes = 1000000000 }", "settings.classes"),
        (PLAIN + "settings = { output_stride = 3 }", "settings.output_stride"),
        (PLAIN + "settings = 3", "settings is 3"),
        (PLAIN + "family = 'resnet_5000'", "resnet_5000"),
        (PLAIN + "macs = 'many'", "macs is 'many'"),
        (PLAIN + "input_shape = [1, 0]", "input_shape"),
        (PLAIN + "weights = 3", "weights is 3"),
        (PLAIN + "weights = [3]", "weights[0] is 3"),
        (PLAIN + "weights = [{ precision = 'int8' }]", "weights[0].location is missing"),
        (PLAIN + "weights = [{ location = 'x', sha256 = 'ABC' }]", "sha256"),
        (PLAIN + "weights = [{ location = '~nobody-here/x.tflite' }]", "'toy'"),
        (PLAIN + "weights = [{ location = 'http://[' }]", "'toy'"),
        (PLAIN + f"accuracies = [{{ value = {10**400} }}]", "'toy'"),
        (PLAIN + "weights = [{ location = 'x', precision = '../int8' }]", "weights[0].precision"),
        (PLAIN + "accuracies = [{ value = 71.0 }]", "accuracies[0]"),
        (
            PLAIN + "accuracies = [{ value = 71.0, metric = 'top-1', weights = 'x', input_size = 8, "
            "precision = 'int8', source = 'x' }]",
            "accuracies[0].value",
        ),
    ],
)
def test_a_mistake_in_a_users_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises((DataError, UsageError)) as caught:
        catalogue.entries(None, [path])
    assert told in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_file_that_is_nested_without_end_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not TOML"):
        catalogue.entries(None, [written(tmp_path, "models = " + "[" * 50_000)])


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        catalogue.entries(None, [tmp_path / "none.toml"])
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError):
        catalogue.entries(None, [tmp_path / "binary.toml"])


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "source", "x"]), inner),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(
    row=st.dictionaries(
        st.sampled_from(["name", "task", "input_size", "settings", "counted", "accuracies", "weights", "macs", "x"]),
        VALUES,
    )
)
def test_no_data_ends_in_anything_but_a_sentence(row: dict[str, Any]) -> None:
    from hasten.practices.choose.catalogue import reading

    try:
        entry = reading._entry(Path("file.toml"), 1, row, {})
    except DataError:
        return
    assert isinstance(entry, Entry)

"""Bundles: what is written comes back, and what was damaged on the way is refused in a sentence."""

from __future__ import annotations

import hashlib
import json
from typing import IO, TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hasten.bundle.folder import is_bundle, read_bundle, refuse_foreign_folder, write_bundle
from hasten.bundle.record import Bundle, BundleTensor
from hasten.core.errors import DataError, HastenError, ModelError, UsageError
from hasten.core.plan import ACCELERATORS, KERNELS, PRECISIONS, Plan, Workload
from hasten.core.session import SessionWriter

if TYPE_CHECKING:
    from pathlib import Path

_TENSORS = (BundleTensor("x", "int8", (1, 4), 0.5, -3), BundleTensor("mask", "bool", (4,)))
_NAMES = st.text(st.characters(codec="utf-8"), max_size=12)
_DIMENSIONS = st.lists(st.integers(1, 2**31 - 1), max_size=5).map(tuple)
_PLANS = st.builds(
    Plan,
    accelerator=st.sampled_from(ACCELERATORS),
    threads=st.integers(1, 1024),
    kernel=st.sampled_from(KERNELS),
    precision=st.sampled_from(PRECISIONS),
    delegate=st.sampled_from(("", "/usr/lib/libdelegate.so", "/libdelegate.so:key=a;b=c:d")),
    options=st.lists(st.tuples(_NAMES, _NAMES), max_size=3).map(tuple),
    cache=st.sampled_from(("", "/cache")),
    cores=st.sets(st.integers(0, 63), max_size=4).map(lambda cores: tuple(sorted(cores))),
)
_WORKLOADS = st.builds(
    Workload,
    signature=_NAMES,
    shapes=st.dictionaries(_NAMES, _DIMENSIONS, max_size=3).map(lambda shapes: tuple(shapes.items())),
    seed=st.integers(0, 2**31),
)
_SOME_TENSORS = st.lists(
    st.builds(
        BundleTensor,
        _NAMES,
        st.sampled_from(("float32", "int8")),
        _DIMENSIONS,
        st.floats(0, 10, allow_subnormal=False),
        st.integers(-128, 127),
    ).map(lambda found: found if found.scale else BundleTensor(found.name, found.dtype, found.shape)),
    max_size=3,
).map(tuple)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _bundle(tmp_path).folder


def _bundle(tmp_path: Path, **parts: Any) -> Bundle:
    model = tmp_path / "some.tflite"
    model.write_bytes(b"not looked into" * 100)
    return write_bundle(
        model, Bundle(tmp_path / "out", plan=Plan(threads=2), inputs=_TENSORS, labels=("cat", "dog"), **parts)
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_PLANS, _WORKLOADS, _SOME_TENSORS, _SOME_TENSORS, _NAMES, st.integers(-5, 5), st.lists(_NAMES, max_size=4))
def test_what_is_written_comes_back(
    tmp_path: Path,
    plan: Plan,
    workload: Workload,
    inputs: tuple[BundleTensor, ...],
    outputs: tuple[BundleTensor, ...],
    preprocess: str,
    offset: int,
    labels: list[str],
) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(b"content")
    given = Bundle(
        tmp_path / "out",
        plan=plan,
        workload=workload,
        inputs=inputs,
        outputs=outputs,
        preprocess=preprocess,
        label_offset=offset,
        labels=tuple(labels),
        measured={"speedup": 2.4},
    )
    written = write_bundle(model, given)
    found = read_bundle(tmp_path / "out", trust_bundle=True)
    assert found == written
    assert found.model_path.read_bytes() == b"content"
    assert (found.plan, found.workload, found.inputs, found.outputs) == (plan, workload, inputs, outputs)


def test_a_bundle_of_the_first_release_opens(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"content")
    plan = {"accelerator": "cpu", "threads": 2, "kernel": "delegate", "precision": "default", "delegate": ""}
    content = {
        "hasten_bundle": 1,
        "model": "model.tflite",
        "sha256": hashlib.sha256(b"content").hexdigest(),
        "plan": {**plan, "options": [["cpu.flags", "1"]], "cache": "", "cores": [0, 1]},
        "workload": {"signature": "", "shapes": [["x", [1, 4]]], "seed": 0},
        "inputs": [{"name": "x", "type": "float32", "shape": [1, 4]}],
        "outputs": [{"name": "y", "type": "int8", "shape": [1], "scale": 1, "zero_point": -3}],
        "preprocess": "mean=0",
        "label_offset": 1,
        "labels": ["cat"],
        "measured": {"speedup": 2.4},
    }
    (tmp_path / "plan.json").write_text(json.dumps(content))
    found = read_bundle(tmp_path)
    assert found.plan == Plan(threads=2, options=(("cpu.flags", "1"),), cores=(0, 1))
    assert found.workload == Workload(shapes=(("x", (1, 4)),))
    assert found.inputs == (BundleTensor("x", "float32", (1, 4)),)
    assert found.outputs == (BundleTensor("y", "int8", (1,), 1.0, -3),)
    assert (found.labels, found.label_offset, found.preprocess) == (("cat",), 1, "mean=0")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_plan_is_an_error_or_a_bundle_and_never_anything_else(folder: Path, data: st.DataObject) -> None:
    path = folder / "plan.json"
    whole = path.read_bytes()
    content = bytearray(whole)
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[position] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content)[: data.draw(st.integers(0, len(content)))])
    try:
        found = read_bundle(path.parent)
    except (DataError, ModelError):
        return
    finally:
        path.write_bytes(whole)
    assert isinstance(found, Bundle)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_value_of_any_other_type_is_an_error_or_a_bundle(folder: Path, data: st.DataObject) -> None:
    path = folder / "plan.json"
    whole = path.read_bytes()
    content = json.loads(whole)
    place = data.draw(st.sampled_from([content, content["plan"], content["workload"], content["inputs"][0]]))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(_JSON)
    path.write_text(json.dumps(content))
    try:
        found = read_bundle(path.parent)
    except (DataError, ModelError):
        return
    finally:
        path.write_bytes(whole)
    assert isinstance(found, Bundle)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("model", "../some.tflite", "outside"),
        ("model", "/etc/passwd", "outside"),
        ("model", ".", "outside"),
        ("model", "gone.tflite", "missing"),
        ("sha256", "0" * 64, "SHA-256"),
        ("hasten_bundle", 2, "format 2"),
        ("hasten_bundle", "1", "not the plan of a bundle"),
        ("plan", {"threads": "2"}, "threads is '2'"),
        ("plan", {"threads": True}, "threads is True"),
        ("plan", {"threads": 0}, "from 1 to 1024"),
        ("plan", {"speed": 9}, "no setting 'speed'"),
        ("labels", [1, 2], "labels"),
        ("inputs", [{"name": "x", "type": "int8", "shape": [1], "scale": -1}], "scale"),
        ("inputs", [{"name": "x", "type": "int8"}], r"inputs\[0\].shape is missing"),
        ("outputs", [{"name": "x", "type": "int8", "shape": ["1"]}], r"outputs\[0\].shape\[0\] is '1'"),
        ("workload", {"shapes": [["x", [0]]]}, "the shape of 'x'"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, key: str, value: Any, said: str) -> None:
    path = folder / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(HastenError, match=said) as caught:
        read_bundle(folder)
    assert caught.value.exit_code == 3
    assert caught.value.hint


def test_a_link_that_leads_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / "model.tflite").unlink()
    (folder / "model.tflite").symlink_to(folder.parent / "some.tflite")
    with pytest.raises(DataError, match="outside"):
        read_bundle(folder)


def test_a_model_changed_behind_its_back_is_noticed(folder: Path) -> None:
    (folder / "model.tflite").write_bytes(b"another")
    with pytest.raises(ModelError, match="not the model of this bundle"):
        read_bundle(folder)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "out"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not part of a bundle"):
        _bundle(tmp_path)
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_another_programs_plan_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "out"
    foreign.mkdir()
    (foreign / "plan.json").write_text('{"steps": []}')
    with pytest.raises(UsageError, match="not part of a bundle"):
        _bundle(tmp_path)


def test_a_better_model_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    _bundle(tmp_path)
    better = _bundle(tmp_path, measured={"speedup": 3.0})
    assert read_bundle(better.folder).measured == {"speedup": 3.0}
    assert sorted(path.name for path in better.folder.iterdir()) == ["model.tflite", "plan.json"]


def test_a_bundle_may_join_the_session_that_led_to_it(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    writer = SessionWriter(tmp_path / "out" / "session.jsonl")
    writer.add("settings", "tune", {})
    writer.close()
    assert read_bundle(_bundle(tmp_path).folder).labels == ("cat", "dog")


def test_a_file_is_no_place_for_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="is a file"):
        refuse_foreign_folder(tmp_path / "out")


def test_only_a_folder_with_a_plan_is_a_bundle(folder: Path) -> None:
    assert is_bundle(folder)
    assert not is_bundle(folder.parent)
    assert not is_bundle(folder / "plan.json")
    assert not is_bundle(folder / "\0")


def test_a_place_that_cannot_be_written_is_said_and_left_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _bundle(tmp_path, measured={"speedup": 2.0})

    def full(source: IO[bytes], target: IO[bytes]) -> None:
        target.write(b"half of")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(DataError, match="No space left on device"):
        _bundle(tmp_path, measured={"speedup": 3.0})
    assert sorted(path.name for path in before.folder.iterdir()) == ["model.tflite", "plan.json"]
    assert read_bundle(before.folder).measured == {"speedup": 2.0}, "the older bundle is whole"

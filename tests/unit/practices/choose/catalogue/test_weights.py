"""Trained weights: from a hub to the cache and to the user's folder, with a sentence for everything that goes wrong."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from hasten.cli.main import main
from hasten.core.errors import DataError, HastenError, ModelError, UsageError
from hasten.model import example_models
from hasten.practices.choose import catalogue
from hasten.practices.choose.catalogue import download as downloads
from tests.unit.practices.choose.catalogue.hub import HUB, STORE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.unit.practices.choose.catalogue.hub import Hub

MODEL = example_models.matmul_chain(4, 64, 2)
OTHER = example_models.matmul_chain(4, 64, 2, seed=1)
REPOSITORY, FILE = "litert-community/Toy", "toy.tflite"
ON_HUB = f"/{REPOSITORY}/resolve/main/{FILE}"
HUGGING_FACE = f"hf:{REPOSITORY}/{FILE}"
KAGGLE = "kaggle:tensorflow/toy/tfLite/small"


def listed(folder: Path, *weights: str) -> list[Path]:
    """A catalogue of one model whose weights are there."""
    path = folder / "catalogue.toml"
    rows = ",\n".join(f"{{ {one} }}" for one in weights)
    path.write_text(
        f'[[models]]\nname = "toy"\ntask = "toys"\ninput_size = 4\nweights = [\n{rows}\n]\n', encoding="utf-8"
    )
    return [path]


def at(location: str, **more: str) -> str:
    return ", ".join(f'{key} = "{value}"' for key, value in {"location": location, **more}.items())


def got(name: str, folder: Path | None = None, *, precision: str = "", files: Sequence[Path] = ()) -> Path:
    return catalogue.get(name, folder, precision=precision, files=files).path


def tar_of(**files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_of(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def with_headers(archive: bytes, offset: int, value: int) -> bytes:
    """The archive with this number in the header of its one file, and in the list of files."""
    changed = bytearray(archive)
    for signature, start in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        changed[changed.rindex(signature) + start + offset] = value
    return bytes(changed)


def encrypted(archive: bytes) -> bytes:
    return with_headers(archive, 0, 1)


def of_unknown_method(archive: bytes) -> bytes:
    return with_headers(archive, 2, 99)


def test_hugging_face_gives_a_verified_file_once(hub: Hub, tmp_path: Path, model_cache: Path) -> None:
    hub.add_hugging_face(REPOSITORY, FILE, MODEL)
    files = listed(tmp_path, at(HUGGING_FACE))
    path = got("toy", files=files)
    assert path.read_bytes() == MODEL
    assert list(model_cache.iterdir()) == [path]
    assert [one.host for one in hub.asked] == [HUB, STORE]
    hub.close()
    assert got("toy", files=files) == path


def test_a_token_is_for_the_hub_only(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add_hugging_face(REPOSITORY, FILE, MODEL)
    got("toy", files=listed(tmp_path, at(HUGGING_FACE)))
    assert [one.headers.get("Authorization") for one in hub.asked] == ["Bearer hf_secret", None]


def test_a_revision_is_asked_for(hub: Hub, tmp_path: Path) -> None:
    hub.add_file(f"/{REPOSITORY}/resolve/abc123/{FILE}", MODEL)
    files = listed(tmp_path, at(f"hf:{REPOSITORY}@abc123/{FILE}"))
    assert got("toy", files=files).read_bytes() == MODEL


def test_kaggle_gives_an_archive_of_its_newest_version(
    hub: Hub, tmp_path: Path, model_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAGGLE_USERNAME", "user")
    monkeypatch.setenv("KAGGLE_KEY", "key")
    hub.add_kaggle("tensorflow/toy/tfLite/small", 3, tar_of(**{"3.tflite": MODEL}))
    path = got("toy", files=listed(tmp_path, at(KAGGLE)))
    assert path.read_bytes() == MODEL
    assert list(model_cache.iterdir()) == [path]
    assert [(one.host, one.headers.get("Authorization")) for one in hub.asked] == [
        (HUB, "Basic dXNlcjprZXk="),
        (HUB, "Basic dXNlcjprZXk="),
        (STORE, None),
    ]


def test_kaggle_is_not_asked_for_a_version_that_is_given(hub: Hub, tmp_path: Path) -> None:
    hub.add_kaggle("tensorflow/toy/tfLite/small", 2, tar_of(**{"2.tflite": MODEL}))
    assert got("toy", files=listed(tmp_path, at(f"{KAGGLE}/2"))).read_bytes() == MODEL
    assert len(hub.asked) == 2


def test_a_cut_archive_continues(hub: Hub, tmp_path: Path) -> None:
    hub.add_kaggle("tensorflow/toy/tfLite/small", 2, tar_of(**{"2.tflite": MODEL}), cuts=[1000])
    assert got("toy", files=listed(tmp_path, at(f"{KAGGLE}/2"))).read_bytes() == MODEL


@pytest.mark.parametrize(
    "content",
    [
        tar_of(**{"./deep/wanted.tflite": MODEL, "other.tflite": OTHER, "notes.txt": b"x"}),
        zip_of(**{"deep/wanted.tflite": MODEL, "other.tflite": OTHER}),
        MODEL,
        MODEL + zip_of(**{"labels.txt": b"cat"}),  # a model with metadata ends like a zip
    ],
    ids=["tar", "zip", "plain", "with metadata"],
)
def test_the_model_is_found_in_what_an_address_gives(hub: Hub, tmp_path: Path, content: bytes) -> None:
    hub.add_file("/files/model", content)
    digest = hashlib.sha256(content).hexdigest()
    files = listed(tmp_path, at(f"{hub.url}/files/model", member="wanted.tflite", sha256=digest))
    assert got("toy", files=files).read_bytes().startswith(MODEL)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>Please log in</html>",
        tar_of(**{"a.tflite": MODEL, "b.tflite": OTHER}),
        tar_of(**{"readme.txt": b"x"}),
        zip_of(**{"a.tflite": b"not a model"}),
        tar_of(**{"a.tflite": MODEL})[:-200],
        zip_of(**{"a.tflite": MODEL})[:-200],
        MODEL[:200],
        b"",
        encrypted(zip_of(**{"a.tflite": MODEL})),
        of_unknown_method(zip_of(**{"a.tflite": MODEL})),
    ],
    ids=[
        *("page", "several", "none", "damaged model", "cut tar", "cut zip", "cut model", "empty"),
        *("encrypted", "unknown method"),
    ],
)
def test_what_holds_no_model_leaves_nothing_in_the_cache(
    hub: Hub, tmp_path: Path, model_cache: Path, content: bytes
) -> None:
    hub.add_file("/files/model", content)
    with pytest.raises(HastenError) as caught:
        got("toy", files=listed(tmp_path, at(f"{hub.url}/files/model")))
    assert caught.value.exit_code == 3
    assert list(model_cache.iterdir()) == []


def test_an_archive_cannot_write_where_it_likes(hub: Hub, tmp_path: Path, model_cache: Path) -> None:
    hub.add_file("/files/model", tar_of(**{"../../../evil.tflite": MODEL}))
    path = got("toy", files=listed(tmp_path, at(f"{hub.url}/files/model")))
    assert path.parent == model_cache
    assert not list(tmp_path.rglob("evil*"))


def test_a_wrong_checksum_is_refused_and_no_other_place_is_tried(hub: Hub, tmp_path: Path, model_cache: Path) -> None:
    hub.add_hugging_face(REPOSITORY, FILE, OTHER, sha256=hashlib.sha256(MODEL).hexdigest())
    hub.add_file("/files/model", MODEL)
    with pytest.raises(ModelError) as caught:
        got("toy", files=listed(tmp_path, at(HUGGING_FACE), at(f"{hub.url}/files/model")))
    assert caught.value.code == downloads.WRONG_CHECKSUM
    assert list(model_cache.iterdir()) == []
    assert not hub.asked_for("/files/model")


def test_a_file_without_a_checksum_is_called_unverified_then_and_later(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add_file("/files/model", MODEL)
    files = listed(tmp_path, at(f"{hub.url}/files/model"))
    first, again = (catalogue.get("toy", files=files) for _ in range(2))
    copied = catalogue.get("toy", tmp_path / "mine", files=files)
    assert [one.is_verified for one in (first, again, copied)] == [False, False, False]
    assert first.path == again.path
    assert len(hub.asked) == 1
    assert main(["choose", "--get", "toy", "--catalogue", str(files[0]), "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == {"model": str(first.path), "verified": False}
    assert "not verified" in told.err
    known = listed(tmp_path, at(f"{hub.url}/files/model", sha256=hashlib.sha256(MODEL).hexdigest()))
    assert catalogue.get("toy", files=known).is_verified


@pytest.mark.parametrize("named", ["", hashlib.sha256(MODEL).hexdigest(), hashlib.sha256(OTHER).hexdigest()])
def test_a_file_of_a_release_that_verified_nothing_is_verified_by_its_checksum_only(
    hub: Hub, tmp_path: Path, model_cache: Path, named: str
) -> None:
    location = f"{hub.url}/files/model"
    key = hashlib.sha256("\0".join((location, "", named)).encode()).hexdigest()[:16]
    model_cache.mkdir(parents=True, exist_ok=True)
    (model_cache / f"toy_float32-{key}.tflite").write_bytes(MODEL)
    found = catalogue.get("toy", files=listed(tmp_path, at(location, **({"sha256": named} if named else {}))))
    assert found.path.read_bytes() == MODEL
    assert found.is_verified is (named == hashlib.sha256(MODEL).hexdigest())
    assert hub.asked == []


def test_a_verified_file_is_called_verified_later(hub: Hub, tmp_path: Path) -> None:
    hub.add_hugging_face(REPOSITORY, FILE, MODEL)
    files = listed(tmp_path, at(HUGGING_FACE))
    assert [catalogue.get("toy", files=files).is_verified for _ in range(2)] == [True, True]


def test_an_address_that_anybody_could_answer_for_needs_a_checksum(model_cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not encrypted"):
        got("toy", files=listed(tmp_path, at("http://models.example/toy.tflite")))


def test_the_checksum_of_a_local_file_counts(model_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.tflite").write_bytes(OTHER)
    with pytest.raises(ModelError, match="wrong checksum"):
        got("toy", files=listed(tmp_path, at("mine.tflite", sha256=hashlib.sha256(MODEL).hexdigest())))
    right = listed(tmp_path, at("mine.tflite", sha256=hashlib.sha256(OTHER).hexdigest()))
    assert got("toy", files=right) == tmp_path / "mine.tflite"


def test_the_next_place_is_tried_when_one_fails(hub: Hub, tmp_path: Path) -> None:
    hub.refuse(ON_HUB, 404, X_Error_Code="EntryNotFound")
    hub.add_file("/files/model", MODEL)
    files = listed(tmp_path, at(HUGGING_FACE), at(f"{hub.url}/files/model"))
    assert got("toy", files=files).read_bytes() == MODEL


def test_when_all_fail_the_first_is_told(hub: Hub, tmp_path: Path) -> None:
    hub.refuse(ON_HUB, 401, X_Error_Code="GatedRepo")
    with pytest.raises(ModelError) as caught:
        got("toy", files=listed(tmp_path, at(HUGGING_FACE), at(f"{hub.url}/none")))
    assert caught.value.code == downloads.UNAUTHORIZED
    assert "HF_TOKEN" in caught.value.hint
    assert REPOSITORY in caught.value.hint


@pytest.mark.parametrize("answer", [b"[]", b"{}", b"no JSON", b'{"versionNumber": "../../other"}'])
def test_an_answer_of_kaggle_that_makes_no_sense_is_an_error(hub: Hub, tmp_path: Path, answer: bytes) -> None:
    hub.replies["/api/v1/models/tensorflow/toy/tfLite/small/get"] = 200, {}, answer
    with pytest.raises(HastenError) as caught:
        got("toy", files=listed(tmp_path, at(KAGGLE)))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("location", ["hf:owner/repository", "kaggle:owner/model", "hf:", "hf://x/y"])
def test_an_incomplete_location_is_an_error(hub: Hub, tmp_path: Path, location: str) -> None:
    with pytest.raises(DataError):
        got("toy", files=listed(tmp_path, at(location)))


def test_a_local_folder_needs_no_network(model_cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mine.tflite").write_bytes(MODEL)
    files = listed(tmp_path, at("models"))
    assert got("toy", files=files) == folder / "mine.tflite"
    (folder / "second.tflite").write_bytes(MODEL)
    with pytest.raises(DataError):
        got("toy", files=files)
    assert got("toy", files=listed(tmp_path, at("models", member="second.tflite"))).name == "second.tflite"
    for member in ("/etc/*.tflite", "/"):
        with pytest.raises(DataError, match="contains 0 models"):
            got("toy", files=listed(tmp_path, at("models", member=member)))
    with pytest.raises(ModelError):
        got("toy", files=listed(tmp_path, at("models/none.tflite")))


def test_the_users_folder_gets_a_copy_and_keeps_what_it_has(hub: Hub, tmp_path: Path) -> None:
    hub.add_hugging_face(REPOSITORY, FILE, MODEL)
    files = listed(tmp_path, at(HUGGING_FACE))
    folder = tmp_path / "out" / "deep"
    path = got("toy", folder, files=files)
    assert path == folder / "toy_float32.tflite"
    assert path.read_bytes() == MODEL
    assert got("toy", folder, files=files) == path
    path.write_bytes(b"mine")
    with pytest.raises(UsageError):
        got("toy", folder, files=files)
    assert path.read_bytes() == b"mine"


def test_a_precision_is_never_replaced_by_another(hub: Hub, tmp_path: Path) -> None:
    hub.add_hugging_face(REPOSITORY, FILE, MODEL)
    hub.add_file("/int8", OTHER)
    files = listed(tmp_path, at(HUGGING_FACE), at(f"{hub.url}/int8", precision="int8"))
    assert got("toy", files=files, precision="int8").read_bytes() == OTHER
    assert got("toy", files=files).read_bytes() == MODEL
    with pytest.raises(UsageError) as caught:
        got("toy", files=files, precision="int4")
    assert "float32" in caught.value.hint
    assert "int8" in caught.value.hint


def test_another_training_is_taken_only_if_asked_for(hub: Hub, tmp_path: Path) -> None:
    hub.add_file("/other", OTHER)
    files = listed(tmp_path, at(f"{hub.url}/none", weights="first"), at(f"{hub.url}/other", weights="Second (2024)"))
    with pytest.raises(ModelError) as caught:
        got("toy", files=files)
    assert "toy@second-2024" in caught.value.hint
    assert not hub.asked_for("/other")
    path = got("toy@second-2024", tmp_path / "out", files=files)
    assert path.name == "toy_second-2024_float32.tflite"
    assert path.read_bytes() == OTHER
    with pytest.raises(UsageError):
        got("toy@third", files=files)


def test_an_unknown_name_is_told_with_those_that_are_near() -> None:
    with pytest.raises(UsageError) as caught:
        got("mobilnet_v2_1.0_224")
    assert "mobilenet_v2_1.0_224" in caught.value.hint


def test_a_model_without_weights_says_so() -> None:
    with pytest.raises(UsageError):
        got("mnasnet_a1_1.0_224")

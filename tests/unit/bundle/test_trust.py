"""A bundle of a stranger: it loads no code and touches nothing outside its folder, unless the user trusts it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hasten
from hasten.bundle.folder import read_bundle, write_bundle
from hasten.bundle.record import Bundle
from hasten.bundle.trust import code_descriptions
from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.plan import OPTION_KEY, Plan
from hasten.demo import MODEL
from hasten.engine.options import OPTION_KEYS, option_texts

OUTSIDE = "/somewhere/else"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_bundle(MODEL, Bundle(tmp_path / "tuned")).folder


def poison(folder: Path, **settings: Any) -> None:
    """Change the bundle's plan as somebody with an editor would."""
    path = folder / "plan.json"
    content = json.loads(path.read_text())
    content["plan"] |= settings
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("delegate", ["evil.so", "evil.so:key=value", "/bin/true", "../evil.so", "missing.so"])
def test_a_library_is_loaded_only_with_trust(folder: Path, delegate: str) -> None:
    (folder / "evil.so").write_bytes(b"code")
    poison(folder, delegate=delegate)
    for open_bundle in (read_bundle, hasten.read_bundle, hasten.Runner):
        with pytest.raises(DataError, match="can run any code") as caught:
            open_bundle(folder)
        assert "--trust-bundle" in caught.value.hint
        assert "trust_bundle=True" in caught.value.hint


def test_the_hash_of_the_library_is_told(folder: Path) -> None:
    (folder / "evil.so").write_bytes(b"code")
    poison(folder, delegate="evil.so")
    with pytest.raises(DataError, match=hashlib.sha256(b"code").hexdigest()):
        read_bundle(folder)


@pytest.mark.parametrize("library", ["/dev/zero", "/dev/stdin", "zero", "pipe", "../outside.so", "circle"])
@pytest.mark.parametrize("setting", ["delegate", "kernels"])
def test_only_files_inside_are_read_to_refuse_them(folder: Path, library: str, setting: str) -> None:
    (folder.parent / "outside.so").write_bytes(b"code")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    poison(folder, **{setting: library if setting == "delegate" else [library]})
    with pytest.raises(DataError, match="can run any code") as caught:
        read_bundle(folder)
    assert "SHA-256" not in caught.value.message
    assert "SHA-256" not in "".join(code_descriptions(Plan(kernels=("/dev/zero", str(folder / "pipe")))))


@pytest.mark.parametrize("file", ["model.tflite", "plan.json"])
def test_a_pipe_in_place_of_a_file_is_refused(folder: Path, file: str) -> None:
    (folder / file).unlink()
    os.mkfifo(folder / file)
    with pytest.raises(HastenError, match="Not a regular file"):
        read_bundle(folder)


@pytest.mark.parametrize("name", ["\0", "a\0b", "\ud800"])
@pytest.mark.parametrize("setting", ["delegate", "cache", "kernels"])
def test_what_cannot_be_the_name_of_a_file_is_damage(folder: Path, setting: str, name: str) -> None:
    poison(folder, **{setting: [name] if setting == "kernels" else name})
    for trust in (False, True):
        with pytest.raises(DataError, match="is damaged"):
            read_bundle(folder, trust_bundle=trust)


@pytest.mark.parametrize("name", ["circle", "circle/model.tflite", "\0", "\ud800"])
def test_a_model_that_cannot_be_found_is_damage(folder: Path, name: str) -> None:
    (folder / "circle").symlink_to("circle")
    content = json.loads((folder / "plan.json").read_text()) | {"model": name}
    (folder / "plan.json").write_text(json.dumps(content))
    with pytest.raises(HastenError) as caught:
        read_bundle(folder)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("kernel", ["evil.so", "evil.so:evil.py", "/bin/true", "../evil.so"])
def test_kernels_are_loaded_only_with_trust(folder: Path, kernel: str) -> None:
    (folder / "evil.so").write_bytes(b"code")
    poison(folder, kernels=[kernel])
    for open_bundle in (read_bundle, hasten.Runner):
        with pytest.raises(DataError, match=r"loads the kernel library .*can run any code"):
            open_bundle(folder)
    poison(folder, kernels=["evil.so"])
    assert read_bundle(folder, trust_bundle=True).plan.kernels == (f"{folder}/evil.so",)


def test_with_trust_the_library_of_the_bundle_is_meant_and_not_one_of_the_working_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(folder, delegate="lib.so:key=value")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib.so").write_bytes(b"another")
    assert read_bundle(folder, trust_bundle=True).plan.delegate == f"{folder}/lib.so:key=value"


def test_runner_logs_the_library_before_it_is_loaded(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "evil.so").write_bytes(b"no library")
    poison(folder, delegate="evil.so")
    with caplog.at_level(logging.INFO, "hasten"), pytest.raises(hasten.AcceleratorError, match="does not load"):
        hasten.Runner(folder, trust_bundle=True)
    assert hashlib.sha256(b"no library").hexdigest() in caplog.text


def test_a_plan_of_ones_own_takes_the_place_of_the_bundles(folder: Path) -> None:
    poison(folder, delegate="evil.so", cache=OUTSIDE)
    with hasten.Runner(folder, Plan(threads=2)) as runner:
        assert runner.plan == Plan(threads=2)


@pytest.mark.parametrize("cache", [OUTSIDE, "..", ".", "../elsewhere", "inside/../../elsewhere", "link", "link/deep"])
def test_a_cache_outside_is_refused_and_nothing_is_written(folder: Path, tmp_path: Path, cache: str) -> None:
    (tmp_path / "target").mkdir()
    (folder / "link").symlink_to(tmp_path / "target")
    poison(folder, cache=cache)
    for open_bundle in (read_bundle, hasten.Runner):
        with pytest.raises(DataError, match="outside its folder"):
            open_bundle(folder)
    assert list((tmp_path / "target").iterdir()) == []
    assert not Path(OUTSIDE).exists()


def test_a_link_inside_the_cache_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (folder / "cache").mkdir()
    (folder / "cache" / "weights.xnnpack_cache").symlink_to(tmp_path / "precious")
    poison(folder, cache="cache")
    with pytest.raises(DataError, match="symbolic link"):
        hasten.Runner(folder)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_cache_inside_is_used_there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(folder, cache="cache")
    monkeypatch.chdir(tmp_path)
    with hasten.Runner(folder) as runner:
        runner.run()
    assert any((folder / "cache").iterdir())
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cpu.weight_cache_file_path", f'"{OUTSIDE}"'),
        ("cpu.weight_cache_file_path", f"'{OUTSIDE}'"),
        ("gpu.serialization_dir", f'"{OUTSIDE}"'),
        ("gpu.model_cache_key", '"../../x"'),
        ("npu.configs_map.CACHE_DIR", f'"{OUTSIDE}"'),
        (f'npu.configs_map.CACHE_DIR = "{OUTSIDE}" #', "1"),
        (f'npu.configs_map."x" = "{OUTSIDE}" #', "1"),
        ("cpu.flags", f'1\nweight_cache_file_path = "{OUTSIDE}"'),
    ],
)
def test_an_engine_option_that_may_be_a_path_needs_trust(folder: Path, key: str, value: str) -> None:
    poison(folder, options=[[key, value]])
    with pytest.raises(DataError, match="may be a path"):
        read_bundle(folder)
    assert read_bundle(folder, trust_bundle=True).plan.options == ((key, value),)


@pytest.mark.parametrize("value", ["1", "-1", "0x10", "1.5", "true", "false"])
def test_engine_options_that_are_numbers_need_none(folder: Path, value: str) -> None:
    poison(folder, options=[["cpu.flags", value]])
    assert read_bundle(folder).plan.options == (("cpu.flags", value),)


@pytest.mark.parametrize(
    "option",
    [
        ("cpu.flags", '1\nweight_cache_file_path = "x"'),
        ("npu.graph.0\nconfigs_map", "1"),
        ('npu.configs_map.CACHE_DIR = "/elsewhere" #', "1"),
        ("npu.configs_map.a b", "1"),
    ],
)
def test_no_option_begins_another(option: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=r"one line|has no option"):
        option_texts(Plan(options=(option,)), profiling=False)


def test_every_option_of_the_engine_has_a_plain_key() -> None:
    assert all(OPTION_KEY.fullmatch(key) for keys in OPTION_KEYS.values() for key in keys)


def test_a_bundle_made_here_keeps_its_library_wherever_it_is_opened_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bundle(MODEL, Bundle(tmp_path / "out", plan=Plan(delegate="lib/mine.so:a=b", cache="out/cache")))
    monkeypatch.chdir("/")
    plan = read_bundle(tmp_path / "out", trust_bundle=True).plan
    assert plan.delegate == f"{tmp_path}/lib/mine.so:a=b"
    assert plan.cache == f"{tmp_path}/out/cache"
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["plan"]["cache"] == "cache", "it may move"


def test_a_new_bundle_does_not_follow_links_in_its_folder(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "model.tflite").unlink()
    (folder / "model.tflite").symlink_to(precious)
    write_bundle(MODEL, replace(Bundle(folder), plan=Plan(threads=2)))
    assert precious.read_text() == "mine"
    assert read_bundle(folder).plan == Plan(threads=2)

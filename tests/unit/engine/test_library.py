"""The engine's library: only a known release is used, and its absence is one sentence with a command."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hasten.core.errors import TargetError
from hasten.core.shared_library import is_cut_off
from hasten.engine import abi, library

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _loaded_anew() -> Iterator[None]:
    library.load.cache_clear()
    yield
    library.load.cache_clear()


def pretend_release(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: release)


@pytest.mark.parametrize("release", ["2.2.0", "2.3.1", "3.0.0", "nightly"])
def test_an_unknown_release_is_refused(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    pretend_release(monkeypatch, release)
    with pytest.raises(TargetError, match=f"supports LiteRT 2.3.0, but {release} is installed") as caught:
        library.load()
    assert "pip install ai-edge-litert==2.3.0" in caught.value.hint


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(TargetError, match="LiteRT is not installed") as caught:
        library.load()
    assert caught.value.hint == "Install it: pip install ai-edge-litert==2.3.0"


def test_a_package_without_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(TargetError, match="cannot be imported"):
        library.load()


def test_a_package_without_its_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("ai_edge_litert")
    assert spec is not None
    monkeypatch.setattr(spec, "submodule_search_locations", [str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    with pytest.raises(TargetError, match="does not load"):
        library.load()


def test_a_library_that_ends_too_early_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("ai_edge_litert")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    whole = Path(spec.submodule_search_locations[0]) / "libLiteRt.so"
    (tmp_path / whole.name).write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    monkeypatch.setattr(spec, "submodule_search_locations", [str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    with pytest.raises(TargetError, match="is damaged: it ends too early"):
        library.release()
    assert not is_cut_off(whole)


def test_a_library_that_lacks_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(library._CHECKED, "LiteRtMakeCoffee", ())
    with pytest.raises(TargetError, match="LiteRtMakeCoffee"):
        library.load()


def test_a_status_is_named() -> None:
    assert str(library.EngineError("LiteRtX", 3)) == "LiteRtX answered runtime failure (3)"
    assert "an unknown status (77)" in str(library.EngineError("LiteRtX", 77))


def test_element_types_have_one_name_each() -> None:
    names = [name for name, _ in abi.ELEMENT_TYPES.values()]
    assert len(names) == len(set(names))

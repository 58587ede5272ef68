"""A hub on loopback, and an empty cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.practices.choose.catalogue.hub import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.practices.choose.catalogue.hub import Hub


@pytest.fixture
def model_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's caches, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hasten" / "models"


@pytest.fixture
def hub(model_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that both of the hubs' names lead to, without proxies and secrets of the machine."""
    for name in ("HF_TOKEN", "KAGGLE_USERNAME", "KAGGLE_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    with running() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("KAGGLE_API_ENDPOINT", f"{hub.url}/")
        yield hub

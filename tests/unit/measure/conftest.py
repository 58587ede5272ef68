"""The simulated clock in place of the real one, wherever measuring looks at the time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from simulated import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("bench", "compare", "profiling", "rounds", "sustained"):
        monkeypatch.setattr(f"hasten.measure.{module}.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock

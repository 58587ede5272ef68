"""A worker's site on this machine without Dask, and an order for a tiny model: what jobs do, where no network is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.fleet import serving
from hasten.fleet.order import make_order
from hasten.fleet.parcel import messages
from hasten.fleet.place import Site, Stream
from hasten.practices.help.facts import Device
from hasten.search.settings import SearchSettings
from hasten.targets.base import LOCAL
from hasten.targets.local import LocalTarget
from tests.example_models import mobilenet_like

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from hasten.fleet.order import Order
    from hasten.fleet.parcel import Sources

DEVICE = "here"
SETTINGS = SearchSettings(recipes=("float16",), mix=False, extras=False, max_drop=0.5, command="hasten tune x")


def write_subject(folder: Path, samples: int = 24) -> tuple[Path, Path]:
    """A tiny model and data for it."""
    model, data = folder / "tiny.tflite", folder / "inputs.npz"
    model.write_bytes(mobilenet_like(8, 1, 16))
    # Noise alone would always get the same answer.
    colors = np.random.default_rng(0).normal(0, 4, (samples, 1, 1, 3))
    np.savez(data, x=(colors * np.ones((1, 16, 16, 1))).astype(np.float32))
    return model, data


def order_for(
    subject: tuple[Path, Path], sources: Sources, seconds: float = 3.0, settings: SearchSettings = SETTINGS
) -> Order:
    """What a run would ask for."""
    model, data = subject
    return make_order("run", (model, Plan(), Workload()), Data(str(data)), settings, seconds, sources)


def settle(folder: Path, monkeypatch: pytest.MonkeyPatch, sources: Sources | None = None) -> Site:
    """Make this process a worker's that offers this machine, with these contents sent to it."""
    device = Device(DEVICE, LocalTarget.capabilities, LocalTarget().machine())
    site = Site(folder, {DEVICE: device}, {DEVICE: LOCAL})
    monkeypatch.setattr(serving, "_site", site)
    for message in messages(sources or {}, sources or {}):
        site.store.put(message)
    return site


class Told:
    """Keeps what a job tells; `until` says how many tales are wanted before nobody wants the result any more."""

    def __init__(self, until: float = float("inf"), die: Callable[[], None] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self._until, self._die = until, die

    @property
    def stream(self) -> Stream:
        return Stream(self._hear, DEVICE, lambda: len(self.lines) < self._until)

    @property
    def lines(self) -> list[str]:
        """The lines of the session that were sent."""
        return "".join(event["lines"] for event in self.events if "lines" in event).splitlines()

    def _hear(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if self._die is not None and len(self.lines) >= 6:
            self._die()

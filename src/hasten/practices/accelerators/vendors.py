"""NPUs of other vendors: LiteRT's package brings what compiles for them, and not what runs on them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.plan import Plan
from hasten.practices.accelerators.facts import MISSING, AcceleratorRow

if TYPE_CHECKING:
    from collections.abc import Iterator

_DRIVEN: Final = "intel_openvino"
"""The vendor behind the row called npu."""


def vendor_rows(threads: int, folder: Path | None = None) -> list[AcceleratorRow]:
    """A row for each vendor whose compiler plugin is installed here, saying what is missing to run on its device."""
    found = folder or _vendors_folder()
    return [] if found is None else list(_rows(threads, found))


def _rows(threads: int, folder: Path) -> Iterator[AcceleratorRow]:
    for plugin in sorted(folder.glob("*/compiler/libLiteRtCompilerPlugin*.so")):
        vendor = plugin.parents[1].name
        if vendor == _DRIVEN:
            continue
        dispatch = sorted((plugin.parents[1] / "dispatch").glob("libLiteRtDispatch*.so"))
        lacking = (
            f"its dispatch library {dispatch[0].name} is there, but hasten has not learned to drive it"
            if dispatch
            else f"no dispatch library (libLiteRtDispatch*.so) is in vendors/{vendor}/dispatch of ai_edge_litert"
        )
        why = f"its compiler plugin {plugin.name} is installed; {lacking}"
        yield AcceleratorRow(f"npu {vendor}", Plan(threads=threads, accelerator="npu"), MISSING, why)


def _vendors_folder() -> Path | None:
    spec = importlib.util.find_spec("ai_edge_litert")
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) / "vendors" if places else None

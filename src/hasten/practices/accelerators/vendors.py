"""NPUs of other vendors: LiteRT's package brings what compiles for them, and not what runs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.plan import Plan
from hasten.practices.accelerators.facts import MISSING, AcceleratorRow

if TYPE_CHECKING:
    from hasten.core.machine import Machine, Vendor

_DRIVEN: Final = "intel_openvino"
"""The vendor behind the row called npu."""


def vendor_rows(threads: int, machine: Machine) -> list[AcceleratorRow]:
    """A row for each vendor whose compiler plugin is installed there, saying what is missing to run on its device."""
    plan = Plan(threads=threads, accelerator="npu")
    return [
        AcceleratorRow(f"npu {vendor.name}", plan, MISSING, _why(vendor))
        for vendor in machine.vendors
        if vendor.name != _DRIVEN
    ]


def _why(vendor: Vendor) -> str:
    lacking = (
        f"its dispatch library {vendor.dispatch} is there, but hasten has not learned to drive it"
        if vendor.dispatch
        else f"no dispatch library (libLiteRtDispatch*.so) is in vendors/{vendor.name}/dispatch of ai_edge_litert"
    )
    return f"its compiler plugin {vendor.compiler} is installed; {lacking}"

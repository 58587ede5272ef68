"""What each accelerator needs on this machine: its libraries, and the environment a process must start with."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import AcceleratorError

if TYPE_CHECKING:
    from hasten.core.plan import Plan

# The plugin of the wheel asks for libopenvino.so.2631, which is in this release and no other.
OPENVINO_RELEASE: Final = "2026.3.1"
# Where Debian's chromium keeps its software Vulkan device; a machine with a real GPU has a driver of its own.
_SWIFTSHADER: Final = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
_VULKAN_DRIVERS: Final = (Path("/usr/share/vulkan/icd.d"), Path("/etc/vulkan/icd.d"))


def npu_folder(engine_folder: Path) -> Path:
    """The folder with the compiler plugin and the dispatch library of the NPU."""
    return engine_folder / "vendors" / "intel_openvino"


def npu_options() -> dict[str, str]:
    """Options for the Intel plugin: OpenVINO's CPU back end where the machine has no NPU."""
    return {} if Path("/dev/accel/accel0").exists() else {"graph.0.graph_backend": "0"}


def process_environment(plan: Plan) -> dict[str, str]:
    """The variables that a process needs from its start to use the plan's accelerator.

    The dynamic linker reads LD_LIBRARY_PATH once, and Vulkan's loader reads its variables before any of our code runs.
    """
    if plan.accelerator == "npu" and not plan.delegate:
        return {"LD_LIBRARY_PATH": _prepended("LD_LIBRARY_PATH", str(_openvino_libraries()))}
    if plan.accelerator == "gpu":
        return _gpu_environment()
    return {}


def _openvino_libraries() -> Path:
    spec = importlib.util.find_spec("openvino")
    if spec is None or not spec.submodule_search_locations:
        raise AcceleratorError(
            "the NPU accelerator needs OpenVINO, which is not installed", f"pip install openvino=={OPENVINO_RELEASE}"
        )
    folder = Path(spec.submodule_search_locations[0]) / "libs"
    wanted = "libopenvino.so." + OPENVINO_RELEASE[2:].replace(".", "")
    if not (folder / wanted).exists():
        raise AcceleratorError(
            f"LiteRT's Intel plugin wants {wanted}, which the installed OpenVINO does not have",
            f"pip install openvino=={OPENVINO_RELEASE}",
        )
    return folder


def _gpu_environment() -> dict[str, str]:
    needed: dict[str, str] = {}
    if not os.environ.get("XDG_RUNTIME_DIR"):
        needed["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    chosen_by_user = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if chosen_by_user or any(any(folder.glob("*.json")) for folder in _VULKAN_DRIVERS if folder.is_dir()):
        return needed
    if not _SWIFTSHADER.exists():
        raise AcceleratorError(
            "no Vulkan driver is installed, so the GPU accelerator has no device",
            "Install the GPU's Vulkan driver; for a software device: apt-get install chromium",
        )
    return needed | {"VK_ICD_FILENAMES": str(_SWIFTSHADER), "VK_DRIVER_FILES": str(_SWIFTSHADER)}


def _prepended(name: str, folder: str) -> str:
    rest = os.environ.get(name, "")
    return f"{folder}:{rest}" if rest else folder

"""What each accelerator needs on this machine: its libraries, and the environment a process must start with."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import AcceleratorError
from hasten.core.failure import NOT_INSTALLED
from hasten.core.machine import Vendor

if TYPE_CHECKING:
    from hasten.core.plan import Plan

# The plugin of the wheel asks for libopenvino.so.2631, which is in this release and no other.
OPENVINO_RELEASE: Final = "2026.3.1"
_INSTALL_OPENVINO: Final = f"Install it: pip install openvino=={OPENVINO_RELEASE}"
# Where Debian's chromium keeps its software Vulkan device; a machine with a real GPU has a driver of its own.
_SWIFTSHADER: Final = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
# What the drivers of desktop, NVIDIA, Mali and Adreno GPUs put under /dev.
_GPU_DEVICES: Final = ("dri/renderD*", "nvidia[0-9]*", "mali[0-9]*", "kgsl-3d0")
# The plugin is told its back end for each graph by number, and ignores numbers that the model does not have.
_MOST_GRAPHS: Final = 64


def npu_folder(engine_folder: Path) -> Path:
    """The folder with the compiler plugin and the dispatch library of the NPU."""
    return engine_folder / "vendors" / "intel_openvino"


def npu_options() -> dict[str, str]:
    """Options for the Intel plugin: OpenVINO's CPU back end where the machine has no NPU."""
    if Path("/dev/accel/accel0").exists():
        return {}
    return {f"graph.{index}.graph_backend": "0" for index in range(_MOST_GRAPHS)}


def stand_ins() -> dict[str, str]:
    """What runs in the place of accelerators that this machine does not have; seen from inside a runner."""
    found = {}
    drivers = [os.environ.get(name, "") for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")]
    if any("swiftshader" in driver for driver in drivers) or not (any(drivers) or _has_gpu()):
        found["gpu"] = "a software GPU (SwiftShader), because this machine has no GPU"
    if npu_options():
        found["npu"] = "OpenVINO's CPU back end, because this machine has no NPU"
    return found


def installed_vendors(folder: Path | None = None) -> tuple[Vendor, ...]:
    """The vendors whose NPU compiler plugin is in the installed LiteRT package."""
    vendors = folder or _vendors_folder()
    found = []
    for plugin in sorted(vendors.glob("*/compiler/libLiteRtCompilerPlugin*.so")) if vendors else ():
        dispatch = sorted((plugin.parents[1] / "dispatch").glob("libLiteRtDispatch*.so"))
        found.append(Vendor(plugin.parents[1].name, plugin.name, dispatch[0].name if dispatch else ""))
    return tuple(found)


def process_environment(plan: Plan) -> dict[str, str]:
    """The variables that a process needs from its start to use the plan's accelerator.

    The dynamic linker reads LD_LIBRARY_PATH once, and Vulkan's loader reads its variables before any of our code runs.
    """
    if plan.accelerator == "npu" and not plan.delegate:
        return {"LD_LIBRARY_PATH": _prepended("LD_LIBRARY_PATH", str(_openvino_libraries()))}
    if plan.accelerator == "gpu":
        return _gpu_environment()
    return {}


def _vendors_folder() -> Path | None:
    spec = importlib.util.find_spec("ai_edge_litert")
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) / "vendors" if places else None


def _openvino_libraries() -> Path:
    spec = importlib.util.find_spec("openvino")
    if spec is None or not spec.submodule_search_locations:
        raise AcceleratorError(
            "The NPU accelerator needs OpenVINO, which is not installed.", _INSTALL_OPENVINO, code=NOT_INSTALLED
        )
    folder = Path(spec.submodule_search_locations[0]) / "libs"
    wanted = "libopenvino.so." + OPENVINO_RELEASE[2:].replace(".", "")
    if not (folder / wanted).exists():
        raise AcceleratorError(
            f"LiteRT's Intel plugin needs {wanted}, which the installed OpenVINO does not have.",
            _INSTALL_OPENVINO,
            code=NOT_INSTALLED,
        )
    return folder


def _gpu_environment() -> dict[str, str]:
    needed: dict[str, str] = {}
    if not os.environ.get("XDG_RUNTIME_DIR"):
        needed["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    if os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES") or _has_gpu():
        return needed
    if not _SWIFTSHADER.exists():
        raise AcceleratorError(
            "This machine has no visible GPU and no software Vulkan device.",
            "Install the GPU's Vulkan driver, or a software device: apt-get install chromium",
            code=NOT_INSTALLED,
        )
    # Vulkan's loader lies beside the device, for systems that have no libvulkan of their own.
    loader = {"LD_LIBRARY_PATH": _prepended("LD_LIBRARY_PATH", str(_SWIFTSHADER.parent))}
    return needed | loader | {"VK_ICD_FILENAMES": str(_SWIFTSHADER), "VK_DRIVER_FILES": str(_SWIFTSHADER)}


def _has_gpu() -> bool:
    """Whether a GPU can be seen. Installed drivers say nothing: Mesa brings a software one that LiteRT refuses."""
    return any(any(Path("/dev").glob(pattern)) for pattern in _GPU_DEVICES)


def _prepended(name: str, folder: str) -> str:
    rest = os.environ.get(name, "")
    return f"{folder}:{rest}" if rest else folder

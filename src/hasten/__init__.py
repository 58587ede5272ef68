"""hasten makes a TensorFlow Lite (LiteRT) model fast on a real device, and proves it."""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it, without the milliseconds that importing `typing` takes
if TYPE_CHECKING:
    from typing import Any

    from hasten.core.bundle import Bundle, read_bundle
    from hasten.core.comparison import Comparison, Verdict
    from hasten.core.copies import CopyStudy
    from hasten.core.errors import AcceleratorError, DataError, HastenError, ModelError, TargetError, UsageError
    from hasten.core.finding import Finding
    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan, Workload
    from hasten.core.profile import Profile
    from hasten.core.thread_study import ThreadStudy
    from hasten.deploy.runner import Runner
    from hasten.library import bench, check, compare, copies, profile, session_report, sustain, threads, watch

__version__ = "0.1.0"

# Public name → its module. Loaded when first used: `hasten --help` must not wait for NumPy.
_PUBLIC = {
    "AcceleratorError": "hasten.core.errors",
    "Bundle": "hasten.core.bundle",
    "Comparison": "hasten.core.comparison",
    "CopyStudy": "hasten.core.copies",
    "DataError": "hasten.core.errors",
    "Finding": "hasten.core.finding",
    "HastenError": "hasten.core.errors",
    "Measurement": "hasten.core.measurement",
    "ModelError": "hasten.core.errors",
    "Plan": "hasten.core.plan",
    "Profile": "hasten.core.profile",
    "Runner": "hasten.deploy.runner",
    "TargetError": "hasten.core.errors",
    "ThreadStudy": "hasten.core.thread_study",
    "UsageError": "hasten.core.errors",
    "Verdict": "hasten.core.comparison",
    "Workload": "hasten.core.plan",
    "bench": "hasten.library",
    "check": "hasten.library",
    "compare": "hasten.library",
    "copies": "hasten.library",
    "profile": "hasten.library",
    "read_bundle": "hasten.core.bundle",
    "session_report": "hasten.library",
    "sustain": "hasten.library",
    "threads": "hasten.library",
    "watch": "hasten.library",
}

__all__ = [
    "AcceleratorError",
    "Bundle",
    "Comparison",
    "CopyStudy",
    "DataError",
    "Finding",
    "HastenError",
    "Measurement",
    "ModelError",
    "Plan",
    "Profile",
    "Runner",
    "TargetError",
    "ThreadStudy",
    "UsageError",
    "Verdict",
    "Workload",
    "__version__",
    "bench",
    "check",
    "compare",
    "copies",
    "profile",
    "read_bundle",
    "session_report",
    "sustain",
    "threads",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'hasten' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PUBLIC[name]), name)

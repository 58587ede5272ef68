"""hasten makes a TensorFlow Lite (LiteRT) model fast on a real device, and proves it."""

from __future__ import annotations

from hasten.core.version import VERSION

TYPE_CHECKING = False  # as type checkers know it, without the milliseconds that importing `typing` takes
if TYPE_CHECKING:
    from typing import Any

    from hasten.api import (
        Data,
        Effort,
        Fleet,
        SearchSettings,
        accelerators,
        app,
        app_trace,
        bench,
        check,
        choose,
        compare,
        copies,
        diff,
        explain,
        profile,
        quantize,
        retrain,
        session_report,
        sustain,
        threads,
        tune,
        watch,
    )
    from hasten.bundle.folder import read_bundle
    from hasten.bundle.record import Bundle
    from hasten.core.comparison import Comparison, Verdict
    from hasten.core.errors import (
        AcceleratorError,
        DataError,
        HastenError,
        Interrupted,
        ModelError,
        TargetError,
        UsageError,
    )
    from hasten.core.finding import Finding
    from hasten.core.measurement import Measurement
    from hasten.core.plan import Plan, Workload
    from hasten.core.profile import Profile
    from hasten.deploy.runner import Runner
    from hasten.engine.numba_kernels import kernel
    from hasten.practices.app.facts import TraceFound, WatchedFound
    from hasten.practices.copies.facts import CopiesFound
    from hasten.practices.threads.facts import ThreadsFound

__version__ = VERSION

# Public name → its module. Loaded when first used: `hasten --help` must not wait for NumPy.
_PUBLIC = {
    "AcceleratorError": "hasten.core.errors",
    "Bundle": "hasten.bundle.record",
    "Comparison": "hasten.core.comparison",
    "CopiesFound": "hasten.practices.copies.facts",
    "Data": "hasten.data.request",
    "DataError": "hasten.core.errors",
    "Effort": "hasten.measure.effort",
    "Finding": "hasten.core.finding",
    "Fleet": "hasten.api",
    "HastenError": "hasten.core.errors",
    "Interrupted": "hasten.core.errors",
    "Measurement": "hasten.core.measurement",
    "ModelError": "hasten.core.errors",
    "Plan": "hasten.core.plan",
    "Profile": "hasten.core.profile",
    "Runner": "hasten.deploy.runner",
    "SearchSettings": "hasten.search.settings",
    "TargetError": "hasten.core.errors",
    "ThreadsFound": "hasten.practices.threads.facts",
    "TraceFound": "hasten.practices.app.facts",
    "UsageError": "hasten.core.errors",
    "Verdict": "hasten.core.comparison",
    "WatchedFound": "hasten.practices.app.facts",
    "Workload": "hasten.core.plan",
    "accelerators": "hasten.api",
    "app": "hasten.api",
    "app_trace": "hasten.api",
    "bench": "hasten.api",
    "check": "hasten.api",
    "choose": "hasten.api",
    "compare": "hasten.api",
    "copies": "hasten.api",
    "diff": "hasten.api",
    "explain": "hasten.api",
    "kernel": "hasten.engine.numba_kernels",
    "profile": "hasten.api",
    "quantize": "hasten.api",
    "read_bundle": "hasten.bundle.folder",
    "retrain": "hasten.api",
    "session_report": "hasten.api",
    "sustain": "hasten.api",
    "threads": "hasten.api",
    "tune": "hasten.api",
    "watch": "hasten.api",
}

__all__ = [
    "AcceleratorError",
    "Bundle",
    "Comparison",
    "CopiesFound",
    "Data",
    "DataError",
    "Effort",
    "Finding",
    "Fleet",
    "HastenError",
    "Interrupted",
    "Measurement",
    "ModelError",
    "Plan",
    "Profile",
    "Runner",
    "SearchSettings",
    "TargetError",
    "ThreadsFound",
    "TraceFound",
    "UsageError",
    "Verdict",
    "WatchedFound",
    "Workload",
    "__version__",
    "accelerators",
    "app",
    "app_trace",
    "bench",
    "check",
    "choose",
    "compare",
    "copies",
    "diff",
    "explain",
    "kernel",
    "profile",
    "quantize",
    "read_bundle",
    "retrain",
    "session_report",
    "sustain",
    "threads",
    "tune",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'hasten' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PUBLIC[name]), name)

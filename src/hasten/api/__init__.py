"""The functions of hasten. The command line, the pytest plug-in and users all come through here; `import hasten` offers
the most used of them under its own name.

Each function measures and returns a record, or raises a HastenError; after Ctrl-C, what was found until then comes as
`Interrupted.found`. `blocks` and `document` show any of these records: on a terminal, on a page, as JSON.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError
from hasten.core.plan import Plan, Workload
from hasten.measure.effort import Effort

if TYPE_CHECKING:
    from hasten.api.application import app, app_trace, watch
    from hasten.api.border import Path
    from hasten.api.choice import catalogue, choose, choose_limits, get_model
    from hasten.api.explanation import cut, diff, diff_overlay, explain, explain_inputs
    from hasten.api.fleet import Fleet, serve_worker
    from hasten.api.guide import accelerators, copies, kernel_delegate, new_delegate, new_kernel, operators, threads
    from hasten.api.machines import clean_devices, devices, doctor, doctor_model, set_up_device, target
    from hasten.api.new_models import quantize, retrain, tune
    from hasten.api.runs import bench, check, check_request, compare, profile, profile_export, run_once, sustain, trace
    from hasten.api.sessions import has_charts, read_session, serve_report, session_pictures, session_report
    from hasten.api.views import blocks, document, markdown, session_lines
    from hasten.data.request import Data
    from hasten.fleet.address import Tls
    from hasten.fleet.worker import WorkerRequest
    from hasten.practices.accelerators.facts import AcceleratorOptions
    from hasten.practices.choose.facts import ChooseRequest
    from hasten.practices.help.facts import DoctorOptions
    from hasten.practices.operators.facts import OperatorOptions
    from hasten.retraining.options import HeadOptions, RetrainOptions, TrainingOptions
    from hasten.search.settings import SearchSettings
    from hasten.variants.io_types import IoTypes
    from hasten.variants.recipes import RECIPE_NAMES

# Module → what it offers here. It is loaded when first used: no command waits for what only others need.
_OFFERED: Final = {
    "hasten.api.runs": (
        "bench",
        "compare",
        "sustain",
        "check",
        "check_request",
        "profile",
        "profile_export",
        "trace",
        "run_once",
    ),
    "hasten.api.explanation": ("explain", "explain_inputs", "diff", "diff_overlay", "cut"),
    "hasten.api.guide": (
        "threads",
        "copies",
        "accelerators",
        "new_delegate",
        "operators",
        "new_kernel",
        "kernel_delegate",
    ),
    "hasten.api.choice": ("choose", "choose_limits", "get_model", "catalogue"),
    "hasten.api.application": ("app", "app_trace", "watch"),
    "hasten.api.new_models": ("quantize", "tune", "retrain"),
    "hasten.api.fleet": ("Fleet", "serve_worker"),
    "hasten.api.machines": ("target", "devices", "clean_devices", "set_up_device", "doctor", "doctor_model"),
    "hasten.api.views": ("blocks", "document", "markdown", "session_lines"),
    "hasten.api.sessions": ("read_session", "session_report", "session_pictures", "serve_report", "has_charts"),
    # Options.
    "hasten.data.request": ("Data",),
    "hasten.fleet.address": ("Tls",),
    "hasten.fleet.worker": ("WorkerRequest",),
    "hasten.practices.accelerators.facts": ("AcceleratorOptions",),
    "hasten.practices.choose.facts": ("ChooseRequest",),
    "hasten.practices.help.facts": ("DoctorOptions",),
    "hasten.practices.operators.facts": ("OperatorOptions",),
    "hasten.retraining.options": ("HeadOptions", "RetrainOptions", "TrainingOptions"),
    "hasten.search.settings": ("SearchSettings",),
    "hasten.variants.io_types": ("IoTypes",),
    "hasten.variants.recipes": ("RECIPE_NAMES",),
}
_MODULE_OF: Final = {name: module for module, names in _OFFERED.items() for name in names}

__all__ = [
    "RECIPE_NAMES",
    "AcceleratorOptions",
    "ChooseRequest",
    "Data",
    "DoctorOptions",
    "Effort",
    "Fleet",
    "HeadOptions",
    "IoTypes",
    "OperatorOptions",
    "RetrainOptions",
    "SearchSettings",
    "Tls",
    "TrainingOptions",
    "WorkerRequest",
    "accelerators",
    "app",
    "app_trace",
    "bench",
    "blocks",
    "catalogue",
    "check",
    "check_request",
    "choose",
    "choose_limits",
    "clean_devices",
    "compare",
    "copies",
    "cut",
    "devices",
    "diff",
    "diff_overlay",
    "doctor",
    "doctor_model",
    "document",
    "explain",
    "explain_inputs",
    "get_model",
    "has_charts",
    "kernel_delegate",
    "markdown",
    "new_delegate",
    "new_kernel",
    "operators",
    "practice",
    "profile",
    "profile_export",
    "quantize",
    "read_session",
    "retrain",
    "run_once",
    "serve_report",
    "serve_worker",
    "session_lines",
    "session_pictures",
    "session_report",
    "set_up_device",
    "sustain",
    "target",
    "threads",
    "trace",
    "tune",
    "watch",
]


def practice(
    name: str,
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    effort: Effort = Effort(),
    **options: Any,
) -> Any:
    """What a practice finds that has a command, but no function of its own here; options are those of its `run`."""
    from hasten.api.border import or_error
    from hasten.measure.opening import open_model
    from hasten.practices.registry import GUIDE

    if name in __all__ or name not in {entry.name for entry in GUIDE if entry.help}:
        raise UsageError(f"No general function serves the practice {name!r}.", "Call the function of its command.")
    candidate, _ = open_model(model, plan, workload)
    run = importlib.import_module(f"hasten.practices.{name}.run").run
    return or_error(run(candidate, effort=effort, **options), candidate, effort)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

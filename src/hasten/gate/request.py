"""What a gate is asked to check: the limits, how to run the model, data and baseline; and the budget file that says so.

    [budget]            # limits; each may be left out
    latency = "5 ms"    # also p95, init, memory, size, accuracy, max_slowdown, max_drop
    [plan]              # threads, accelerator, kernel, ...
    [workload]          # signature, shapes
    [data]              # path, preprocess, metric, label_offset, samples, skip_bad
    [baseline]          # model, session

Paths in the file are taken from where the file lies.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.cores import cores_text
from hasten.core.errors import DataError, UsageError
from hasten.core.plan import Plan, Workload, plan_with, workload_from_mapping
from hasten.data.preprocess import Preprocess, preprocess_from_text
from hasten.evaluate.evaluation import EvaluationOptions
from hasten.gate.limits_file import LIMIT_NAMES, Budget, budget_from_mapping, budget_with, no_unknown_keys
from hasten.gate.timing import DEFAULT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTIONS: Final = {
    "budget": LIMIT_NAMES,
    "plan": tuple(item.name for item in fields(Plan)),
    "workload": ("signature", "shapes"),
    "data": ("path", "preprocess", "metric", "label_offset", "samples", "skip_bad"),
    "baseline": ("model", "session"),
}


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Everything but the model."""

    budget: Budget = field(default=Budget())
    plan: Plan = field(default=Plan())
    workload: Workload = field(default=Workload())
    data: str = ""
    preprocess: Preprocess = field(default=Preprocess())
    metric: str = ""
    evaluation: EvaluationOptions = field(default=EvaluationOptions())
    baseline_model: str = ""
    baseline_plan: Plan | None = None
    """How to run the baseline; None: like the model."""
    baseline_session: str = ""
    seconds: float = DEFAULT_SECONDS
    strict: bool = False

    def checked(self) -> CheckRequest:
        """Itself, if there is something to check and all that it takes."""
        if self.budget.is_empty and not self.baseline_model and not self.baseline_session:
            hint = 'Give a budget (--budget FILE, --limit latency="5 ms") or a baseline (--baseline-model OLD.tflite).'
            raise UsageError("there is nothing to check", hint)
        if self.baseline_model and self.baseline_session:
            raise UsageError("there are two baselines", "Give the older model or the older session, not both.")
        if self.budget.accuracy is not None and not self.data:
            raise UsageError("an accuracy can be checked on data only", "Name it with --data, or as path in [data].")
        return self


def request_from(budget: str | os.PathLike[str] | Mapping[str, Any]) -> CheckRequest:
    """What a budget file, or a mapping of limits, asks for."""
    if isinstance(budget, str | os.PathLike):
        return request_from_file(Path(budget))
    return CheckRequest(budget=budget_from_mapping(budget))


def request_from_file(path: Path) -> CheckRequest:
    """What a budget file asks for. A misspelt name in it is an error that lists the known ones."""
    content = _toml(path)
    no_unknown_keys(content, tuple(_SECTIONS), path.name)
    for name, section in content.items():
        if not isinstance(section, dict):
            raise UsageError(f"{path.name}: {name} must be a section", f"Write it like this: [{name}]")
        no_unknown_keys(section, _SECTIONS[name], f"{path.name}: [{name}]")
    data, baseline = content.get("data", {}), content.get("baseline", {})
    try:
        return CheckRequest(
            budget=budget_from_mapping(content.get("budget", {})),
            plan=_plan(content.get("plan", {})),
            workload=_workload(content.get("workload", {})),
            data=_beside(path, str(data.get("path", ""))),
            preprocess=preprocess_from_text(str(data.get("preprocess", ""))),
            metric=str(data.get("metric", "")),
            evaluation=EvaluationOptions(
                samples=_whole(data, "samples", None),
                label_offset=_whole(data, "label_offset", 0) or 0,
                skip_bad=bool(data.get("skip_bad", False)),
            ),
            baseline_model=_beside(path, str(baseline.get("model", ""))),
            baseline_session=_beside(path, str(baseline.get("session", ""))),
        )
    except UsageError as error:
        raise UsageError(f"{path.name}: {error.message}", error.hint) from None


def with_limits(request: CheckRequest, limits: Mapping[str, Any]) -> CheckRequest:
    """The request with these limits, as a user writes them, in place of its own."""
    return replace(request, budget=budget_with(request.budget, limits))


def _toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"the budget file {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also what is no UTF-8
        raise UsageError(f"the budget file {path} is not TOML: {error}") from None


def _plan(values: dict[str, Any]) -> Plan:
    """The plan, with options as a table of GROUP.KEY, and cores as a list or as text."""
    options = values.get("options", {})
    if not isinstance(options, dict):
        raise UsageError("options must be a table", 'Write them like this: options = {"cpu.flags" = "1"}')
    settings = {key: str(value) for key, value in values.items() if key not in ("options", "cores")}
    if "cores" in values:
        cores = values["cores"]
        settings["cores"] = cores_text(cores) if isinstance(cores, list) else str(cores)
    return plan_with(Plan(), {**settings, **{key: str(value) for key, value in options.items()}})


def _workload(values: dict[str, Any]) -> Workload:
    shapes = values.get("shapes", {})
    if not isinstance(shapes, dict) or not all(
        isinstance(shape, list) and shape and all(isinstance(size, int) and size > 0 for size in shape)
        for shape in shapes.values()
    ):
        raise UsageError("shapes cannot be read", "Write them like this: shapes = {image = [1, 224, 224, 3]}")
    return workload_from_mapping({"signature": values.get("signature", ""), "shapes": list(shapes.items())})


def _whole(values: dict[str, Any], name: str, default: int | None) -> int | None:
    value = values.get(name, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    return value


def _beside(file: Path, text: str) -> str:
    """A path from where the budget file lies; what is no file there (demo, module:function) stays as it is."""
    beside = file.parent / text
    return str(beside) if text and beside.exists() else text

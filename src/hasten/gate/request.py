"""What a gate is asked to check: the limits, how to run the model, data and baseline; and the file that says so.

    [limits]            # each may be left out; [budget] is its older name
    latency = "5 ms"    # also p95, init, memory, size, accuracy, max_slowdown, max_drop
    [plan]              # threads, accelerator, kernel, ...
    [workload]          # signature, shapes
    [data]              # path, preprocess, metric, label_offset, samples, skip_bad
    [baseline]          # model, session
    [gate]              # undecided: "fail" (the default) or "pass", as --undecided

Paths in the file are relative to the file.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.cores import cores_text
from hasten.core.errors import UsageError
from hasten.core.limits import BYTES, DEFAULT_UNDECIDED, MILLISECONDS, UNDECIDED_CHOICES, quantity
from hasten.core.plan import Plan, Workload, plan_with, workload_from_mapping
from hasten.core.toml_file import read_toml, refuse_unknown
from hasten.data.preprocess import preprocess_from_text
from hasten.data.request import Data
from hasten.gate.facts import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

# As `bench` counts memory: 2**20 bytes.
_MEGABYTES: Final = {"kb": 2**-10, "mb": 1.0, "gb": 2**10, "kib": 2**-10, "mib": 1.0, "gib": 2**10}
_SHARES: Final = {"": 1.0, "%": 0.01}
# Name as a user writes it → field, units, an example. A share may also be a plain number: 0.95 or "95 %".
_LIMITS: Final[dict[str, tuple[str, Mapping[str, float], str]]] = {
    "latency": ("latency_ms", MILLISECONDS, "5 ms"),
    "p95": ("p95_ms", MILLISECONDS, "8 ms"),
    "init": ("init_ms", MILLISECONDS, "200 ms"),
    "memory": ("memory_mb", _MEGABYTES, "100 MB"),
    "size": ("size_bytes", BYTES, "2 MB"),
    "accuracy": ("accuracy", _SHARES, "95 %"),
    "max_slowdown": ("max_slowdown", _SHARES, "3 %"),
    "max_drop": ("max_drop", _SHARES, "1 %"),
}
# A bare number above 1 would allow nearly everything, and is most likely meant in percent.
_ALLOWANCES: Final = ("max_slowdown", "max_drop")
LIMIT_NAMES: Final = tuple(_LIMITS)
NO_LIMITS: Final = Limits()
_SECTIONS: Final = {
    "limits": LIMIT_NAMES,
    "budget": LIMIT_NAMES,
    "plan": tuple(item.name for item in fields(Plan)),
    "workload": ("signature", "shapes"),
    "data": ("path", "preprocess", "metric", "label_offset", "samples", "skip_bad"),
    "baseline": ("model", "session"),
    "gate": ("undecided",),
}


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Everything but the model."""

    limits: Limits = field(default=Limits())
    plan: Plan = field(default=Plan())
    workload: Workload = field(default=Workload())
    data: Data = field(default=Data())
    baseline_model: str = ""
    baseline_plan: Plan | None = None
    """How to run the baseline; None: like the model."""
    baseline_session: str = ""
    undecided: str = DEFAULT_UNDECIDED
    """Whether an undecided gate lets a pipeline go on: pass or fail."""
    named: tuple[str, ...] = ()
    """The limits that the user named: one that cannot be checked is refused."""
    plan_settings: tuple[str, ...] = ()
    """The settings of the plan that the file names: they take precedence over a bundle's."""
    data_settings: tuple[str, ...] = ()
    """The same for the data."""

    def checked(self) -> CheckRequest:
        """Itself, if there is something to check and all that it takes."""
        if self.limits.is_empty and not self.baseline_model and not self.baseline_session:
            hint = 'Give limits (--limits FILE, --limit latency="5 ms") or a baseline (--baseline-model OLD.tflite).'
            raise UsageError("There is nothing to check.", hint)
        if self.baseline_model and self.baseline_session:
            raise UsageError("There are two baselines.", "Give the older model or the older session, not both.")
        if self.limits.accuracy is not None and not self.data.source:
            raise UsageError("A limit on accuracy needs data.", "Name it with --data, or as path in [data].")
        self._refuse_uncheckable()
        _undecided({"undecided": self.undecided})
        return self

    def with_limits(self, values: Mapping[str, Any]) -> CheckRequest:
        """The request with these limits, as a user writes them, in place of its own."""
        return replace(self, limits=limits_from_mapping(values, self.limits), named=(*self.named, *values))

    def _refuse_uncheckable(self) -> None:
        """A limit that the user set and nothing can be compared with must not seem to be kept."""
        own = {name for name in _ALLOWANCES if getattr(self.limits, name) != getattr(NO_LIMITS, name)}.union(self.named)
        if "max_slowdown" in own and not (self.baseline_model or self.baseline_session):
            hint = "Add --baseline-model OLD.tflite, or leave the limit out."
            raise UsageError("max_slowdown needs a baseline to compare with.", hint)
        if "max_drop" in own and not (self.baseline_model and self.data.source):
            hint = "Add --baseline-model OLD.tflite --data DATA, or leave the limit out."
            raise UsageError("max_drop needs an older model and data to compare both on.", hint)


def request_from(limits: str | os.PathLike[str] | Mapping[str, Any]) -> CheckRequest:
    """What a file of limits, or a mapping of them, asks for."""
    if isinstance(limits, str | os.PathLike):
        return request_from_file(Path(limits))
    return CheckRequest().with_limits(limits)


def limits_from_mapping(values: Mapping[str, Any], base: Limits = NO_LIMITS) -> Limits:
    """Limits from names and quantities as a user writes them, in place of those of the base.

    An unknown name is an error that lists the known ones.
    """
    refuse_unknown(values, LIMIT_NAMES, "the limits")
    return replace(base, **{_LIMITS[name][0]: _limit(name, value) for name, value in values.items()})


def request_from_file(path: Path) -> CheckRequest:
    """What a file of limits asks for. A misspelt name in it is an error that lists the known ones."""
    content = read_toml(path, "file of limits")
    refuse_unknown(content, tuple(_SECTIONS), path.name)
    for name, section in content.items():
        if not isinstance(section, dict):
            raise UsageError(f"{path.name}: {name} must be a section.", f"Write it like this: [{name}]")
        refuse_unknown(section, _SECTIONS[name], f"[{name}] in {path.name}")
    baseline = content.get("baseline", {})
    try:
        asked = CheckRequest(
            plan=_plan(content.get("plan", {})),
            plan_settings=tuple(content.get("plan", {})),
            workload=_workload(content.get("workload", {})),
            data=_data(path, content.get("data", {})),
            data_settings=tuple(content.get("data", {})),
            baseline_model=_beside(path, str(baseline.get("model", ""))),
            baseline_session=_beside(path, str(baseline.get("session", ""))),
            undecided=_undecided(content.get("gate", {})),
        )
        return asked.with_limits({**content.get("budget", {}), **content.get("limits", {})})
    except UsageError as error:
        raise UsageError(f"{path.name}: {error.message}", error.hint) from None


def _undecided(values: Mapping[str, Any]) -> str:
    choice = values.get("undecided", DEFAULT_UNDECIDED)
    if choice not in UNDECIDED_CHOICES:
        raise UsageError(f"undecided = {choice!r} is no choice.", 'Write it like this: undecided = "fail"')
    return str(choice)


def _limit(name: str, value: Any) -> float:
    _, units, example = _LIMITS[name]
    is_share = units is _SHARES
    number: float | None = None
    if isinstance(value, str):
        number = quantity(value, units)
    elif is_share and isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    if number is None or not (0 <= number < math.inf) or (number == 0 and not is_share):
        raise UsageError(f"The limit {name} = {value!r} cannot be read.", f'Write it like this: {name} = "{example}"')
    if name == "accuracy" and number > 1 and "%" in str(value):
        raise UsageError(f"The limit {name} = {value!r} is above 100 %.", f'Write it like this: {name} = "{example}"')
    if name in _ALLOWANCES and number > 1 and "%" not in str(value):
        hint = f'Write {name} = "{number:g} %" if you mean percent, and {name} = "{100 * number:g} %" if you do not.'
        raise UsageError(f"{name} = {value!r} would allow {100 * number:g} %.", hint)
    return number


def _plan(values: dict[str, Any]) -> Plan:
    """The plan, with options as a table of GROUP.KEY, and cores as a list or as text."""
    options = values.get("options", {})
    if not isinstance(options, dict):
        raise UsageError("options must be a table.", 'Write them like this: options = {"cpu.flags" = "1"}')
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
        raise UsageError("shapes cannot be read.", "Write them like this: shapes = {image = [1, 224, 224, 3]}")
    return workload_from_mapping({"signature": values.get("signature", ""), "shapes": list(shapes.items())})


def _data(file: Path, values: dict[str, Any]) -> Data:
    preprocess = str(values.get("preprocess", ""))
    preprocess_from_text(preprocess)  # a mistake in it is one of the file
    return Data(
        source=_beside(file, str(values.get("path", ""))),
        preprocess=preprocess,
        metric=str(values.get("metric", "")),
        samples=_whole(values, "samples", None),
        skip_bad=bool(values.get("skip_bad", False)),
        label_offset=_whole(values, "label_offset", 0) or 0,
    )


def _whole(values: dict[str, Any], name: str, default: int | None) -> int | None:
    value = values.get(name, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{name} must be a whole number, not {value!r}.")
    return value


def _beside(file: Path, text: str) -> str:
    """A path relative to the file of limits; what is no file there (demo, module:function) stays as it is."""
    beside = file.parent / text
    return str(beside) if text and beside.exists() else text

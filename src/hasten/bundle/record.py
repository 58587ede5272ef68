"""A bundle as a record, and back from the JSON of its plan with every type checked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import HastenError
from hasten.core.plan import Plan, Workload, plan_from_mapping, workload_from_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT: Final = 1
MARK: Final = "hasten_bundle"
MODEL_FILE: Final = "model.tflite"
MALFORMED: Final = (HastenError, KeyError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class BundleTensor:
    """An input or output: real = (stored - zero_point) x scale; with a scale of 0 the stored values are real."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float = 0.0
    zero_point: int = 0

    def as_data(self) -> dict[str, Any]:
        """The tensor as plan.json has it."""
        quantized = {"scale": self.scale, "zero_point": self.zero_point} if self.scale else {}
        return {"name": self.name, "type": self.dtype, "shape": list(self.shape), **quantized}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A model with what is needed to run it as measured."""

    folder: Path
    model_file: str = MODEL_FILE
    sha256: str = ""
    plan: Plan = field(default=Plan())
    workload: Workload = field(default=Workload())
    inputs: tuple[BundleTensor, ...] = ()
    outputs: tuple[BundleTensor, ...] = ()
    preprocess: str = ""
    """In the form of --preprocess."""
    label_offset: int = 0
    labels: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    """Latency, speedup and accuracy as measured, for people to read."""

    @property
    def model_path(self) -> Path:
        """The model's file."""
        return self.folder / self.model_file

    def as_data(self) -> dict[str, Any]:
        """The content of plan.json."""
        return {
            MARK: FORMAT,
            "model": self.model_file,
            "sha256": self.sha256,
            "plan": asdict(self.plan),
            "workload": asdict(self.workload),
            "inputs": [tensor.as_data() for tensor in self.inputs],
            "outputs": [tensor.as_data() for tensor in self.outputs],
            "preprocess": self.preprocess,
            "label_offset": self.label_offset,
            "labels": list(self.labels),
            "measured": dict(self.measured),
        }


def bundle_from_data(folder: Path, data: dict[str, Any]) -> Bundle:
    """A bundle from the content of plan.json; anything malformed raises one of MALFORMED."""
    return Bundle(
        folder=folder,
        model_file=_inside(folder, _typed(data, "model", str)),
        sha256=_typed(data, "sha256", str),
        plan=_plan(_typed(data, "plan", dict)),
        workload=_workload(_typed(data, "workload", dict)),
        inputs=tuple(_tensor(entry) for entry in _typed(data, "inputs", list)),
        outputs=tuple(_tensor(entry) for entry in _typed(data, "outputs", list)),
        preprocess=_typed(data, "preprocess", str, ""),
        label_offset=_typed(data, "label_offset", int, 0),
        labels=_texts(_typed(data, "labels", list, [])),
        measured=_typed(data, "measured", dict, {}),
    )


def _plan(values: dict[str, Any]) -> Plan:
    defaults = asdict(Plan())
    for key, value in values.items():
        wanted = list if isinstance(defaults.get(key), tuple) else type(defaults.get(key, value))
        if type(value) is not wanted:
            raise ValueError(f"the plan's {key} is {value!r}")
    if not all(type(core) is int for core in values.get("cores", [])):
        raise ValueError("the plan's cores are not whole numbers")
    return plan_from_mapping(values)


def _workload(values: dict[str, Any]) -> Workload:
    _typed(values, "signature", str, "")
    _typed(values, "seed", int, 0)
    for name, shape in _typed(values, "shapes", list, []):
        if type(name) is not str or not all(type(size) is int and size > 0 for size in shape):
            raise ValueError(f"the workload has the shape {shape!r} for {name!r}")
    return workload_from_mapping(values)


def _tensor(entry: dict[str, Any]) -> BundleTensor:
    shape = tuple(_typed(entry, "shape", list))
    if not all(type(size) is int for size in shape):
        raise ValueError(f"a tensor has the shape {list(shape)!r}")
    scale = entry.get("scale", 0.0)
    if type(scale) not in (int, float) or not math.isfinite(scale) or scale < 0:
        raise ValueError(f"a tensor has the scale {scale!r}")
    return BundleTensor(
        _typed(entry, "name", str), _typed(entry, "type", str), shape, float(scale), _typed(entry, "zero_point", int, 0)
    )


def _typed(values: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
    if type(values) is not dict:
        raise TypeError(f"{values!r} is not a table")
    value = values[key] if default is None else values.get(key, default)
    if type(value) is not kind:
        raise ValueError(f"{key} is {value!r}")
    return value


def _texts(values: list[Any]) -> tuple[str, ...]:
    if not all(type(value) is str for value in values):
        raise ValueError("the labels are not all text")
    return tuple(values)


def _inside(folder: Path, name: str) -> str:
    """The name, if the file lies inside the folder: a plan must not point at other files of the machine."""
    place = (folder / name).resolve()
    if not name or "\0" in name or place == folder.resolve() or not place.is_relative_to(folder.resolve()):
        raise ValueError(f"the model {name!r} is outside the bundle")
    return name

"""A bundle as a record, and back from the JSON of its plan with every type checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from hasten.core.codec import checked_from_data, key, record, to_data
from hasten.core.errors import HastenError
from hasten.core.plan import Plan, Workload, plan_from_mapping

FORMAT: Final = 1
MARK: Final = "hasten_bundle"
MODEL_FILE: Final = "model.tflite"
MALFORMED: Final = (HastenError, ValueError, OverflowError)


@record
class BundleTensor:
    """An input or output: real = (stored - zero_point) x scale; with a scale of 0 the stored values are real."""

    name: str
    dtype: str = key("type")
    shape: tuple[int, ...]
    scale: float = 0.0
    zero_point: int = 0


@record
class Bundle:
    """A model with what is needed to run it as measured."""

    folder: Path
    model_file: str = key("model", default=MODEL_FILE)
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


def bundle_data(bundle: Bundle) -> dict[str, Any]:
    """The content of plan.json."""
    data = to_data(bundle)
    del data["folder"]
    return {MARK: FORMAT, **data}


def bundle_from_data(folder: Path, data: dict[str, Any]) -> Bundle:
    """A bundle from the content of plan.json; anything malformed raises one of MALFORMED."""
    for name in ("model", "sha256", "plan", "workload", "inputs", "outputs"):
        if name not in data:
            raise ValueError(f"{name} is missing")
    bundle = checked_from_data(Bundle, {**data, "folder": str(folder)})
    plan_from_mapping(data["plan"])  # refuses settings of a newer release
    for tensor in (*bundle.inputs, *bundle.outputs):
        if tensor.scale < 0:
            raise ValueError(f"the scale of {tensor.name!r} is {tensor.scale}")
    for name, shape in bundle.workload.shapes:
        if min(shape, default=1) < 1:
            raise ValueError(f"the shape of {name!r} is {list(shape)}")
    for name in (bundle.plan.delegate, bundle.plan.cache, *bundle.plan.kernels):
        if b"\0" in os.fsencode(name):  # which raises a ValueError itself for half of a character
            raise ValueError(f"{name!r} is not the name of a file")
    inside(folder, bundle.model_file)  # a plan must not point at other files of the machine
    return replace(bundle, folder=folder)


def inside(folder: Path, name: str) -> Path:
    """The path of a file in the folder; a ValueError for one outside, whether by its name or by a symbolic link."""
    try:
        place, root = (folder / name).resolve(), folder.resolve()
    except RuntimeError as error:  # links in a circle, before Python 3.13
        raise ValueError(str(error)) from error
    if not name or place == root or not place.is_relative_to(root):
        raise ValueError(f"{name!r} is outside the bundle")
    return place

"""Every public function and class: a wrong argument ends in a sentence that helps, before any work begins."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hasten
from hasten import api
from hasten.core.errors import HastenError, Interrupted, UsageError
from hasten.core.limits import Limit
from hasten.demo import MODEL
from hasten.gate.facts import Limits

NAN, INFINITY = math.nan, math.inf
NO_PATH: tuple[Any, ...] = (None, 3, 1.5, b"x", [], {}, "nul\0", object())
NO_NUMBER: tuple[Any, ...] = ("2", None, NAN, INFINITY, -1, [], True)
NO_TEXT: tuple[Any, ...] = (None, 3, b"x", [])
NO_PAIR: tuple[Any, ...] = ("model.tflite", (MODEL,), (MODEL, 2), (3, hasten.Plan()), None, [MODEL, hasten.Plan()])
PAIR = (MODEL, hasten.Plan())
SAMPLE: dict[str, Any] = {"model": MODEL, "folder": "out", "first": PAIR, "second": PAIR, "original": PAIR}
SAMPLE |= {"changed": PAIR, "minutes": 1, "limits": {"latency": "1 s"}, "command": ["true"], "path": "x"}
SAMPLE |= {"session": "x.jsonl", "source": "", "replaces": "ADD", "types": "float32[:], float32[:]"}
SAMPLE |= {"out": "new.tflite"}
SAMPLE |= {"cluster": "tcp://127.0.0.1:8786"}
# For each argument, by its name: what it must not be.
WRONG: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("model", "folder", "path", "out"), NO_PATH),
    **dict.fromkeys(("first", "second", "original", "changed"), NO_PAIR),
    "plan": ("threads=2", 2, {"threads": 2}),
    "workload": ("x", 2, {}),
    "effort": (5, "10s", {"seconds": 1}, None),
    "data": ("folder", 3, None),
    "settings": ("fast", 3, {}),
    "asked": ("int8", 3, {}),
    "options": ("x", 3, None, {}),
    "seconds": NO_NUMBER,
    "minutes": (*NO_NUMBER, 0),
    "margin": (*NO_NUMBER, 0, 1, 5),
    "threads": (*NO_NUMBER, 0, 1025, 1.5),
    "counts": ("1,2", 2, (0,), ("2",), (1.5,), None),
    "language": (*NO_TEXT, "cobol"),
    "load": (*NO_TEXT, "heavy"),
    "kind": (*NO_TEXT, "nosuch"),
    "form": (*NO_TEXT, "pdf"),
    "command": ("python app.py", [], None, 3, [3], ()),
    "limits": (*NO_PATH[:3], {"nosuch": 1}, {"latency": "fast"}, {"latency": -1}, {}),
    "session": NO_PATH[:4],
    "source": NO_TEXT,
    "signature": NO_TEXT,
    "shapes": ({"x": (1,)}, "x=1", (("x", ("1",)),), ((3, (1,)),), 3, None),
    "seed": ("1", None, 1.5),
    "accelerator": ("tpu", None, 3, []),
    "kernel": ("fast", None, 3),
    "precision": ("int8", None, 3),
    "delegate": NO_TEXT,
    "cache": NO_TEXT,
    "kernels": ("lib.so", 3, None, (3,)),
    "replaces": NO_TEXT,
    "types": (*NO_TEXT, "", "float32", "float32[:]", "text[:], text[:]"),
    "outputs": (*NO_NUMBER, 0, 1.5, 2),
    "output_shape": ("same", 3, (1, 2)),
    "cores": ("0", 0, (-1,), ("0",), (1.5,), None, (99_999,)),
    "on": ("local", 3),
    "progress": ("x", 3, None),
    "keep": ("x", 3, None),
    "calibration": NO_TEXT,
    "preprocess": NO_TEXT,
    "metric": NO_TEXT,
    "samples": ("2", 0, -1, 1.5, True),
    "label_offset": ("2", None, 1.5),
    "recipes": ("static_int8", None, ("nosuch",), (3,), ()),
    "max_drop": (*NO_NUMBER, 5),
    "goal": ("best", None, 3),
    "prune": (0.5, None, (0,), (1,), ("0.5",)),
    "io_types": ("int8", None),
    "limit": ("1 ms", 3, None),
    "also": ("choose", None, ("nosuch",), (3,)),
    "candidates": ("model.tflite", None, (3,)),
    "request": ("x", 3, {}, []),
    "cluster": (*NO_TEXT, "", "lab", "http://lab:8786", "tcp://lab"),
    "tls": ("ca.pem", 3, {}),
    "devices": ("a", None, 3, (3,)),
    "weights": ("a=3", 3, {"a": "3"}, {"a": 0}, {3: 1}),
}
# Engine options are another thing than those of `accelerators`.
PLAN_OPTIONS = ("cpu.flags=1", None, 3, (("cpu.flags", 1),), ("x",), {"cpu.flags": "1"})
# What no call decides by: switches that any value turns on or off, places for results, texts that are only shown.
FREE = {"roofline", "replay", "output", "timeline", "inputs", "comparison", "trust_bundle", "mix", "extras", "resume"}
FREE |= {"skip_bad", "clock", "strict", "rewrites", "refit_head"}
FREE_SETTINGS = {"command", "kernels"}
# Records that hasten makes and a user reads; nobody makes them by hand.
RESULTS = {"Bundle", "Comparison", "CopiesFound", "Finding", "Measurement", "Profile", "ThreadsFound", "TraceFound"}
RESULTS |= {"WatchedFound", "Verdict"}
ERRORS = {name for name in hasten.__all__ if name.endswith("Error")} | {"Interrupted"}
CALLABLE = sorted(set(hasten.__all__) - RESULTS - ERRORS - {"__version__"})


def cases() -> list[Any]:
    found = []
    for name in CALLABLE:
        for argument in inspect.signature(getattr(hasten, name)).parameters:
            if argument in FREE or (name == "SearchSettings" and argument in FREE_SETTINGS):
                continue
            wrong = PLAN_OPTIONS if (name, argument) == ("Plan", "options") else WRONG[argument]
            found += [pytest.param(name, argument, value, id=f"{name}-{argument}-{value!r:.20}") for value in wrong]
    return found


@pytest.mark.parametrize(("name", "argument", "value"), cases())
def test_a_wrong_argument_is_a_sentence_that_helps(name: str, argument: str, value: object) -> None:
    function = getattr(hasten, name)
    needed = {
        key: SAMPLE[key]
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
    }
    with pytest.raises(HastenError) as caught:
        function(**{**needed, argument: value})
    assert isinstance(caught.value, UsageError) or argument in ("path", "session", "model", "folder", "out")
    assert caught.value.message[0].isupper() or caught.value.message.startswith("hasten ")
    assert caught.value.message.endswith(".")
    assert caught.value.hint


@pytest.mark.parametrize("value", [-1, 0, NAN, INFINITY, "5"])
@pytest.mark.parametrize(
    ("record", "argument"),
    [(record, field.name) for record in (Limit, Limits) for field in fields(record) if field.default is None],
)
def test_a_limit_is_a_number_above_zero(record: type, argument: str, value: object) -> None:
    if (argument, value) == ("accuracy", 0):
        return
    with pytest.raises(UsageError, match=f"value of {argument} must be a number") as caught:
        record(**{argument: value})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("record", "arguments"),
    [
        (Limits, {"max_slowdown": NAN}),
        (Limits, {"max_drop": -0.1}),
        (api.TrainingOptions, {"backbone": "mobilenet_v2_1.0_224", "batch": 0}),
        (api.TrainingOptions, {"backbone": "mobilenet_v2_1.0_224", "epochs": -1}),
        (api.TrainingOptions, {"backbone": "mobilenet_v2_1.0_224", "weights": 3}),
        (api.TrainingOptions, {"backbone": 3}),
        (api.AcceleratorOptions, {"delegates": "lib.so"}),
        (api.AcceleratorOptions, {"delegates": (3,)}),
        (api.AcceleratorOptions, {"data": 3}),
    ],
)
def test_options_that_mean_nothing_are_refused(record: type, arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        record(**arguments)
    assert caught.value.hint


def test_numbers_of_numpy_and_paths_are_as_good_as_pythons() -> None:
    assert hasten.Plan(threads=np.int64(2)) == hasten.Plan(threads=2)
    assert hasten.Plan(delegate=Path("lib.so")).delegate == "lib.so"  # type: ignore[arg-type]
    assert hasten.Data(Path("folder")).source == "folder"  # type: ignore[arg-type]
    assert hasten.Effort(seconds=np.float32(2)).seconds == 2


def test_interrupted_is_no_error_of_ours() -> None:
    assert not issubclass(Interrupted, HastenError)

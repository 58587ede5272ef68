"""What `import hasten` offers stays what it is, whatever else is imported."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import hasten
from hasten import api

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_no_package_takes_the_place_of_a_public_name() -> None:
    for module in pkgutil.iter_modules(hasten.__path__):
        if module.name != "__main__":
            importlib.import_module(f"hasten.{module.name}")
    offered = {name: getattr(hasten, name) for name in hasten.__all__}
    assert [name for name, thing in offered.items() if inspect.ismodule(thing)] == []


def test_every_measuring_function_has_a_public_name() -> None:
    timing = {"bench", "compare", "diff", "explain", "profile", "check"}
    functions = timing | {"accelerators", "choose", "copies", "quantize", "retrain", "threads", "tune"}
    assert {name for name in functions if getattr(hasten, name, None) is not getattr(api, name)} == set()
    assert functions <= set(hasten.__all__)


# What installs TensorFlow: who needs it asks for it.
HEAVY = ("train", "demo-training")


def test_the_extra_all_has_every_extra_that_a_user_can_need() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"hasten[{','.join(name for name in extras if name not in HEAVY)}]"

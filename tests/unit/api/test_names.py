"""What `hasten.api` offers: each name has its module, and no command waits for what only others need."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys

from hasten import api


def test_every_name_is_there_and_none_is_a_module_of_the_package() -> None:
    for module in pkgutil.iter_modules(api.__path__):
        importlib.import_module(f"hasten.api.{module.name}")
    offered = {name: getattr(api, name) for name in api.__all__}
    assert [name for name, thing in offered.items() if inspect.ismodule(thing)] == []


def test_names_are_listed_before_they_are_used_and_others_are_unknown() -> None:
    assert set(api.__all__) <= set(dir(api))
    assert not hasattr(api, "nosuch")


def test_reading_a_session_loads_no_practice() -> None:
    code = "import sys, json; from hasten import api; api.read_session; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert [name for name in loaded if name.startswith(("hasten.practices", "hasten.retraining", "hasten.fleet"))] == []

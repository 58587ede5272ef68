"""What `import hasten` offers stays what it is, whatever else is imported."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import hasten


def test_no_package_takes_the_place_of_a_public_name() -> None:
    for module in pkgutil.iter_modules(hasten.__path__):
        if module.name != "__main__":
            importlib.import_module(f"hasten.{module.name}")
    offered = {name: getattr(hasten, name) for name in hasten.__all__}
    assert [name for name, thing in offered.items() if inspect.ismodule(thing)] == []

"""The kernel libraries of a bundle: copied into it with their sources and build lines, one folder for each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import DataError, UsageError
from hasten.core.whole_file import write_whole

if TYPE_CHECKING:
    from hasten.core.plan import Plan

FOLDER: Final = "kernels"
# What lies beside a library that hasten built.
_BUILD_FILE: Final = "build.json"


def with_kernels_in(folder: Path, plan: Plan) -> Plan:
    """Copy a plan's kernel libraries into a bundle's folder; the plan that names the copies.

    A library that hasten built brings its sources and the commands that build it for other systems.
    """
    libraries = [Path(_library(kernel)) for kernel in plan.kernels]
    if len({library.stem for library in libraries}) < len(libraries):
        raise UsageError("Two kernel libraries of the plan have one name.", "Rename one of them.")
    return replace(plan, kernels=tuple(_copied(folder, library) for library in libraries))


def inner_path(folder: Path, kernel: str) -> str:
    """Where a library lies in the bundle's folder; its full path where it lies elsewhere."""
    path, root = Path(kernel).resolve(), folder.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _library(kernel: str) -> str:
    library, _, source = kernel.partition(":")
    if source:
        raise UsageError(
            f"A bundle cannot carry the kernels in {Path(source).name}: they need Python and numba at run time.",
            "Write them in C, or choose a plan without them.",
        )
    return library


def _copied(folder: Path, library: Path) -> str:
    if not library.is_file():
        raise DataError(f"The kernel library {library} is missing.", "Build it again.")
    place = folder.resolve() / FOLDER / library.stem
    if library.resolve().parent == place:
        return str(library.resolve())
    place.mkdir(parents=True, exist_ok=True)
    is_built = (library.parent / _BUILD_FILE).is_file()
    files = sorted(path for path in library.parent.iterdir() if path.is_file()) if is_built else [library]
    for path in files:
        write_whole(place / path.name, path.read_bytes(), follow_link=False)
    return str(place / library.name)

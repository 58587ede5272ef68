"""What a bundle may ask of the machine that opens it.

A bundle travels. Its plan may name files: delegate and kernel libraries, which are code, a cache folder, which is
written to, and engine options, which can be either. Without trust, nothing outside the bundle is touched and no code of
it is loaded.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.bundle.record import inside
from hasten.core.errors import DataError
from hasten.core.plan import OPTION_KEY
from hasten.engine.model_file import file_hash

if TYPE_CHECKING:
    from hasten.core.plan import Plan

# Numbers and truth values cannot name a file; a text could be a path, or lead a vendor's library to one.
_NAMES_NO_FILE: Final = re.compile(r"true|false|[-+]?[0-9][0-9A-Za-z_.+-]*")
_HINT: Final = "If you made this bundle or trust its source, add --trust-bundle (in Python: trust_bundle=True)."


def opened_plan(folder: Path, plan: Plan, *, is_trusted: bool) -> Plan:
    """The plan of a bundle with full paths. Without trust, a DataError refuses code and paths outside the bundle."""
    if not is_trusted:
        _refuse_code(folder, plan)
        _refuse_outside(folder, plan)
    cache = str(folder.resolve() / plan.cache) if plan.cache else ""
    return replace(_with_full_paths(folder, plan), cache=cache)


def kept_plan(folder: Path, plan: Plan) -> Plan:
    """The plan as a bundle keeps it: with full paths, as its folder may be opened from anywhere."""
    cache = str(_from_folder(folder, Path(plan.cache))) if plan.cache else ""
    kernels = tuple(str(_from_folder(folder, Path(kernel))) for kernel in plan.kernels)
    delegate = _with_library(plan, _from_folder(folder, Path(_library(plan))))
    return replace(plan, delegate=delegate, cache=cache, kernels=kernels)


def code_descriptions(plan: Plan) -> tuple[str, ...]:
    """The libraries that a plan loads, each with its SHA-256."""
    return tuple(f"{kind} library {_with_hash(Path(path))}" for kind, path in _libraries(plan))


def _libraries(plan: Plan) -> list[tuple[str, str]]:
    delegates = (_library(plan),) if plan.delegate else ()
    return [("delegate", path) for path in delegates] + [("kernel", path) for path in plan.kernels]


def _with_hash(path: Path) -> str:
    try:
        return f"{path} (SHA-256 {file_hash(path)})"
    except OSError:
        return f"{path} (which cannot be read)"


def _refuse_code(folder: Path, plan: Plan) -> None:
    for kind, path in _libraries(_with_full_paths(folder, plan)):
        described = _with_hash(Path(path)) if _is_inside(folder, path) else f"{path} (outside its folder)"
        raise DataError(f"The bundle {folder} loads the {kind} library {described}, which can run any code.", _HINT)
    for key, value in plan.options:
        if not (_NAMES_NO_FILE.fullmatch(value) and OPTION_KEY.fullmatch(key)):
            raise DataError(f"The bundle {folder} sets the engine option {key} to {value}, which may be a path.", _HINT)


def _refuse_outside(folder: Path, plan: Plan) -> None:
    if not plan.cache:
        return
    try:
        place = inside(folder, plan.cache)
        link = next((path for path in (place, *place.rglob("*")) if path.is_symlink()), None)
    except (OSError, ValueError):
        raise DataError(f"The bundle {folder} keeps its cache in {plan.cache}, outside its folder.", _HINT) from None
    if link is not None:
        raise DataError(f"The cache of the bundle {folder} contains the symbolic link {link.name}.", _HINT)


def _is_inside(folder: Path, name: str) -> bool:
    try:
        inside(folder, name)
    except (OSError, ValueError):
        return False
    return True


def _with_full_paths(folder: Path, plan: Plan) -> Plan:
    """The plan with its libraries as seen from anywhere."""
    root = folder.resolve()
    kernels = tuple(str(root / kernel) for kernel in plan.kernels)
    return replace(plan, delegate=_with_library(plan, root / _library(plan)), kernels=kernels)


def _from_folder(folder: Path, path: Path) -> Path:
    full, root = path.resolve(), folder.resolve()
    return full.relative_to(root) if full.is_relative_to(root) else full


def _library(plan: Plan) -> str:
    return plan.delegate.partition(":")[0]


def _with_library(plan: Plan, path: Path) -> str:
    """The delegate as a plan writes it, with the library at this path; empty where the plan has none."""
    _, colon, options = plan.delegate.partition(":")
    return f"{path}{colon}{options}" if plan.delegate else ""

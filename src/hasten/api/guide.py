"""Practices of the guide that examine one model, and templates for a user's own delegate and kernel."""

from __future__ import annotations

import pathlib
import tempfile
from typing import TYPE_CHECKING

from hasten.api.border import or_error
from hasten.api.explanation import explain_inputs
from hasten.core.errors import UsageError
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort
from hasten.measure.opening import open_model
from hasten.practices.accelerators.facts import AcceleratorOptions
from hasten.practices.operators.facts import OperatorOptions
from hasten.practices.threads.facts import QUIET, SITUATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.api.border import Path
    from hasten.practices.accelerators.facts import AcceleratorsFound
    from hasten.practices.copies.facts import CopiesFound
    from hasten.practices.operators.facts import OperatorsFound
    from hasten.practices.threads.facts import ThreadsFound


@checked
def threads(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    load: str = QUIET,
    counts: Sequence[int] = (),
    effort: Effort = Effort(),
) -> ThreadsFound:
    """How many threads to use, in the situation that `load` names; the plan is the one in use now."""
    from hasten.practices.threads.run import run

    if load not in SITUATIONS:
        raise UsageError(f"There is no situation {load!r}.", f"Use one of: {', '.join(SITUATIONS)}.")
    candidate, _ = open_model(model, plan, workload)
    return or_error(run(candidate, load, tuple(counts), effort), candidate, effort)


@checked
def copies(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    language: str = "python",
    effort: Effort = Effort(),
) -> CopiesFound:
    """What each way to feed and read a model costs, and the one to use, with code in a language (empty for none)."""
    from hasten.bundle.code import refuse_language
    from hasten.bundle.record import Bundle
    from hasten.practices.copies.run import run

    candidate, graph = open_model(model, plan, workload)
    if language:
        refuse_language(language, Bundle(candidate.path.parent, plan=plan, workload=workload))
    return or_error(run(candidate, graph, language, effort), candidate, effort)


@checked
def accelerators(
    model: Path,
    workload: Workload = Workload(),
    *,
    threads: int = 1,
    options: AcceleratorOptions = AcceleratorOptions(),
    effort: Effort = Effort(),
) -> AcceleratorsFound:
    """What each accelerator does with a model: does it run, all of it, correctly, faster, and when does it pay."""
    from hasten.practices.accelerators.run import run

    candidate, graph = open_model(model, Plan(threads=threads), workload)
    return or_error(run(candidate, graph, options, effort), candidate, effort)


def new_delegate(folder: Path) -> list[pathlib.Path]:
    """Write a small, complete external delegate in C into a new folder; its files."""
    from hasten.practices.accelerators.new_delegate import write_delegate

    return write_delegate(pathlib.Path(folder))


@checked
def operators(
    model: Path,
    plan: Plan = Plan(),
    workload: Workload = Workload(),
    *,
    options: OperatorOptions = OperatorOptions(),
    data: Data = Data(),
    out: Path = "",
    effort: Effort = Effort(),
) -> OperatorsFound:
    """Which operators are worth work, and a rewritten model where that is equal and proven faster.

    Outputs are compared on the data, or on seeded noise. The rewritten model is written into the folder `out`.
    """
    from hasten.bundle.record import MODEL_FILE
    from hasten.practices.operators.run import run, write_model

    place = pathlib.Path(out) / MODEL_FILE if out else None
    if place is not None and place.exists():
        raise UsageError(f"{place} already exists.", "Choose another folder.")
    candidate, graph = open_model(model, plan, workload)
    inputs = explain_inputs(model, data, workload) if data.source else None
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        found = or_error(run(candidate, graph, pathlib.Path(folder), effort, options, inputs), candidate, effort)
        return write_model(found, place)


def new_kernel(folder: Path, model: Path, replaces: str, *, effort: Effort = Effort()) -> list[pathlib.Path]:
    """Write a starting point for a kernel in C into a new folder, with a test; its files.

    `replaces` names nodes of the model: an operator (HARD_SWISH), a chain (MUL,ADD) or numbers (12 or 12:15).
    """
    from hasten.custom_kernels.new_kernel import write_kernel

    return write_kernel(pathlib.Path(folder), pathlib.Path(model), replaces, effort.target)


def kernel_delegate(folder: Path, *, effort: Effort = Effort()) -> pathlib.Path:
    """Build hasten's own kernels as an external delegate, for models that must stay as they are; its library."""
    from hasten.custom_kernels.build import build_delegate, toolchain_for

    return or_error(build_delegate(pathlib.Path(folder), toolchain_for(effort.target)), None, effort).path

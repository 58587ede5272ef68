"""The ways to run a model: accelerators, threads, and how it is fed and read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.core.plan import Plan, Workload
from hasten.core.session import keep_nothing
from hasten.data.preprocess import Preprocess
from hasten.data.sources import open_dataset
from hasten.library.opening import error_of, open_model
from hasten.measure.rounds import Progress, no_progress
from hasten.practices.accelerators import pays_from as pays_from_module
from hasten.practices.accelerators import run as accelerators_module
from hasten.practices.accelerators.outputs import inputs_from_data, make_inputs
from hasten.practices.accelerators.placement import is_on_cpu
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from hasten.core.session import Keep
    from hasten.practices.accelerators.facts import AcceleratorRow
    from hasten.targets.base import Target


def accelerators(
    model: str | os.PathLike[str],
    workload: Workload = Workload(),
    *,
    threads: int = 1,
    delegates: Sequence[str] = (),
    target: Target | None = None,
    seconds: float = accelerators_module.DEFAULT_SECONDS,
    progress: Progress = no_progress,
    cache: str = "",
    keep: Keep | None = None,
    data: str = "",
    preprocess: Preprocess = Preprocess(),
) -> list[AcceleratorRow]:
    """What each accelerator does with a model: does it run, all of it, correctly, faster, when does it pay.

    Outputs are compared on samples of `data` (as open_dataset takes it), or else on seeded noise.
    """
    candidate, graph = open_model(model, Plan(threads=threads), workload)
    plans = accelerators_module.plans_to_examine(threads, delegates)
    make = inputs_from_data(graph, workload, open_dataset(data), preprocess) if data else make_inputs
    rows = accelerators_module.examine(
        target or LocalTarget(), candidate, graph, plans, seconds, progress, cache, keep or keep_nothing, make
    )
    failures = [row.failure for row in rows if row.failure is not None]
    if len(failures) == len(rows):
        raise error_of(failures[0], candidate)  # the CPU's own: the model's trouble, whatever the others say
    return rows


def accelerators_pay_from(
    rows: Sequence[AcceleratorRow],
    *,
    target: Target | None = None,
    seconds: float = pays_from_module.DEFAULT_SECONDS,
    progress: Progress = no_progress,
) -> list[AcceleratorRow]:
    """The rows, each that runs beside the CPU with the size of a network from which on it is faster there."""
    plans = {row.name: row.plan for row in rows if row.latency is not None and not is_on_cpu(row.plan)}
    base = replace(rows[0].plan, accelerator="cpu", delegate="", kernel="delegate", options=())
    found = pays_from_module.pays_from(target or LocalTarget(), base, plans, seconds, progress) if plans else {}
    return [replace(row, pays=found.get(row.name)) for row in rows]

"""Many devices by a cluster, from both ends: who uses them (`Fleet`), and who offers them."""

from __future__ import annotations

import contextlib
import pathlib
from dataclasses import replace
from typing import TYPE_CHECKING

from hasten.api.border import or_error
from hasten.api.new_models import companions, opened_with_data, quantize_store
from hasten.core.checks import ABOVE_ZERO, check_kind, check_number, text_of
from hasten.core.errors import UsageError
from hasten.core.failure import RunnerFailed
from hasten.core.goal import Goal
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort
from hasten.measure.opening import error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.api.border import Path
    from hasten.core.session import Session
    from hasten.fleet.address import Tls
    from hasten.fleet.cluster import Cluster
    from hasten.fleet.facts import FleetFound
    from hasten.fleet.worker import WorkerRequest
    from hasten.practices.help.facts import DevicesFound
    from hasten.practices.quantize.facts import QuantizeFound
    from hasten.search.settings import SearchSettings


class Fleet:
    """The devices of a cluster, by the address of its Dask scheduler; needs the extra `cluster`.

    `devices` names those to use, of all that the workers offer. `weights` say how much each counts for the single
    choice: devices without one count 1.
    """

    def __init__(
        self,
        cluster: str,
        *,
        tls: Tls | None = None,
        devices: Sequence[str] = (),
        weights: Mapping[str, float] | None = None,
    ) -> None:
        from hasten.fleet.address import Tls, check_address

        check_kind("cluster", cluster, str, 'cluster="tcp://127.0.0.1:8786"')
        check_kind("tls", tls, (Tls, type(None)), "tls=hasten.api.Tls(ca, certificate, key)")
        check_kind("devices", devices, (tuple, list), 'names, such as devices=("kitchen-pi",)')
        check_kind("weights", weights, (dict, type(None)), 'weights={"kitchen-pi": 3}')
        for weight in (weights or {}).values():
            check_number("weights", weight, ABOVE_ZERO)
        self._tls = tls or Tls()
        self._address = check_address(cluster, self._tls)
        self._devices = tuple(text_of("devices", name) for name in devices)
        self._weights = {text_of("weights", name): weight for name, weight in (weights or {}).items()}

    def devices(self) -> DevicesFound:
        """What the workers offer, each with its machine."""
        with self._connected() as cluster:
            return cluster.devices(self._devices)

    @checked
    def tune(
        self,
        model: Path,
        folder: Path,
        plan: Plan = Plan(),
        workload: Workload = Workload(),
        *,
        data: Data = Data(),
        settings: SearchSettings | None = None,
        effort: Effort = Effort(),
    ) -> FleetFound:
        """The best choice for each device, and the best single one for all; `effort.seconds` is the budget of each.

        Its folder holds a bundle for each device, one for all, and a page that shows the fleet.
        """
        from hasten.fleet import tuning
        from hasten.search.settings import TUNE_SECONDS, SearchSettings

        asked = settings or SearchSettings()
        if asked.goal != Goal.LATENCY:
            raise UsageError("A fleet is tuned for latency only.", "Tune one device for another goal, with --target.")
        if asked.also:
            raise UsageError("A fleet races one model.", "Leave out --also, or tune one device with --target.")
        if asked.kernels:
            raise UsageError(
                "A fleet takes no custom kernels.", "Leave out --kernels, or tune one device with --target."
            )
        request = tuning.FleetRequest(
            pathlib.Path(model),
            plan,
            replace(workload, seed=asked.seed),
            data,
            asked,
            effort.seconds_or(TUNE_SECONDS),
            pathlib.Path(folder),
            self._devices,
            self._weights,
        )
        with self._connected() as cluster:
            return tuning.run(cluster, request, companions, _fleet_page, effort.progress)

    @checked
    def quantize(
        self,
        model: Path,
        folder: Path,
        plan: Plan = Plan(),
        workload: Workload = Workload(),
        *,
        data: Data = Data(),
        settings: SearchSettings | None = None,
        effort: Effort = Effort(),
    ) -> QuantizeFound:
        """`quantize`, with the workers making variants, and evaluating on devices that compute as the target does.

        Latency is that of the target, as always.
        """
        from hasten.fleet.spreading import spread
        from hasten.search import quantizing
        from hasten.search.settings import QUANTIZE_SECONDS, SearchSettings

        opened = opened_with_data(model, plan, workload, data)
        with self._connected() as cluster, contextlib.ExitStack() as stack:
            store = quantize_store(opened, folder, settings or SearchSettings(), effort)
            stack.callback(store.close)
            try:
                stack.enter_context(spread(cluster, store, data, self._devices, effort.progress))
            except RunnerFailed as failed:  # the target is asked for its machine
                raise error_of(failed.failure, store.candidate, effort.target) from None
            found = quantizing.run(store, effort.seconds_or(QUANTIZE_SECONDS), effort.progress)
        return or_error(found, store.candidate, effort)

    def _connected(self) -> Cluster:
        from hasten.fleet.cluster import Cluster

        return Cluster(self._address, self._tls)


def _fleet_page(session: Session) -> str:
    """The page that shows a fleet."""
    from hasten.report.page import html_report

    return html_report(session, source="session.jsonl")


def serve_worker(request: WorkerRequest, tell: Callable[[str], None] = lambda text: None) -> None:
    """Offer devices to a cluster until the scheduler ends, or the user. `tell` is told what is offered."""
    from hasten.fleet.worker import serve

    serve(request, tell)

"""Devices behind ssh: what a trial costs more than here, and how soon a silent device ends its runners.

Wanted: over loopback, at most 0.3 s more for a trial than on the local target; a runner inside native code ended at
most 2 s after the client went silent; three devices, one of them dead, listed in less than 2 s; a latency that the
beats do not change (the ratio to local within 1 %, as its interval allows).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.loopback_sshd import HOST, running_sshd, silent_port
from tests.example_models import mobilenet_like

from benchmarks.common import record
from hasten import api
from hasten.core.contention import compare_measurements
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.measurement import Model
from hasten.core.plan import Plan, Workload
from hasten.measure.rounds import Candidate, Rounds
from hasten.targets.local import LocalTarget
from hasten.targets.ssh import SshTarget

if TYPE_CHECKING:
    from hasten.targets.base import Target
    from hasten.targets.ssh import SshDevice

_TRIALS = 15
_ROUNDS = 12
_MOST_EXTRA_S = 0.3
_MOST_TO_END_S = 2.0
_MOST_TO_LIST_S = 2.0


def main() -> int:
    """Trials here and there in turns; silence; a list; rounds of both in turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model.tflite"
        model.write_bytes(mobilenet_like())
        server_folder = folder / "sshd"
        server_folder.mkdir()
        with running_sshd(server_folder) as server:
            device = server.device(folder / "device", sys.executable)
            figures = {
                **_trials(device, model),
                "silent_s": _silence(device, model),
                **_listing(folder, device),
                **_ratio(device, model),
            }
    reached = (
        figures["extra_s"] <= _MOST_EXTRA_S
        and figures["silent_s"] <= _MOST_TO_END_S
        and figures["list_s"] <= _MOST_TO_LIST_S
        and figures["ratio_low"] <= 1.01
        and figures["ratio_high"] >= 0.99
    )
    return record("ssh_trial", figures, passed=reached)


def _trial(target: Target, model: Path) -> float:
    begin = time.perf_counter()
    with target.start(Plan()) as runner:
        runner.load(model, Workload())
        runner.block(0.05, 400)
    return time.perf_counter() - begin


def _trials(device: SshDevice, model: Path) -> dict[str, float]:
    here = LocalTarget()
    with contextlib.closing(SshTarget("device", device)) as there:
        first = _trial(there, model)
        pairs = [(_trial(here, model), _trial(there, model)) for _ in range(_TRIALS)]
    extra = statistics.median(away - near for near, away in pairs)
    local = statistics.median(near for near, _ in pairs)
    return {"first_s": round(first, 3), "local_s": round(local, 3), "extra_s": round(extra, 3)}


def _silence(device: SshDevice, model: Path) -> float:
    """From the moment in which the client is stopped to the end of a runner inside a native call."""
    target = SshTarget("device", device)
    runner = target.start(Plan())
    runner.load(model, Workload())
    runner.hello()
    pid = runner._link._pid_there  # type: ignore[attr-defined]
    assert isinstance(pid, int)

    def run() -> None:
        with contextlib.suppress(RunnerFailed):
            runner.block(600.0, 10**9)

    thread = threading.Thread(target=run)
    thread.start()
    descriptor = os.pidfd_open(pid)
    agent = target.transport._agent
    assert agent is not None
    os.kill(agent._link.pid, signal.SIGSTOP)
    begin = time.perf_counter()
    select.select([descriptor], [], [], 60.0)
    seconds = time.perf_counter() - begin
    os.kill(agent._link.pid, signal.SIGCONT)
    thread.join()
    os.close(descriptor)
    runner.close()
    target.close()
    return round(seconds, 3)


def _listing(folder: Path, device: SshDevice) -> dict[str, float]:
    """The first time the devices get hasten's runner; then as always."""
    shared = f'python = "{sys.executable}"\nconfig = "{device.config}"\n'
    sections = [f'[{name}]\naddress = "ssh://{HOST}"\nfolder = "{folder / name}"\n{shared}' for name in ("one", "two")]
    path = folder / "config" / "hasten" / "targets.toml"
    path.parent.mkdir(parents=True)
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    with silent_port() as port:
        path.write_text("\n".join([*sections, f'[dead]\naddress = "ssh://127.0.0.1:{port}"\n']))
        seconds = []
        for _ in range(4):
            begin = time.perf_counter()
            found = api.devices()
            seconds.append(time.perf_counter() - begin)
            assert [device.machine is not None for device in found.devices] == [True, True, True, False]
    return {"first_list_s": round(seconds[0], 3), "list_s": round(statistics.median(seconds[1:]), 3)}


def _ratio(device: SshDevice, model: Path) -> dict[str, float]:
    """One model here and there, in rounds that take turns."""
    told = Model(str(model), model.stat().st_size, "")
    with contextlib.closing(SshTarget("device", device)) as there:
        both = [Rounds(target, [Candidate("model", model, told)]) for target in (LocalTarget(), there)]
        for number in range(_ROUNDS):
            for rounds in both if number % 2 == 0 else reversed(both):
                rounds.run_one(0.3)
    here, away = (rounds.tracks[0].result() for rounds in both)
    if isinstance(here, Failure) or isinstance(away, Failure):
        raise SystemExit("A measurement failed.")
    found = compare_measurements(here, away)
    return {"ratio": round(found.ratio, 4), "ratio_low": round(found.ci95[0], 4), "ratio_high": round(found.ci95[1], 4)}


if __name__ == "__main__":
    sys.exit(main())

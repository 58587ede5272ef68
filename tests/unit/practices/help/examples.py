"""Checks of machines, models and devices to be shown."""

from __future__ import annotations

from dataclasses import replace

from hasten.core.failure import Failure
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.remark import Remark, remark, said
from hasten.core.statistics import Interval
from hasten.practices.help.facts import (
    ENGINE,
    RUNS_ON,
    BundleEntry,
    Check,
    CleanedDevice,
    CleanFound,
    Device,
    DevicesFound,
    DoctorFound,
    IssueBundle,
    ModelFound,
    Status,
)
from hasten.practices.help.minimize.facts import Minimized
from hasten.practices.help.model_checks.facts import DelegateFit, Refusal
from hasten.practices.help.model_checks.findings import better, broken, good
from hasten.practices.help.model_checks.rules import delegate_check, run_check
from hasten.practices.help.releases.facts import ReleaseRow, ReleasesFound, ReleaseStatus
from hasten.practices.help.releases.rules import finding
from hasten.practices.help.rules import cache_check, machine_checks
from hasten.targets.base import Capabilities
from tests.approved import timing
from tests.unit.fake_target import MACHINE


def fine() -> DoctorFound:
    """A machine in order, with a GPU that is not there."""
    machine = replace(MACHINE, governor="performance", turbo=True, energy_counter=True, load_average=0.1)
    runs = Check(RUNS_ON["cpu"], Status.OK, remark("help.runs", median_ms=0.0843))
    steady = Check("noise", Status.OK, remark("help.noise", spread=0.02))
    no_gpu = Check(RUNS_ON["gpu"], Status.MISSING, said("The engine finds no GPU.", hint="Install a driver."))
    return DoctorFound((*machine_checks(machine), cache_check("/home/me/.cache"), runs, steady, no_gpu))


def troubled() -> DoctorFound:
    """Everything that can be wrong."""
    bad = {"load_average": 9.0, "timer_ns": 100_000, "memory_mb": 512, "governor": "powersave", "instructions": ()}
    held = ("under-voltage", "throttled-earlier")
    machine = replace(MACHINE, hypervisor=False, energy_counter=False, held_back=held, **bad)  # type: ignore[arg-type]
    noisy = Check("noise", Status.WARNING, remark("help.noise-bad", spread=0.31))
    return DoctorFound((*machine_checks(machine), cache_check("/home/me/.cache", "Permission denied"), noisy))


def without_engine() -> DoctorFound:
    """Nothing can be run."""
    why = said("LiteRT is not installed.", hint="Run pip install ai-edge-litert.")
    return DoctorFound((Check(ENGINE, Status.MISSING, why),))


def devices() -> DevicesFound:
    """This machine, a board behind ssh, one that somebody uses, and one that does not answer."""
    able, apart = (Capabilities(host_paths=here, shared_memory=here) for here in (True, False))
    board = replace(
        MACHINE,
        architecture="aarch64",
        cpu="Cortex-A76",
        device="Raspberry Pi 5 Model B Rev 1.0",
        instructions=("asimd", "asimddp"),
        hypervisor=False,
    )
    used = remark("help.in-use", holder={"who": "me@desk"})
    away = said("attic does not answer.", hint="Check that the device is on and in the same network.")
    return DevicesFound(
        (
            Device("local", able, MACHINE),
            Device("kitchen", apart, board, kind="ssh", stored_mb=12.3),
            Device("shed", apart, why=used, kind="ssh", in_use=True),
            Device("attic", apart, why=away, kind="ssh"),
        )
    )


def cleaned() -> CleanFound:
    """A device with room again, and one that does not answer."""
    away = said("attic does not answer.", hint="Check that the device is on and in the same network.")
    return CleanFound((CleanedDevice("kitchen", 12.3), CleanedDevice("attic", why=away)))


def model_sound() -> ModelFound:
    """A model with nothing to do, timed on the CPU."""
    fits = (
        DelegateFit("xnnpack", observed=True, total=30, taken=30, partitions=1, refusals=(), taken_macs=1.0),
        DelegateFit("gpu", observed=False, total=30, taken=30, partitions=1, refusals=(), taken_macs=1.0),
        DelegateFit("hexagon", observed=False, total=30, taken=0, partitions=0, refusals=(), wants_integers=True),
    )
    measured = timing.bench_typical()
    checks = (
        run_check(measured, measured.plan.describe()),
        good("operators", "model.operators", count=30),
        *map(delegate_check, fits),
    )
    return ModelFound(measured.model, measured.plan, checks, fits, measured, machine=MACHINE)


def model_troubled() -> ModelFound:
    """Refused operators, waste and a part that crashes, with other releases and a bundle."""
    why = remark("refused.type", dtype="int64", allowed=["int32"])
    refusals = (Refusal("GATHER", (4, 9), why), Refusal("FLOOR_MOD", (7,), remark("refused.operator", op="FLOOR_MOD")))
    fits = (
        DelegateFit("xnnpack", True, 30, 27, 3, refusals, 0.98, 0.12),
        DelegateFit("gpu", False, 30, 27, 1, refusals, 0.98, 0.12),
        DelegateFit("nnapi", False, 30, 20, 4, refusals, 0.5),
    )
    failure = Failure(
        "load", "crash", "The runner crashed in native code (SIGABRT) while loading the model.", "", ("x",)
    )
    checks = (
        run_check(failure, "cpu, 1 thread"),
        better("metadata", "model.no-metadata"),
        better("float16 weights", "model.float16", count=12, nodes=[0, 1], bytes=4096, ms=0.2, share=0.04),
        better("unused weights", "model.unused-weights", count=2, bytes=81_920, share=0.11, last=29),
        broken("quantization parameters", "model.bias-scale", node=3, op="CONV_2D", ratio=2.5),
        *map(delegate_check, fits),
    )
    crash = remark("minimize.crash", stage="load", kind="crash", message=failure.message)
    small = Minimized("crash", True, 60, (36, 37), ("CAST", "ADD"), 11, 3, crash, crash, "cpu, 1 thread")
    rows = (
        ReleaseRow("2.1.6", ReleaseStatus.RUNS, False, Interval(5.1, 5.0, 5.2), equal=True),
        ReleaseRow("2.2.0", ReleaseStatus.MISSING),
        ReleaseRow("2.3.0", ReleaseStatus.FAILS, True, failure=failure),
    )
    releases = ReleasesFound("crash", rows, finding(rows, "crash"))
    entries = (
        BundleEntry("issue.md", 2_345, remark("bundle.issue")),
        BundleEntry("smallest.tflite", 1_204, remark("bundle.smallest", private=True)),
    )
    bundle = IssueBundle("issue.zip", entries, private=True)
    model = Model("net.tflite", 745_000, "0" * 64)
    found = ModelFound(model, Plan(), checks, fits, failure=failure, machine=MACHINE, minimized=small)
    return replace(found, releases=releases, bundle=bundle)


def model_not_shown() -> ModelFound:
    """A problem that the model does not have."""
    small = Minimized("wrong", False, 30, tuple(range(30)), (), 1, 0, _equal(), _equal(), "cpu, 1 thread")
    return replace(model_sound(), minimized=small)


def _equal() -> Remark:
    return remark("minimize.error", snr_db=None, equal=True, inputs="noise")

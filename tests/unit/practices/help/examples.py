"""Checks of machines and devices to be shown."""

from __future__ import annotations

from dataclasses import replace

from hasten.core.remark import remark, said
from hasten.practices.help.facts import (
    ENGINE,
    RUNS_ON,
    Check,
    CleanedDevice,
    CleanFound,
    Device,
    DevicesFound,
    DoctorFound,
    Status,
)
from hasten.practices.help.rules import cache_check, machine_checks
from hasten.targets.base import Capabilities
from tests.unit.fake_target import MACHINE


def fine() -> DoctorFound:
    """A machine in order, with a GPU that is not there."""
    machine = replace(MACHINE, governor="performance", turbo=True, energy_counter=True, load_average=0.1)
    runs = Check(RUNS_ON["cpu"], Status.OK, remark("help.runs", median_ms=0.0843))
    steady = Check("noise", Status.OK, remark("help.noise", spread=0.02))
    no_gpu = Check(RUNS_ON["gpu"], Status.MISSING, said("The engine finds no GPU.", hint="Install a driver."))
    return DoctorFound((*machine_checks(machine), cache_check("/home/me/.cache", writable=True), runs, steady, no_gpu))


def troubled() -> DoctorFound:
    """Everything that can be wrong."""
    bad = {"load_average": 9.0, "timer_ns": 100_000, "memory_mb": 512, "governor": "powersave", "instructions": ()}
    held = ("under-voltage", "throttled-earlier")
    machine = replace(MACHINE, hypervisor=False, energy_counter=False, held_back=held, **bad)  # type: ignore[arg-type]
    noisy = Check("noise", Status.WARNING, remark("help.noise-bad", spread=0.31))
    return DoctorFound((*machine_checks(machine), cache_check("/home/me/.cache", writable=False), noisy))


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

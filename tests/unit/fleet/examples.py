"""Fleets to be shown: one that agrees on a choice, one whose devices want different things, one with trouble."""

from __future__ import annotations

from dataclasses import replace

from hasten.core import doubts
from hasten.core.accuracy import Accuracy
from hasten.core.comparison import Comparison, Verdict
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.core.trial import ORIGINAL, Status, Trial
from hasten.fleet.facts import Choice, FleetDevice, FleetFound, FleetTrial
from hasten.fleet.rules import with_single_choices
from hasten.practices.help.facts import Device
from hasten.targets.base import LOCAL, SSH
from tests.unit.fake_target import MACHINE, FakeTarget

_TOP_1 = Accuracy("top-1", 0.921, 0.90, 0.94, 500, "data.npz")
_BASE = Choice("original@cpu, 1 thread", ORIGINAL, Plan(), "a" * 64, 1_434_432)
_INT8 = Choice("static_int8@cpu, 2 threads", "static_int8", Plan(threads=2), "b" * 64, 421_000)
_FLOAT16 = Choice("float16@cpu, 4 threads", "float16", Plan(threads=4), "c" * 64, 720_000)


def compared(ratio: float, half_width: float = 0.03) -> Comparison:
    """A comparison with an interval of this relative half width."""
    verdict = Verdict.FASTER if ratio < 1 - half_width else Verdict.SLOWER if ratio > 1 + half_width else Verdict.SAME
    return Comparison(verdict, ratio, (ratio * (1 - half_width), ratio * (1 + half_width)), 0.02, 8)


def place(name: str, kind: str = SSH) -> Device:
    """A device that can be used."""
    return Device(
        name, FakeTarget.capabilities, replace(MACHINE, cpu=f"CPU of {name}", architecture="aarch64"), kind=kind
    )


def device(name: str, best: Choice, original_ms: float, ratio: float) -> FleetDevice:
    """A device whose own tuning has found this best."""
    start = Trial(
        ORIGINAL,
        status=Status.KEPT,
        floor=FloorState.KEPT,
        latency=Interval(original_ms, 0.98 * original_ms, 1.02 * original_ms),
        reporting=_TOP_1,
        size_bytes=_BASE.size_bytes,
    )
    chosen = Trial(
        best.variant,
        best.plan,
        status=Status.CHOSEN,
        floor=FloorState.KEPT,
        latency=Interval(original_ms * ratio, 0.98 * original_ms * ratio, 1.02 * original_ms * ratio),
        reporting=replace(_TOP_1, value=0.918),
        size_bytes=best.size_bytes,
        sha256=best.sha256,
    )
    return FleetDevice(
        place(name),
        f"worker-{name}",
        start,
        start if best is _BASE else chosen,
        best.id,
        None if best is _BASE else compared(ratio),
        trials=17,
        seconds=94.0,
        folder=f"fleet/devices/{name}",
    )


def trial(choice: Choice, device: str, ratio: float, than_best: float) -> FleetTrial:
    """A choice on a device, with its time against the original's and against that of the device's best."""
    latency = Interval(4.0 * ratio, 3.9 * ratio, 4.1 * ratio)
    return FleetTrial(choice.id, device, latency, compared(ratio), compared(than_best), FloorState.KEPT)


def typical() -> FleetFound:
    """Two boards that agree, confirmed on both."""
    devices = (device("kitchen-pi", _INT8, 21.0, 0.42), device("hall-pi", _INT8, 24.0, 0.47))
    trials = (trial(_INT8, "kitchen-pi", 0.42, 1.0), trial(_INT8, "hall-pi", 0.47, 1.0))
    return with_single_choices(
        FleetFound(
            "/models/model.tflite",
            devices,
            (_BASE, replace(_INT8, devices=("kitchen-pi", "hall-pi"))),
            trials,
            {"kitchen-pi": 0.5, "hall-pi": 0.5},
            seconds=312.0,
            folder="fleet",
            single_folder="fleet/single",
            cluster="tcp://127.0.0.1:8786",
            command="hasten tune model.tflite --data data.npz --cluster tcp://127.0.0.1:8786 -o fleet",
        )
    )


def divided() -> FleetFound:
    """Three devices that want different things: the rules disagree on the choice for all."""
    devices = (
        device("kitchen-pi", _INT8, 21.0, 0.42),
        device("desk", _FLOAT16, 3.1, 0.35),
        device("old-board", _BASE, 80.0, 1.0),
    )
    noisy = replace(trial(_INT8, "desk", 0.50, 0.50 / 0.35), doubts=(remark(doubts.OTHER_LOAD, cores=0.4),))
    trials = (
        trial(_INT8, "kitchen-pi", 0.42, 1.0),
        trial(_FLOAT16, "kitchen-pi", 0.71, 0.71 / 0.42),
        noisy,
        trial(_FLOAT16, "desk", 0.35, 1.0),
        trial(_INT8, "old-board", 1.02, 1.02),
        trial(_FLOAT16, "old-board", 1.30, 1.30),
    )
    return with_single_choices(
        FleetFound(
            "/models/model.tflite",
            devices,
            (_BASE, replace(_INT8, devices=("kitchen-pi",)), replace(_FLOAT16, devices=("desk",))),
            trials,
            {"kitchen-pi": 0.2, "desk": 0.6, "old-board": 0.2},
            seconds=398.0,
            folder="fleet",
            single_folder="fleet/single",
            cluster="tls://lab:8786",
        )
    )


def troubled() -> FleetFound:
    """A device that was lost, one of another release, and a choice that breaks the floor on the third."""
    gone = remark("fleet.failed", message="No worker offers hall-pi any more.", hint="Start its worker again.")
    lost = FleetDevice(replace(place("hall-pi"), machine=None), "rack-1", why=gone)
    strange = remark("fleet.other-release", device="desk", theirs="0.0.9", ours="0.1.0")
    other = FleetDevice(replace(place("desk", LOCAL), machine=None), "desk", why=strange)
    broken = FleetTrial(
        _FLOAT16.id,
        "kitchen-pi",
        Interval(2.0, 1.9, 2.1),
        compared(0.5),
        compared(1.1),
        FloorState.BROKEN,
        why=remark("trial.no-data"),
    )
    return with_single_choices(
        FleetFound(
            "/models/model.tflite",
            (device("kitchen-pi", _INT8, 21.0, 0.42), lost, other),
            (_BASE, replace(_INT8, devices=("kitchen-pi",)), replace(_FLOAT16, devices=())),
            (trial(_INT8, "kitchen-pi", 0.42, 1.0), broken),
            {"kitchen-pi": 1 / 3, "hall-pi": 1 / 3, "desk": 1 / 3},
            notes=(
                remark("fleet.excluded", devices=["hall-pi", "desk"]),
                remark("fleet.not-made", recipe="static_int16", message="The quantizer crashed."),
                remark("fleet.not-raced", device="kitchen-pi", message="The runner was stopped."),
                remark("fleet.same-machine", devices=["a", "b"]),
            ),
            seconds=120.0,
            folder="fleet",
            interrupted=True,
        )
    )

"""A fleet as blocks, as the document that `--json` prints, and as the section of a report."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from hasten.core.accuracy import value_text
from hasten.core.codec import finite, from_data, to_data
from hasten.core.units import milliseconds, percent, several, size, speedup, tells, times
from hasten.fleet.facts import FleetFound
from hasten.fleet.words import BOOK, verdict_words
from hasten.show.blocks import (
    Cell,
    Chart,
    Detail,
    Facts,
    Headline,
    Note,
    Notes,
    Section,
    Table,
    columns,
    doubt_notes,
    notes,
)
from hasten.show.charts import BAR_PIXELS, SERIES, tooltip, vega_lite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.session import Line
    from hasten.fleet.facts import FleetDevice, FleetTrial, SingleChoice
    from hasten.show.blocks import Block

KIND: Final = "fleet"
_OWN: Final = "own best"
_SINGLE: Final = "one choice for all"


def view(found: FleetFound) -> list[Block]:
    """The choice for all, each device with its own, every choice on every device, and where all of it lies."""
    return [
        Headline(verdict_words(found)),
        Facts((("model", PurePath(found.model).name), ("fleet", _fleet_words(found)))),
        _devices(found),
        *([_chart(found)] if len(found.usable) > 1 and found.weighted is not None else []),
        *([_matrix(found)] if len(found.choices) > 1 and found.trials else []),
        *_failures(found.devices),
        *notes(found.notes, BOOK),
        *doubt_notes(_doubts(found), BOOK),
        Detail((_weights(found),)),
        Facts(tuple(_places(found))),
    ]


def document(found: FleetFound) -> dict[str, Any]:
    """The document of `hasten tune --cluster --json`."""
    return {
        "model": found.model,
        "cluster": found.cluster,
        "verdict": verdict_words(found),
        "devices": [_device_data(device, found.trial_of(device.best_id, device.name)) for device in found.devices],
        "choices": [to_data(choice) for choice in found.choices],
        "trials": [{**to_data(trial, BOOK), "may_be_chosen": trial.may_be_chosen} for trial in found.trials],
        "single": {
            "worst_case": _single_data(found, found.worst_case),
            "weighted": _single_data(found, found.weighted),
            "folder": found.single_folder,
        },
        "weights": dict(found.weights),
        "seconds": found.seconds,
        "interrupted": found.interrupted,
        "notes": BOOK.sentences(found.notes),
        "remarks": [BOOK.remark_data(note) for note in found.notes],
        "folder": found.folder,
        "command": found.command,
    }


def session_lines(found: FleetFound) -> list[tuple[str, str, dict[str, Any]]]:
    """What a session keeps of a fleet."""
    return [(KIND, PurePath(found.model).name, to_data(found))]


def sections(lines: Sequence[Line]) -> list[Section]:
    """The section of a report: the fleet as it was found last."""
    found = fleet_in(lines)
    return [Section(KIND, "The fleet", tuple(view(found)))] if found is not None else []


def answer(lines: Sequence[Line]) -> str:
    """What the fleet of a session came to; empty where there is none."""
    found = fleet_in(lines)
    return "" if found is None else verdict_words(found)


def fleet_in(lines: Sequence[Line]) -> FleetFound | None:
    """The last fleet that a session holds."""
    found = [line.data for line in lines if line.kind == KIND]
    return from_data(FleetFound, found[-1]) if found else None


def _fleet_words(found: FleetFound) -> str:
    absent = len(found.devices) - len(found.usable)
    lacking = f", {absent} without a result" if absent else ""
    return f"{several(len(found.devices), 'device')}{lacking}, tuned in {found.seconds:.0f} s"


def _devices(found: FleetFound) -> Table:
    rows = tuple(_device_row(device, found.trial_of(device.best_id, device.name)) for device in found.devices)
    headings = columns("device", "best choice", "#latency", "change", "accuracy", "?machine", "?worker")
    marks = tuple("kept" if device.is_usable else "failed" for device in found.devices)
    return Table("fleet-devices", "Each device with its own best choice", headings, rows, marks=marks)


def _device_row(device: FleetDevice, own: FleetTrial | None) -> tuple[Cell, ...]:
    """Time and change are those of the device's best among the trials, as everywhere on this page."""
    best, machine = device.best, device.device.machine
    if best is None:
        cells = [Cell("no result"), Cell(""), Cell(""), Cell("")]
    else:
        known = best.accuracy
        latency_ms = _latency_ms(device, own)
        cells = [
            Cell(device.best_id or best.id),
            Cell(milliseconds(latency_ms), finite(latency_ms)),
            Cell(_change(device, own), None if own is None or own.against is None else own.against.ratio),
            Cell("" if known is None else f"{known.metric} {value_text(known.metric, known.value)}"),
        ]
    where = "" if machine is None else f"{machine.cpu}, {several(machine.cores, 'core')}, {machine.architecture}"
    return (Cell(device.name), *cells, Cell(where), Cell(device.worker))


def _latency_ms(device: FleetDevice, own: FleetTrial | None) -> float:
    known = own.latency if own is not None else None
    return known.estimate if known is not None else device.best.median_ms if device.best is not None else math.nan


def _change(device: FleetDevice, own: FleetTrial | None) -> str:
    if device.best is None or own is None or own.against is None or device.keeps_original:
        return "keeps the original"
    return speedup(own.against.ratio, own.against.ci95)


def _matrix(found: FleetFound) -> Table:
    """Every choice on every device: its time against the original's there."""
    headings = columns("choice", *(f"#{device.name}" for device in found.usable), "#all")
    rows = []
    for choice in found.choices:
        cells = [_trial_cell(found.trial_of(choice.id, device.name)) for device in found.usable]
        rows.append((Cell(choice.id), *cells, _all_cell(found, choice.id)))
    chosen = found.weighted.choice if found.weighted else ""
    marks = tuple("chosen" if choice.id == chosen else "timed" for choice in found.choices)
    caption = "Speedup of each choice over the original on each device"
    return Table("fleet-choices", caption, headings, tuple(rows), marks=marks)


def _trial_cell(trial: FleetTrial | None) -> Cell:
    if trial is None:
        return Cell("not timed")
    if trial.against is None:
        return Cell("failed")
    told = times(1 / trial.against.ratio)
    return Cell(
        told if trial.may_be_chosen else f"{told}, {trial.floor.value or 'not judged'}", 1 / trial.against.ratio
    )


def _all_cell(found: FleetFound, choice: str) -> Cell:
    single = next((one for one in (found.weighted, found.worst_case) if one and one.choice == choice), None)
    return Cell("") if single is None else Cell(times(1 / single.ratio), 1 / single.ratio)


def _chart(found: FleetFound) -> Chart:
    """For each device, its own best next to the choice for all."""
    assert found.weighted is not None
    rows = [*_points(found, _OWN), *_points(found, _SINGLE)]
    y = {"field": "device", "type": "nominal", "sort": None, "title": None, "axis": {"ticks": False, "domain": False}}
    x = {"field": "value", "type": "quantitative", "title": "speedup over the original on that device"}
    scale = {"domain": [_OWN, _SINGLE], "range": list(SERIES[:2])}
    color = {"field": "what", "type": "nominal", "scale": scale, "legend": {"title": None}}
    shapes = {"domain": [_OWN, _SINGLE], "range": ["circle", "diamond"]}
    shape = {"field": "what", "type": "nominal", "scale": shapes, "legend": {"title": None}}
    offset = {"field": "what", "type": "nominal"}
    spec = vega_lite(
        BAR_PIXELS * len(found.usable),
        rows,
        layer=[
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {
                    "y": y,
                    "yOffset": offset,
                    "x": {**x, "field": "low"},
                    "x2": {"field": "high"},
                    "color": color,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90},
                "encoding": {
                    "y": y,
                    "yOffset": offset,
                    "x": {**x, "scale": {"zero": False}},
                    "color": color,
                    "shape": shape,
                    "tooltip": tooltip(device="device", what="choice", told="speedup"),
                },
            },
        ],
    )
    cells = tuple((Cell(row["device"]), Cell(row["what"]), Cell(row["told"], row["value"])) for row in rows)
    table = Table("fleet-speedups", "Own best and one choice for all", columns("device", "choice", "#speedup"), cells)
    described = (
        f"The speedup of {found.weighted.choice} on each of {several(len(found.usable), 'device')}, "
        "next to that of the device's own best choice."
    )
    return Chart(
        "fleet-speedup", "What one choice for all costs each device", described, spec, table, on_terminal=False
    )


def _points(found: FleetFound, what: str) -> Iterable[dict[str, Any]]:
    assert found.weighted is not None
    for device in found.usable:
        trial = found.trial_of(device.best_id if what == _OWN else found.weighted.choice, device.name)
        if trial is None or trial.against is None:
            continue
        value, (low, high) = 1 / trial.against.ratio, trial.against.ci95
        ends = (1 / high, 1 / low) if tells(low, high) and low > 0 else (value, value)
        yield {
            "device": device.name,
            "what": what,
            "value": value,
            "low": ends[0],
            "high": ends[1],
            "told": times(value),
        }


def _failures(devices: Sequence[FleetDevice]) -> list[Block]:
    rows = [Note(f"{one.name}: {BOOK.text(one.why)}", BOOK.hint(one.why)) for one in devices if one.why.code]
    return [Notes(tuple(rows))] if rows else []


def _doubts(found: FleetFound) -> dict[str, tuple[Any, ...]]:
    """The doubts of the figures that are compared, by device."""
    shown = {found.weighted.choice} if found.weighted else set()
    return {
        device.name: tuple(
            doubt
            for trial in found.trials
            if trial.device == device.name and trial.choice in {*shown, device.best_id}
            for doubt in trial.doubts
        )
        for device in found.usable
    }


def _weights(found: FleetFound) -> Table:
    rows = tuple((Cell(name), Cell(percent(share), share)) for name, share in found.weights.items())
    return Table("fleet-weights", "The weight of each device in the choice for all", columns("device", "#share"), rows)


def _places(found: FleetFound) -> Iterable[tuple[str, ...]]:
    if found.single_folder and found.weighted is not None:
        chosen = next(choice for choice in found.choices if choice.id == found.weighted.choice)
        yield "for all", f"{found.single_folder} ({size(chosen.size_bytes)})"
    yield "for each", str(Path(found.folder) / "devices")
    yield "report", str(Path(found.folder) / "report.html")
    if found.command and found.command.isprintable():  # a line break in a name cannot be shown as it is
        yield "again", found.command


def _device_data(device: FleetDevice, own: FleetTrial | None) -> dict[str, Any]:
    best, against = device.best, None if own is None else own.against
    return {
        "name": device.name,
        "kind": device.device.kind,
        "worker": device.worker,
        "machine": to_data(device.device)["machine"],
        "status": "ok" if device.is_usable else "failed",
        "why": BOOK.text(device.why),
        "why_code": device.why.code,
        "folder": device.folder,
        "interrupted": device.interrupted,
        "trials": device.trials,
        "seconds": device.seconds,
        "best": None
        if best is None
        else {
            "choice": device.best_id,
            "variant": best.variant,
            "plan": asdict(best.plan),
            "latency_ms": finite(_latency_ms(device, own)),
            "speedup": 1.0 if against is None else 1 / against.ratio,
            "ci95": [1.0, 1.0] if against is None else _speedup_ci(against.ci95),
            "accuracy": None if best.accuracy is None else best.accuracy.as_data(),
            "floor": best.floor.value,
            "size": best.size_bytes,
        },
    }


def _single_data(found: FleetFound, single: SingleChoice | None) -> dict[str, Any] | None:
    if single is None:
        return None
    choice = next(one for one in found.choices if one.id == single.choice)
    return {
        "choice": single.choice,
        "variant": choice.variant,
        "plan": asdict(choice.plan),
        "sha256": choice.sha256,
        "speedup": 1 / single.ratio,
        "ci95": _speedup_ci(single.ci95),
        "worst_device": single.worst_device,
        "worst_slowdown": single.worst_ratio,
        "worst_ci95": [finite(bound) for bound in single.worst_ci95],
    }


def _speedup_ci(ci95: tuple[float, float]) -> list[float | None]:
    low, high = ci95
    return [1 / high if high > 0 else None, 1 / low if low > 0 else None]

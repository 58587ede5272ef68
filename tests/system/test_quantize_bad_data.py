"""Bad data on the command line of `quantize`: a sentence that names what is wrong, exit 3; or left out and listed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from commandline import hasten
from PIL import Image
from tests.example_models import mobilenet_like

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHORT = ("--recipe", "float16", "--seconds", "0.1", "--no-mix")
_SIZE = 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.tflite"
    path.write_bytes(mobilenet_like(8, 1, _SIZE))
    return path


def images(folder: Path, count: int = 8) -> Path:
    """Pictures with labels in a table; the third is no picture."""
    values = np.random.default_rng(0).integers(0, 256, (count, _SIZE, _SIZE, 3), np.uint8)
    for number, pixels in enumerate(values):
        Image.fromarray(pixels).save(folder / f"{number}.png")
    (folder / "2.png").write_bytes(b"not a picture")
    (folder / "labels.csv").write_text("file,label\n" + "".join(f"{n}.png,{n % 3}\n" for n in range(count)))
    return folder / "labels.csv"


def arrays(folder: Path, **given: Any) -> Path:
    """A file of arrays that is right but for what is given."""
    right = {"x": np.random.default_rng(0).random((8, _SIZE, _SIZE, 3), np.float32), "y": np.arange(8) % 3}
    np.savez(folder / "data.npz", **{**right, **given})
    return folder / "data.npz"


def with_nan(folder: Path) -> Path:
    values = np.random.default_rng(0).random((8, _SIZE, _SIZE, 3), np.float32)
    values[5] = np.nan
    return arrays(folder, x=values)


def too_many_classes(folder: Path) -> Path:
    for number in range(12):
        (folder / "classes" / f"class {number}").mkdir(parents=True)
        (folder / "classes" / f"class {number}" / "0.png").write_bytes(b"")
    return folder / "classes"


def empty(folder: Path) -> Path:
    (folder / "nothing").mkdir()
    return folder / "nothing"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (images, "2.png cannot be read as an image"),
        (too_many_classes, "12 classes"),
        (lambda folder: arrays(folder, y=np.array([0, 1, 2, 0, 99999, 1, 2, 0])), "sample 4"),
        (empty, "nothing"),
        (lambda folder: arrays(folder, x=np.ones((8, 5, 7), np.float32)), "has the shape [5, 7]"),
        (lambda folder: arrays(folder, x=np.full((8, _SIZE, _SIZE, 3), "a")), "type"),
        (with_nan, "sample 5"),
    ],
    ids=["unreadable", "class count", "label", "empty", "shape", "type", "nan"],
)
def test_what_is_wrong_is_named_and_the_exit_code_is_3(
    make: Callable[[Path], Path], named: str, model: Path, tmp_path: Path
) -> None:
    done = hasten("quantize", model, "--data", make(tmp_path), "-o", tmp_path / "out", *SHORT)
    assert done.code == 3, done.output + done.errors
    assert named in " ".join(done.errors.split())


def calibration_with_trouble(folder: Path) -> Path:
    """Samples for calibration of which one has NaN, and one infinity."""
    values = np.random.default_rng(1).random((8, _SIZE, _SIZE, 3), np.float32)
    values[3, 0, 0, 0], values[6, 0, 0, 0] = np.nan, np.inf
    np.savez(folder / "ranges.npz", x=values)
    return folder / "ranges.npz"


def test_what_cannot_be_calibrated_with_is_named_by_file_and_row_or_left_out(model: Path, tmp_path: Path) -> None:
    data = ("--data", arrays(tmp_path), "--calibration", calibration_with_trouble(tmp_path))
    short = ("--recipe", "static_int8", "--seconds", "0.1", "--no-mix")
    done = hasten("quantize", model, *data, "-o", tmp_path / "out", *short)
    assert done.code == 3, done.output + done.errors
    assert re.search(r"sample [36] of \S*ranges\.npz ", " ".join(done.errors.split()))

    done = hasten("quantize", model, *data, "-o", tmp_path / "other", *short, "--skip-bad", "--json")
    assert done.code == 0, done.errors
    left_out = sorted(entry["name"] for entry in done.json()["skipped"])
    assert left_out == [f"sample {row} of {tmp_path / 'ranges.npz'}" for row in (3, 6)]
    assert done.json()["variants"][1]["floor"] != "failed"


@pytest.mark.slow
def test_what_the_users_functions_print_is_kept_apart_from_the_document(model: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import ctypes, os\n"
        "import numpy as np\n"
        "print('loading')\n"
        "ctypes.CDLL(None).puts(b'buffered')\n"
        "def samples():\n"
        "    for number in range(8):\n"
        "        print('reading')\n"
        "        os.write(1, b'native ')\n"
        f"        yield np.full(({_SIZE}, {_SIZE}, 3), number / 8, np.float32), number % 3\n"
        "def metric(outputs, label):\n"
        "    print('scoring')\n"
        "    os.system('echo child')\n"
        "    return 1.0\n"
    )
    own = ("--data", "own:samples", "--metric", "own:metric")
    done = hasten("quantize", model, *own, "-o", tmp_path / "out", *SHORT, "--json", cwd=tmp_path)
    assert done.code == 0, done.errors
    assert done.json()["variants"]
    assert {"loading", "buffered", "reading", "native", "scoring", "child"} <= set(done.errors.split())


@pytest.mark.slow
def test_bad_samples_are_left_out_counted_and_listed(model: Path, tmp_path: Path) -> None:
    data, folder = images(tmp_path), tmp_path / "out"
    done = hasten("quantize", model, "--data", data, "-o", folder, *SHORT, "--skip-bad", "--json")
    assert done.code == 0, done.errors
    (left_out,) = done.json()["skipped"]
    assert left_out["name"] == "2.png"
    assert "cannot be read" in left_out["reason"]
    samples = [done.json()["variants"][0]["accuracy"]["samples"], done.json()["variants"][1]["choosing"]["samples"]]
    assert sum(samples) == 7

    text = hasten("quantize", model, "--data", data, "-o", tmp_path / "other", *SHORT, "--skip-bad")
    assert "1 bad sample was left out: " in " ".join(text.output.split())
    assert "2.png" in text.output

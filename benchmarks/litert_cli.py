"""The real litert-cli, in a virtual environment of its own: it pins other releases than hasten uses."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION: Final = "0.2.1"
RECIPES: Final = (
    "dynamic_wi8_afp32",
    "dynamic_wi4_afp32",
    "weight_only_wi8_afp32",
    "weight_only_wi4_afp32",
    "static_wi8_ai8",
    "static_wi8_ai16",
)
_SCRIPT: Final = """
import numpy as np

def get_calibration_data():
    arrays = np.load({path!r})
    names = sorted({{key.rpartition("|")[0] for key in arrays}})
    count = len(arrays.files) // len(names)
    return {{{key!r}: [{{name: arrays[f"{{name}}|{{number}}"] for name in names}} for number in range(count)]}}
"""


class LitertCliError(Exception):
    """It cannot be installed, or refuses a model."""


def installed() -> Path:
    """The command, installed once for each release into the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    folder = cache / "hasten-benchmarks" / f"litert-cli-{VERSION}"
    command = folder / "bin" / "litert"
    if not command.exists():
        print(f"installing litert-cli {VERSION} into an environment of its own", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        _run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", f"litert-cli[quantize]=={VERSION}"])
    return command


def quantized(
    model: Path, recipe: str, out: Path, samples: Sequence[dict[str, Any]], signature: str | None = None
) -> None:
    """What `litert quantize` makes of a model with one of its recipes."""
    command: list[str | Path] = [installed(), "quantize", model, "--recipe", recipe, "--output", out]
    if recipe.startswith("static"):
        arrays = out.with_suffix(".npz")
        np.savez(arrays, **{f"{name}|{number}": one[name] for number, one in enumerate(samples) for name in one})
        script = out.with_suffix(".py")
        script.write_text(_SCRIPT.format(path=str(arrays), key=signature))
        command += ["--calibration-data", script]
    _run(command)


def _run(command: Sequence[str | Path]) -> None:
    # Its own interpreter must not see the packages of this one.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise LitertCliError(lines[-1] if lines else f"exit code {done.returncode}")


if __name__ == "__main__":
    print(installed())
    sys.exit(0)

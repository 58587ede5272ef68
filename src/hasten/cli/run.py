"""Run a bundle or a model once, on an array, an image or a WAV file, and show the most likely classes or the outputs.

A bundle brings its plan, its preprocessing and its labels. Outputs are real values: quantized ones are converted back.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import new_file, refuse_existing
from hasten.cli.presenting import present

if TYPE_CHECKING:
    import argparse

    from hasten.evaluate.prediction import Prediction

EXAMPLES = """
hasten run tuned --input photo.jpg
hasten run tuned --input x.npy --output y.npz
hasten run model.tflite --input photo.jpg --preprocess mean=127.5,std=127.5
hasten run model.tflite --input inputs.npz --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "--input",
        type=Path,
        required=True,
        metavar="FILE",
        help="a .npy file, a .npz file with an array per input, an image or a WAV file",
    )
    parser.add_argument("--preprocess", default="", metavar="K=V,…", help="for example mean=127.5,std=127.5")
    options.add_running(parser, session=False)
    group = parser.add_argument_group("results")
    group.add_argument("--output", type=Path, metavar="FILE", help="save the outputs as .npz")
    group.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(arguments: argparse.Namespace) -> int:
    """Run and show."""
    from hasten import api
    from hasten.data.preprocess import preprocess_from_text

    model, plan = options.model_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    refuse_existing(arguments.output, force=arguments.force, model=model)
    found = api.run_once(
        model,
        arguments.input,
        plan,
        workload,
        preprocess=preprocess_from_text(arguments.preprocess) if arguments.preprocess else None,
        bundle=options.bundle_named(arguments.model, trust=arguments.trust_bundle),
        effort=api.Effort(on=target),
    )
    if arguments.output:
        _save(arguments.output, found, force=arguments.force)
        found = replace(found, saved=str(arguments.output))
    return present(arguments, found)


def _save(path: Path, found: Prediction, *, force: bool) -> None:
    import numpy as np

    with new_file(path, force=force) as stream:  # a stream, as NumPy would change the file's name
        np.savez(stream, **found.outputs)  # type: ignore[arg-type]

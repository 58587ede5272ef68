"""Run a bundle, or a model, once: on an array, an image or a WAV file. Says the likeliest classes, or what came out.

Of a bundle, its plan, pre-processing and labels are used. Outputs are real values: quantised ones are turned back.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import refuse_existing
from hasten.cli.output import show
from hasten.cli.progress import progress_bar
from hasten.core.errors import DataError

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
        "--input", type=Path, required=True, metavar="FILE", help="a .npy, .npz (an array for each input), image or WAV"
    )
    parser.add_argument("--preprocess", default="", metavar="K=V,…", help="e.g. mean=127.5,std=127.5")
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser, session=False)
    group = parser.add_argument_group("results")
    group.add_argument("--output", type=Path, metavar="FILE", help="save the outputs there, as .npz")
    group.add_argument("--force", action="store_true", help="replace a file that exists")


def run(arguments: argparse.Namespace) -> int:
    """Run and show."""
    model, plan = options.model_and_plan(arguments.model, options.plan_from(arguments))
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    refuse_existing(arguments.output, force=arguments.force, model=model)
    bundle = options.bundle_named(arguments.model)

    from hasten.data.preprocess import preprocess_from_text
    from hasten.library import run_once
    from hasten.report.run_text import prediction_text

    preprocess = preprocess_from_text(arguments.preprocess or (bundle.preprocess if bundle else ""))
    with progress_bar("running") as progress:
        progress(0.0, "loading the model")
        found = run_once(
            model,
            arguments.input,
            plan,
            workload,
            preprocess=preprocess,
            target=target,
            labels=bundle.labels if bundle else (),
            label_offset=bundle.label_offset if bundle else 0,
        )
    if arguments.output:
        _save(arguments.output, found)
    if arguments.json:
        saved = str(arguments.output) if arguments.output else None
        show(options.as_json({"model": model, "plan": asdict(plan), **found.as_data(), "output": saved}))
    else:
        show(prediction_text(found))
    return 0


def _save(path: Path, found: Prediction) -> None:
    import numpy as np

    try:
        with path.open("wb") as stream:  # a file of its own, as NumPy would change its name
            np.savez(stream, **found.outputs)  # type: ignore[arg-type]
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error

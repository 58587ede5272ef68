"""Variants of a model with measured accuracy, size and speed, and the best that keeps the accuracy asked for.

One half of the data decides, the other one is reported on. Everything is saved in FOLDER as it ends: the same command
again goes on where it stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.output import complain, show
from hasten.cli.progress import progress_bar
from hasten.variants.io_types import FLOAT, IO_TYPES, IoTypes

if TYPE_CHECKING:
    import argparse

    from hasten.practices.quantize.run import QuantizePractice

EXAMPLES = """
hasten quantize demo --data demo --calibration demo -o quantized
hasten quantize model.tflite --data images/ --max-drop 1% -o quantized
hasten quantize model.tflite --data data.npz --for size -o quantized
hasten quantize model.tflite --data labels.csv --preprocess std=255 -o folder
hasten quantize model.tflite --data data.npz --recipe float16 -o quantized
hasten quantize model.tflite --data data.npz --prune 50% -o quantized
hasten quantize model.tflite --data data.npz --input-type uint8 -o quantized
"""
_INTERRUPTED: Final = 130


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="for variants, session and chosen.tflite"
    )
    parser.add_argument(
        "--max-drop",
        type=options.percentage_to_lose,
        default=0.01,
        metavar="P",
        help="the most to lose, 0%% to 100%%; of mae and own metrics relative (default: 1%%)",
    )
    parser.add_argument(
        "--for", dest="goal", choices=("speed", "size"), default="speed", help="what to gain (default: speed)"
    )
    parser.add_argument(
        "--recipe", action="append", default=[], metavar="NAME", help="try only this one; may be repeated"
    )
    parser.add_argument(
        "--prune",
        action="append",
        type=options.percentage,
        default=[],
        metavar="P",
        help="also with that share of weights set to zero, e.g. 50%%; may be repeated",
    )
    for end in ("input", "output"):
        parser.add_argument(
            f"--{end}-type", choices=IO_TYPES, default=FLOAT, help=f"of the variants' float {end}s (default: float32)"
        )
    parser.add_argument("--no-mix", action="store_true", help="do not look for mixes of float and integers")
    parser.add_argument(
        "--seconds", type=options.positive_float, default=60.0, metavar="S", help="for timing, about (default: 60)"
    )
    options.add_data(parser)
    options.add_plan(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Search and show; after Ctrl-C, what was found until then."""
    model, plan = options.model_and_plan(arguments.model, options.plan_from(arguments))
    workload, target = options.workload_from(arguments), options.target_from(arguments)

    from hasten.data.preprocess import preprocess_from_text
    from hasten.library import study_quantize
    from hasten.practices.quantize_records import QuantizeSettings
    from hasten.report.quantize_text import quantize_text
    from hasten.variants.recipes import RECIPE_NAMES

    settings = QuantizeSettings(
        recipes=tuple(dict.fromkeys(arguments.recipe)) or RECIPE_NAMES,
        max_drop=arguments.max_drop,
        goal=arguments.goal,
        mix=not arguments.no_mix,
        seconds=arguments.seconds,
        samples=arguments.samples,
        skip_bad=arguments.skip_bad,
        label_offset=arguments.label_offset,
        prune=tuple(dict.fromkeys(arguments.prune)),
        io_types=IoTypes(arguments.input_type, arguments.output_type),
    )
    practice = study_quantize(
        model,
        arguments.output,
        plan,
        workload,
        data=options.data_named(arguments.data),
        calibration=options.data_named(arguments.calibration, calibration=True),
        preprocess=preprocess_from_text(arguments.preprocess),
        metric=arguments.metric,
        settings=settings,
        target=target,
    )
    interrupted = _search(practice)
    found = practice.found()
    data = {"model": model, **found.as_data(), "interrupted": interrupted}
    show(options.as_json(data) if arguments.json else quantize_text(model, found))
    return _INTERRUPTED if interrupted else 0


def _search(practice: QuantizePractice) -> bool:
    """Search; whether Ctrl-C cut it short."""
    from hasten.library import run_quantize

    try:
        with progress_bar("quantizing") as progress:
            run_quantize(practice, progress)
    except KeyboardInterrupt:
        if not practice.rows:
            raise
        complain("interrupted; this is the best until then, and the same command goes on from here", "")
        return True
    return False

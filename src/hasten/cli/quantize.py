"""Make variants of a model with measured accuracy, size and speed, and choose the best that keeps its accuracy.

Variants are chosen on one part of the data; the accuracy shown is measured on the other. A verdict is kept, broken or
undecided. By default an undecided variant may be chosen if its estimated loss is within the floor. Each step is saved
in FOLDER as soon as it ends: run the same command again to continue.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse

EXAMPLES = """
hasten quantize demo --data demo --calibration demo -o quantized
hasten quantize model.tflite --data images/ --max-drop 1% -o quantized
hasten quantize model.tflite --data data.npz --for size -o quantized
hasten quantize model.tflite --data labels.csv --preprocess std=255 -o folder
hasten quantize model.tflite --data data.npz --recipe float16 -o quantized
hasten quantize model.tflite --data data.npz --prune 50% -o quantized
hasten quantize model.tflite --data images/ --refit-head -o quantized
hasten quantize model.tflite --data data.npz --input-type uint8 -o quantized
hasten quantize model.tflite --data images/ --cluster tcp://lab:8786 -o out
"""
_IO_TYPES: Final = ("float32", "int8", "uint8", "int16")


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder for variants, session and chosen.tflite",
    )
    parser.add_argument(
        "--max-drop",
        type=options.percentage_to_lose,
        default=0.01,
        metavar="P",
        help="largest loss of accuracy, 0%% to 100%%; relative for mae and custom metrics (default: 1%%)",
    )
    options.add_strict(parser)
    parser.add_argument(
        "--for",
        dest="goal",
        type=_goal,
        choices=("latency", "size"),
        default="latency",
        help="goal (default: latency; speed is its older name)",
    )
    parser.add_argument(
        "--recipe", action="append", default=[], metavar="NAME", help="try only this recipe; may be repeated"
    )
    parser.add_argument(
        "--prune",
        action="append",
        type=options.percentage,
        default=[],
        metavar="P",
        help="also try this share of weights set to zero, e.g. 50%%; may be repeated",
    )
    for end in ("input", "output"):
        parser.add_argument(
            f"--{end}-type",
            choices=_IO_TYPES,
            default="float32",
            help=f"type of float {end}s in variants (default: float32)",
        )
    parser.add_argument(
        "--refit-head",
        action="store_true",
        help="fit the last layer of the best int8 variant again, to labels of the choosing part",
    )
    parser.add_argument("--no-mix", action="store_true", help="do not search for mixed-precision variants")
    options.add_seconds(parser, 60, "approximate time limit for timing (default: 60)")
    options.add_data(parser)
    options.add_cluster(parser, "evaluate and make variants on the workers of this scheduler, too")
    options.add_running(parser, session=False)


def _goal(text: str) -> str:
    """Latency under its older name, too."""
    return "latency" if text == "speed" else text


def run(arguments: argparse.Namespace) -> int:
    """Search and show; after Ctrl-C, what was found until then."""
    from hasten import api
    from hasten.core.goal import goal_named

    model, plan = options.model_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    settings = api.SearchSettings(
        recipes=tuple(dict.fromkeys(arguments.recipe)) or api.RECIPE_NAMES,
        max_drop=arguments.max_drop,
        strict=arguments.strict,
        goal=goal_named(arguments.goal),
        mix=not arguments.no_mix,
        refit_head=arguments.refit_head,
        prune=tuple(dict.fromkeys(arguments.prune)),
        io_types=api.IoTypes(arguments.input_type, arguments.output_type),
    )
    data = options.data_from(arguments)
    quantize = options.fleet_from(arguments).quantize if arguments.cluster else api.quantize
    with progress_bar("quantizing") as progress:
        effort = api.Effort(arguments.seconds, target, progress)
        found, interrupted = completed(
            lambda: quantize(model, arguments.output, plan, workload, data=data, settings=settings, effort=effort),
            "Run the same command again to continue from here.",
        )
    return present(arguments, found, interrupted=interrupted)

"""Fit a new head to your own classes: transfer learning on the .tflite file itself, without TensorFlow.

hasten runs the model once on each sample and fits a softmax (or, for samples of several classes, sigmoids) to the
numbers before its last layer. A share of each class is kept for the test and never learned from; its list is written
next to the new model. DATA is a folder with a subfolder for each class, a .csv of path and label, or a .npz with x and
y. Folders train and test (or val) inside of it are used as such.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hasten.cli import options
from hasten.cli.files import is_there, refuse_existing
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from hasten.api import TrainingOptions

EXAMPLES = """
hasten retrain mobilenet.tflite --data photos/ -o mine.tflite
hasten retrain mobilenet.tflite --data photos/ --to int8 -o mine.tflite
hasten retrain yamnet.tflite --data wavs/ --preprocess length=fit -o my.tflite
hasten retrain model.tflite --data train.npz --test test.npz -o mine.tflite
hasten retrain model.tflite --data photos/ --features pooled -o mine.tflite
hasten retrain m.tflite --data my/ --fine-tune mobilenet_v2_1.0_96 -o n.tflite
"""
_WEIGHTINGS = ("auto", "balanced", "none")


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the new model")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument(
        "--to",
        default="",
        metavar="TYPE",
        help="quantize the model first, to int8 or by a recipe, and fit the head to it",
    )
    parser.add_argument("--test", default="", metavar="D", help="data for the test (default: a part of --data)")
    parser.add_argument(
        "--test-share",
        type=options.percentage,
        default=0.2,
        metavar="P",
        help="share of each class that is kept for the test (default: 20%%)",
    )
    parser.add_argument(
        "--class-weights",
        choices=_WEIGHTINGS,
        default="auto",
        help="let each class count alike: auto where sizes differ by 2 times or more (default: auto)",
    )
    parser.add_argument("--output-name", default="", metavar="NAME", help="output to replace (default: the first)")
    parser.add_argument(
        "--features", default="", metavar="NAME", help="tensor to put the head on (default: before the last layer)"
    )
    training = parser.add_argument_group("training of all layers, with Keras (pip install 'hasten[train]')")
    training.add_argument(
        "--fine-tune", default="", metavar="BACKBONE", help="also train this network, such as mobilenet_v2_1.0_224"
    )
    training.add_argument("--qat", action="store_true", help="and train it for int8 (quantization-aware training)")
    training.add_argument("--weights", metavar="W", help="where to begin: imagenet, none or a file (default: imagenet)")
    training.add_argument("--epochs", type=options.positive_int, default=0, metavar="N", help="at most (default: 20)")
    parser.add_argument("--seed", type=options.seed, default=0, metavar="N", help="seed of the split (default: 0)")
    options.add_data(parser, metric=False)
    options.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Retrain and show."""
    from hasten import api

    model, plan = options.model_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    refuse_existing(arguments.output, force=arguments.force, model=model)
    chosen = api.RetrainOptions(
        test_share=arguments.test_share,
        test_data=options.data_named(arguments.test),
        to=arguments.to,
        head=api.HeadOptions(arguments.output_name, arguments.features, arguments.class_weights, arguments.seed),
        training=_training(arguments),
        force=arguments.force,
    )
    data = options.data_from(arguments)
    session = options.session_from(arguments, "retrain")
    with progress_bar("retraining") as progress:
        effort = api.Effort(0.0, target, progress, options.keep_in(session))
        found, interrupted = completed(
            lambda: api.retrain(model, arguments.output, plan, workload, data=data, options=chosen, effort=effort)
        )
    return present(arguments, found, session=session, interrupted=interrupted)


def _training(arguments: argparse.Namespace) -> TrainingOptions | None:
    from hasten import api

    if not arguments.fine_tune:
        given = {"--qat": arguments.qat, "--weights": arguments.weights, "--epochs": arguments.epochs}
        if alone := [option for option, value in given.items() if value]:
            raise UsageError(f"{alone[0]} needs a network to train.", "Name it: --fine-tune mobilenet_v2_1.0_224")
        return None
    weights = arguments.weights or "imagenet"
    if weights not in ("imagenet", "none") and not is_there(Path(weights)):
        raise UsageError(f"There is no file of weights {weights}.", "Give --weights imagenet, none or a file.")
    return api.TrainingOptions(arguments.fine_tune, arguments.qat, weights, arguments.epochs, seed=arguments.seed)

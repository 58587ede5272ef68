"""All of the guide in one command: the fastest model and plan that keep the accuracy asked for, with proof.

Variants of the model and ways to run it race in rounds of fresh processes; what is surely slower drops out, the fastest
are tested for accuracy, and the winner is confirmed against the original. OUT becomes a bundle to ship. Everything is
saved there as it ends: after Ctrl-C it holds the best so far, and --resume goes on. Without data only ways to run the
original are chosen that do not change its numbers.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.output import complain, show
from hasten.cli.progress import progress_bar

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hasten.tune.tuning import Tuning

EXAMPLES = """
hasten tune demo --data demo --calibration demo -o tuned
hasten tune model.tflite --data images/ --max-drop 1% --budget 5m -o tuned
hasten tune model.tflite --data data.npz --limit size=1MB -o tuned
hasten tune model.tflite --data labels.csv -o tuned --resume --budget 10m
hasten tune model.tflite --data images/ -o tuned --watch
"""
_INTERRUPTED: Final = 130
_OUT_OF_REACH: Final = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="a new folder for everything")
    parser.add_argument(
        "--max-drop", type=options.percentage_to_lose, default=0.01, metavar="P", help="the most to lose (default: 1%%)"
    )
    parser.add_argument(
        "--limit", action="append", default=[], metavar="K=V", help="latency=5ms or size=1MB; may be repeated"
    )
    parser.add_argument("--budget", default="5m", metavar="T", help="about so long: 90s, 5m, 1h (default: 5m)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs for timing (default: 0)")
    parser.add_argument("--resume", action="store_true", help="go on with what is in OUT")
    parser.add_argument(
        "--recipe", action="append", default=[], metavar="NAME", help="try only these variants; may be repeated"
    )
    parser.add_argument("--no-mix", action="store_true", help="do not look for mixes of float and integers")
    parser.add_argument("--watch", action="store_true", help="serve the report on this machine while it runs")
    parser.add_argument("--only-race", action="store_true", help="leave out what does not bear on the choice")
    options.add_data(parser)
    options.add_workload(parser)
    options.add_target(parser)
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Tune and show; after Ctrl-C, the best until then."""
    from hasten.core.limits import budget_from_text, limit_from_texts
    from hasten.core.plan import Plan

    model, plan = options.model_and_plan(arguments.model, Plan())
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    limit, budget_s = limit_from_texts(arguments.limit), budget_from_text(arguments.budget)

    from hasten.data.preprocess import preprocess_from_text
    from hasten.library import study_tune
    from hasten.practices.registry import phrasebook
    from hasten.report.tune_text import tune_text
    from hasten.tune.settings import TuneSettings
    from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name

    recipes = tuple(recipe_from_name(name).name for name in dict.fromkeys(arguments.recipe))
    settings = TuneSettings(
        max_drop=arguments.max_drop,
        limit=limit,
        budget_s=budget_s,
        seed=arguments.seed,
        recipes=recipes or RECIPE_NAMES,
        mix=not arguments.no_mix,
        extras=not arguments.only_race,
        samples=arguments.samples,
        skip_bad=arguments.skip_bad,
        label_offset=arguments.label_offset,
        command=f"hasten {shlex.join(sys.argv[1:])}",
    )
    tuning = study_tune(
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
        resume=arguments.resume,
    )
    with _watching(arguments.output) if arguments.watch else contextlib.nullcontext():
        interrupted = _tune(tuning)
    found, book = tuning.found(), phrasebook()
    show(
        options.as_json({**found.as_data(), "verdicts": [book.finding_data(one) for one in found.findings]})
        if arguments.json
        else tune_text(found)
    )
    return _INTERRUPTED if interrupted else _OUT_OF_REACH if found.unreachable else 0


@contextlib.contextmanager
def _watching(folder: Path) -> Iterator[None]:
    """Serve the report as the session grows."""
    from hasten.report.live import serve

    with serve(folder / "session.jsonl") as server:
        complain(f"{server.url} shows what there is so far", "")
        yield


def _tune(tuning: Tuning) -> bool:
    """Tune; whether Ctrl-C cut it short."""
    from hasten.library import run_tune

    try:
        with progress_bar("tuning") as progress:
            run_tune(tuning, progress)
    except KeyboardInterrupt:
        if not tuning.has_answer:
            raise
        complain("interrupted; this is the best until then, and --resume goes on from here", "")
        return True
    return False

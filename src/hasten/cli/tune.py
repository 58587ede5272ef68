"""Find the fastest model and plan that keep the accuracy you ask for, and prove it.

Variants of the model race on different plans in fresh processes. Slower ones drop out, the fastest are tested for
accuracy, and the winner is confirmed against the original. OUT becomes a bundle to ship. Each step is saved there as it
ends: after Ctrl-C it holds the best so far, and --resume continues with what was left untried. Without data, only plans
that do not change the original's outputs are chosen. --for sets another goal than latency: the smallest file, the least
energy per inference, the most inferences per second on all cores, or the shortest time from the file to the first
result.

With --cluster, each device of a fleet is tuned on its own, and every choice is then timed on every device: OUT holds a
bundle for each device and one for all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.output import complain
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar
from hasten.core.errors import TargetError, UsageError
from hasten.core.goal import GOALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.plan import Plan, Workload
    from hasten.data.request import Data
    from hasten.search.settings import SearchSettings

EXAMPLES = """
hasten tune demo --data demo --calibration demo -o tuned
hasten tune model.tflite --data images/ --max-drop 1% --budget 5m -o tuned
hasten tune model.tflite --data data.npz --limit size=1MB -o tuned
hasten tune model.tflite --data data.npz --for size --limit latency=5ms -o out
hasten tune model.tflite --data data.npz --for throughput -o tuned
hasten tune model.tflite --data labels.csv -o tuned --resume --budget 10m
hasten tune model.tflite --data images/ -o tuned --watch
hasten tune a.tflite --data images/ -o out --also choose --candidates models/
hasten tune model.tflite --data images/ --cluster tcp://lab:8786 -o fleet
"""
_OUT_OF_REACH: Final = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="new folder for all results")
    parser.add_argument(
        "--max-drop",
        type=options.percentage_to_lose,
        default=0.01,
        metavar="P",
        help="largest loss of accuracy (default: 1%%)",
    )
    options.add_strict(parser)
    parser.add_argument("--for", dest="goal", choices=GOALS, default="latency", help="goal (default: latency)")
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="K=V",
        help="limit for the result: latency=5ms, size=1MB, energy=3mJ, throughput=200/s or start=50ms; may be repeated",
    )
    parser.add_argument(
        "--budget", default="5m", metavar="T", help="approximate time limit, e.g. 90s, 5m or 1h (default: 5m)"
    )
    parser.add_argument(
        "--seed", type=options.seed, default=0, metavar="N", help="seed for the inputs used for timing (default: 0)"
    )
    parser.add_argument("--resume", action="store_true", help="continue the tuning in OUT")
    _add_what_is_tried(parser)
    options.add_data(parser)
    options.add_workload(parser)
    options.add_target(parser)
    _add_fleet(parser)
    options.add_output(parser, session=False)


def _add_what_is_tried(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe", action="append", default=[], metavar="NAME", help="try only this recipe; may be repeated"
    )
    parser.add_argument("--no-mix", action="store_true", help="do not search for mixed-precision variants")
    parser.add_argument(
        "--refit-head",
        action="store_true",
        help="fit the last layer of an int8 variant that loses too much again, to your labels",
    )
    parser.add_argument("--watch", action="store_true", help="serve the report on this machine during the tuning")
    parser.add_argument("--no-rewrites", action="store_true", help="leave the graph as it is")
    parser.add_argument(
        "--kernels", action="store_true", help="also try hasten's own kernels in C, built by this machine's compiler"
    )
    parser.add_argument(
        "--only-race", action="store_true", help="skip profiles and practices that do not affect the choice"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        choices=("choose",),
        help="also race other models for the task: --candidates, or else the catalogue's",
    )
    parser.add_argument(
        "--candidates",
        nargs="+",
        action="extend",
        default=[],
        metavar="C",
        help="other models for --also choose: files, folders, bundles, lists or names from the catalogue",
    )


def _add_fleet(parser: argparse.ArgumentParser) -> None:
    options.add_cluster(parser, "tune each device that the workers of this scheduler offer; --budget is that of each")
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="with --cluster: use only this device; may be repeated",
    )
    parser.add_argument(
        "--weight",
        action="append",
        default=[],
        metavar="NAME=W",
        help="with --cluster: how much a device counts for the choice for all (default: 1); may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    """Tune and show; after Ctrl-C, the best until then."""
    from hasten import api
    from hasten.core.goal import goal_named
    from hasten.core.limits import budget_from_text, limit_from_texts

    if arguments.candidates and not arguments.also:
        raise UsageError("--candidates are for --also choose.", "Add --also choose.")
    model, plan = options.model_and_plan(arguments.model, trust=arguments.trust_bundle)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    limit, budget_s = limit_from_texts(arguments.limit), budget_from_text(arguments.budget)
    settings = api.SearchSettings(
        recipes=tuple(dict.fromkeys(arguments.recipe)) or api.RECIPE_NAMES,
        max_drop=arguments.max_drop,
        strict=arguments.strict,
        mix=not arguments.no_mix,
        goal=goal_named(arguments.goal),
        refit_head=arguments.refit_head,
        limit=limit,
        seed=arguments.seed,
        rewrites=not arguments.no_rewrites,
        kernels=arguments.kernels,
        extras=not arguments.only_race,
        resume=arguments.resume,
        also=tuple(dict.fromkeys(arguments.also)),
        candidates=tuple(options.model_named(name) for name in arguments.candidates),
        command=f"hasten {shlex.join(sys.argv[1:])}",
    )
    data = options.data_from(arguments)
    if arguments.cluster:
        return _tune_fleet(arguments, (model, plan, workload), data, settings, budget_s)
    if arguments.device or arguments.weight:
        raise UsageError("--device and --weight are about a fleet.", "Give the fleet with --cluster ADDRESS.")
    watching = _watching(arguments.output) if arguments.watch else contextlib.nullcontext()
    with watching, progress_bar("tuning") as progress:
        effort = api.Effort(budget_s, target, progress)
        found, interrupted = completed(
            lambda: api.tune(model, arguments.output, plan, workload, data=data, settings=settings, effort=effort),
            "Continue from here with --resume.",
        )
    code = present(arguments, found, interrupted=interrupted)
    return code or (_OUT_OF_REACH if found.unreachable else 0)


def _tune_fleet(
    arguments: argparse.Namespace,
    subject: tuple[str, Plan, Workload],
    data: Data,
    settings: SearchSettings,
    budget_s: float,
) -> int:
    """Tune a fleet and show; after Ctrl-C, what was found until then. Devices that all failed are a failure."""
    from hasten import api

    if arguments.target != "local":
        raise UsageError("--target and --cluster exclude each other.", "Name devices of the fleet with --device.")
    model, plan, workload = subject
    fleet = options.fleet_from(arguments, arguments.device, dict(map(_weight, arguments.weight)))
    watching = _watching(arguments.output) if arguments.watch else contextlib.nullcontext()
    with watching, progress_bar("tuning the fleet") as progress:
        effort = api.Effort(budget_s, None, progress)
        found, interrupted = completed(
            lambda: fleet.tune(model, arguments.output, plan, workload, data=data, settings=settings, effort=effort),
            "Continue from here with --resume.",
        )
    arguments.target = ""  # the result names its devices
    return present(arguments, found, interrupted=interrupted) or (0 if found.usable else TargetError.exit_code)


def _weight(text: str) -> tuple[str, float]:
    name, separator, value = text.rpartition("=")
    if not separator or not name:
        raise UsageError(f"--weight {text!r} is not of the form NAME=W.", "Example: --weight kitchen-pi=3")
    try:
        return name, options.positive_float(value)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"The weight of {name} {error}.", "Example: --weight kitchen-pi=3") from None


@contextlib.contextmanager
def _watching(folder: Path) -> Iterator[None]:
    """Serve the report as the session grows."""
    from hasten import api

    with api.serve_report(folder / "session.jsonl") as server:
        complain(f"{server.url} shows the results so far.", "")
        yield

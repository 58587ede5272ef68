"""Options that several commands share, and what they mean: a plan, a workload, a target, a session file."""

from __future__ import annotations

import argparse
import atexit
import functools
import math
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from hasten.bundle.folder import is_bundle, read_bundle
from hasten.bundle.trust import code_descriptions
from hasten.cli.files import is_there
from hasten.cli.output import complain
from hasten.cli.unsaved import UNSAVED
from hasten.core.checks import ABOVE_ZERO, FROM_ONE, SEED, SHARE, SHARE_TO_LOSE, THREADS, Requirement
from hasten.core.errors import UsageError
from hasten.core.plan import ACCELERATORS, KERNELS, PRECISIONS, Plan, Workload, plan_with
from hasten.core.session import TARGET, SessionWriter, keep_nothing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.api import Fleet
    from hasten.bundle.record import Bundle
    from hasten.core.session import Keep
    from hasten.data.request import Data
    from hasten.fleet.address import Tls
    from hasten.targets.base import Target

MODEL_HELP: Final = "a .tflite file, a bundle or demo; a plan may follow, as in model.tflite@threads=2"
NO_SETTINGS: Final[Mapping[str, Any]] = MappingProxyType({})
_PLAN_OPTIONS: Final = ("accelerator", "threads", "kernel", "precision", "delegate")


def add_seconds(parser: argparse.ArgumentParser, default: float, said: str = "") -> None:
    """How long to measure."""
    said = said or f"approximate time limit (default: {default:g})"
    parser.add_argument("--seconds", type=positive_float, default=float(default), metavar="S", help=said)


def add_strict(parser: argparse.ArgumentParser) -> None:
    """Which variants a search may choose."""
    parser.add_argument(
        "--strict", action="store_true", help="choose only what is proven to keep the accuracy, nothing undecided"
    )


def add_running(parser: argparse.ArgumentParser, *, session: bool = True) -> None:
    """What every command takes that runs a model on a plan."""
    add_plan(parser)
    add_workload(parser)
    add_target(parser)
    add_output(parser, session=session)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """How to run the model. Only what is asked for has a value: the rest is a bundle's, a file's or the default."""
    group = parser.add_argument_group("how to run the model")
    group.add_argument("--accelerator", choices=ACCELERATORS, help="where the model runs (default: cpu)")
    group.add_argument("--threads", type=threads, metavar="N", help="CPU threads (default: 1)")
    group.add_argument("--kernel", choices=KERNELS, help="CPU kernels: XNNPACK (delegate), built-in or reference")
    group.add_argument("--precision", choices=PRECISIONS, help="precision on the GPU")
    group.add_argument("--delegate", metavar="LIB[:K=V;…]", help="an external delegate library")
    group.add_argument(
        "--kernel-library",
        action="append",
        default=[],
        metavar="LIB",
        help="a library with kernels for the model's custom operators; may be repeated",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="GROUP.KEY=VALUE",
        help="an engine option, for example cpu.flags=1 (groups: runtime, cpu, gpu, npu)",
    )


def add_workload(parser: argparse.ArgumentParser) -> None:
    """What to run of the model."""
    group = parser.add_argument_group("what to run")
    group.add_argument("--signature", default="", metavar="KEY", help="signature to run (default: the first)")
    group.add_argument(
        "--shape", action="append", default=[], metavar="INPUT=1x224x224x3", help="shape of an input; may be repeated"
    )
    group.add_argument(
        "--trust-bundle",
        action="store_true",
        help="let the bundle load its delegate or kernel library and use paths outside its folder",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Where to run it, and the limits there."""
    group = parser.add_argument_group("where to run it")
    group.add_argument(
        "--target",
        default="local",
        metavar="DEVICE",
        help="local, ssh://[user@]host[:port] or a name of targets.toml (default: local; see hasten devices)",
    )
    group.add_argument(
        "--wait",
        type=positive_float,
        default=0.0,
        metavar="S",
        help="wait for a device that another session uses, in seconds (default: do not wait)",
    )
    group.add_argument(
        "--time-limit",
        type=positive_float,
        default=120.0,
        metavar="S",
        help="time limit for one request, in seconds (default: 120)",
    )
    group.add_argument(
        "--memory-limit",
        type=positive_int,
        default=0,
        metavar="MB",
        help="memory for the runner (default: 3/4 of the RAM)",
    )


def add_cluster(parser: argparse.ArgumentParser, said: str) -> None:
    """The scheduler of a cluster, and the certificates for it."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--cluster", default="", metavar="ADDRESS", help=said)
    add_tls(group)


def add_tls(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Certificates for an encrypted cluster."""
    parser.add_argument(
        "--tls-ca", default="", metavar="FILE", help="certificate of the authority, for tls:// addresses"
    )
    parser.add_argument("--tls-cert", default="", metavar="FILE", help="certificate of this side")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="key of this side; only its name is kept")


def tls_from(arguments: argparse.Namespace) -> Tls:
    """The certificates that the options name."""
    from hasten.fleet.address import Tls

    return Tls(arguments.tls_ca, arguments.tls_cert, arguments.tls_key)


def fleet_from(
    arguments: argparse.Namespace, devices: Sequence[str] = (), weights: dict[str, float] | None = None
) -> Fleet:
    """The fleet that the options name; these devices of it, or all."""
    from hasten import api

    return api.Fleet(arguments.cluster, tls=tls_from(arguments), devices=tuple(devices), weights=weights)


def add_data(parser: argparse.ArgumentParser, *, calibration: bool = True, metric: bool = True) -> None:
    """Data to judge a model by."""
    group = parser.add_argument_group("data")
    group.add_argument(
        "--data", default="", metavar="D", help="a folder, .csv, .npz or module:function; demo: the embedded images"
    )
    if calibration:
        group.add_argument(
            "--calibration", default="", metavar="D", help="data for calibration (default: part of --data)"
        )
    group.add_argument("--preprocess", default="", metavar="K=V,…", help="for example mean=127.5,std=127.5")
    group.add_argument(
        "--label-offset", type=int, default=0, metavar="N", help="add N to labels: 1 if output 0 is the background"
    )
    if metric:
        group.add_argument(
            "--metric",
            default="",
            help="top-1, top-5, miou, mae, cosine or module:function (higher is better, unless the function has "
            "higher_is_better = False)",
        )
    group.add_argument("--skip-bad", action="store_true", help="leave out samples that cannot be used")
    group.add_argument("--samples", type=positive_int, metavar="N", help="use at most N samples, drawn at random")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Data that two models run on, to be compared."""
    group = parser.add_argument_group("inputs")
    group.add_argument(
        "--data", default="", metavar="D", help="a folder, .csv, .npz or module:function; demo: the embedded images"
    )
    group.add_argument(
        "--preprocess", default="", metavar="K=V,…", help="for example mean=127.5,std=127.5 (default: unchanged)"
    )
    group.add_argument("--skip-bad", action="store_true", help="leave out samples that cannot be used")


def inputs_from(arguments: argparse.Namespace) -> Data:
    """The data that models run on, if any is named; without it, there is nothing to prepare."""
    from hasten.data.request import Data

    skip_bad = getattr(arguments, "skip_bad", False)
    for name, given in (("--preprocess", arguments.preprocess), ("--skip-bad", skip_bad)):
        if given and not arguments.data:
            raise UsageError(f"{name} needs --data.", f"Add --data, or leave {name} out.")
    return Data(data_named(arguments.data), preprocess=arguments.preprocess, skip_bad=skip_bad)


def refuse_beside(action: str, given: Mapping[str, object]) -> None:
    """Refuse options that the action would ignore."""
    for name in (name for name, value in given.items() if value):
        raise UsageError(f"{name} does not go with {action}.", "Leave one of them out.")


def data_named(text: str, *, calibration: bool = False) -> str:
    """The data that an option names; demo is the embedded one."""
    from hasten.demo import CALIBRATION, DATA

    if text == "demo" and not Path(text).exists():
        return str(CALIBRATION if calibration else DATA)
    return text


def data_from(arguments: argparse.Namespace) -> Data:
    """The data that the options name."""
    from hasten.data.request import Data

    return Data(
        data_named(arguments.data),
        data_named(arguments.calibration, calibration=True),
        arguments.preprocess,
        getattr(arguments, "metric", ""),
        arguments.samples,
        arguments.skip_bad,
        arguments.label_offset,
    )


def add_output(parser: argparse.ArgumentParser, *, session: bool = True) -> None:
    """What to print and keep."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    group.add_argument("--verbose", action="store_true", help="show details that are otherwise only in the report")
    if session:
        group.add_argument(
            "--session", type=Path, metavar="FILE", help="save raw samples to this session file, or add to it"
        )


def plan_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of a plan that the options ask for; a default that is asked for is one of them."""
    options = []
    for text in arguments.option:
        key, separator, value = text.partition("=")
        if not separator or "." not in key:
            raise UsageError(f"--option {text!r} is not of the form GROUP.KEY=VALUE.", "Example: --option cpu.flags=1")
        options.append((key, value))
    found = {name: value for name in _PLAN_OPTIONS if (value := getattr(arguments, name)) is not None}
    if options:
        found["options"] = tuple(sorted(options))
    if arguments.kernel_library:
        found["kernels"] = tuple(arguments.kernel_library)
    return found


def workload_from(arguments: argparse.Namespace, base: Workload | None = None) -> Workload:
    """The base with what the options say; without a base, the workload of the bundle that is named (the first of two)
    or the default one."""
    if base is None:
        named = str(getattr(arguments, "model", "") or getattr(arguments, "first", ""))
        bundle = bundle_named(named, trust=arguments.trust_bundle)
        base = bundle.workload if bundle else Workload()
    return changed_workload(base, arguments.signature, tuple(_shape(text) for text in arguments.shape))


def changed_workload(base: Workload, signature: str, shapes: Sequence[tuple[str, tuple[int, ...]]]) -> Workload:
    """The base with another signature, if one is given, and with these shapes. Another signature has other inputs."""
    if signature and signature != base.signature:
        base = replace(base, signature=signature, shapes=())
    return replace(base, shapes=tuple({**dict(base.shapes), **dict(shapes)}.items()))


def target_from(arguments: argparse.Namespace) -> Target:
    """The target that the options name."""
    from hasten.targets.base import Limits
    from hasten.targets.target_file import target_named

    target = target_named(arguments.target, Limits(arguments.time_limit, arguments.memory_limit, arguments.wait))
    atexit.register(target.close)
    return target


def session_from(arguments: argparse.Namespace, command: str) -> SessionWriter | None:
    """A writer for the session file, if one was asked for."""
    from hasten.core.version import VERSION

    if arguments.session is None:
        return None
    header = {"hasten": VERSION, "command": command}
    if getattr(arguments, "target", "local") != "local":
        header[TARGET] = arguments.target
    writer = SessionWriter(arguments.session, header)
    writer.begin()
    return writer


def keep_in(session: SessionWriter | None) -> Keep:
    """What saves each trial as it ends; nothing where no session file was asked for.

    The measurement goes on where a trial cannot be saved.
    """
    return UNSAVED.deferred()(session.add) if session else keep_nothing


def model_from(arguments: argparse.Namespace) -> tuple[str, Plan]:
    """The model that the options name, and its plan."""
    return model_and_plan(arguments.model, plan_settings(arguments), trust=arguments.trust_bundle)


def model_and_plan(
    text: str,
    asked: Mapping[str, Any] = NO_SETTINGS,
    default_model: str = "",
    *,
    base: Plan | None = None,
    trust: bool = False,
) -> tuple[str, Plan]:
    """`model.tflite@threads=2,accelerator=npu`: a model and its plan.

    The plan is the bundle's with the settings asked for; that of a plain model is `base`, or the default one with them.
    A file whose own name has an @ in it is taken as it is. `demo` is the embedded model. `trust` is --trust-bundle.
    """
    path, separator, settings = text.rpartition("@")
    in_folder = "/" in settings.partition("=")[0]  # the @ is one of a folder's name
    if not separator or in_folder or is_there(Path(text)):
        return _with_bundle(text, asked, base, trust=trust)
    pairs = {}
    for item in settings.split(","):
        key, has_value, value = item.partition("=")
        if not has_value:
            raise UsageError(
                f"{item!r} in {text!r} is not of the form setting=value.", "Example: model.tflite@threads=2"
            )
        pairs[key.strip()] = value.strip()
    model, plan = _with_bundle(path or default_model, asked, base, trust=trust)
    return model, plan_with(plan, pairs)


def both_models(arguments: argparse.Namespace) -> tuple[tuple[str, Plan], tuple[str, Plan]]:
    """The models A and B with their plans; a plan alone, as B, is one for A's model."""
    asked, trust = plan_settings(arguments), arguments.trust_bundle
    first = model_and_plan(arguments.first, asked, trust=trust)
    bundle = bundle_named(arguments.first, trust=trust)
    default_model = str(bundle.folder) if bundle else first[0]
    return first, model_and_plan(arguments.second, asked, default_model, trust=trust)


def bundle_named(text: str, *, trust: bool) -> Bundle | None:
    """The bundle that a MODEL names, perhaps with a plan behind it; None for anything else."""
    for name in (text, text.rpartition("@")[0]):
        if name and is_bundle(Path(name)):
            return _read_bundle(Path(name), trust)
    return None


def _with_bundle(text: str, asked: Mapping[str, Any], base: Plan | None, *, trust: bool) -> tuple[str, Plan]:
    """The model, and the plan of a bundle, in which what was asked for counts more."""
    if not text or not is_bundle(Path(text)):
        return model_named(text), base or Plan(**asked)
    bundle = _read_bundle(Path(text), trust)
    return str(bundle.model_path), replace(bundle.plan, **asked)


@functools.cache
def _read_bundle(folder: Path, trust: bool) -> Bundle:
    """A bundle, read once a command: its model is hashed each time. Says which library it loads."""
    bundle = read_bundle(folder, trust_bundle=trust)
    for description in code_descriptions(bundle.plan):
        complain(f"The bundle {folder} loads the {description}.", "")
    return bundle


def limits_from(texts: list[str]) -> dict[str, str]:
    """`--limit NAME=VALUE` as names and quantities; each name once."""
    found: dict[str, str] = {}
    for name, value in map(_limit, texts):
        if name in found:
            raise UsageError(f"--limit {name} is given twice: {found[name]} and {value}.", "Give it once.")
        found[name] = value
    return found


def _limit(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(f"--limit {text!r} is not of the form NAME=VALUE.", 'Example: --limit latency="5 ms"')
    return name.strip().replace("-", "_"), value


def model_named(text: str) -> str:
    """A model's path or name as an option takes it; demo is the embedded one."""
    from hasten.demo import MODEL

    if not text:
        raise UsageError("No model was given.", "Give the path of a .tflite file, or demo for the embedded model.")
    return str(MODEL) if text == "demo" and not Path(text).exists() else text


def names(text: str) -> tuple[str, ...]:
    """What is listed with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def positive_int(text: str) -> int:
    """A whole number from 1."""
    return int(_required(text, int(text) if text.strip().isdecimal() else math.nan, FROM_ONE))


def threads(text: str) -> int:
    """A number of threads."""
    return int(_required(text, int(text) if text.strip().isdecimal() else math.nan, THREADS))


def seed(text: str) -> int:
    """A whole number from 0."""
    return int(_required(text, int(text) if text.strip().isdecimal() else math.nan, SEED))


def positive_float(text: str) -> float:
    """A number above 0."""
    return _required(text, _number(text), ABOVE_ZERO)


def percentage(text: str) -> float:
    """`1%` or `0.01`, between nothing and all."""
    return _required(text, _share(text), SHARE)


def percentage_to_lose(text: str) -> float:
    """`1%` or `0.01`, from nothing to all."""
    return _required(text, _share(text), SHARE_TO_LOSE)


def _required(text: str, value: float, requirement: Requirement) -> float:
    if not requirement.fits(value):
        raise argparse.ArgumentTypeError(f"must be {requirement.words}, not {text!r}")
    return value


def _share(text: str) -> float:
    return _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _number(text: str) -> float:
    """The number, or one that no limit lets through."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, separator, dimensions = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in dimensions.lower().split("x")) if dimensions else ()
    except ValueError:
        shape = ()
    if not separator or not name or not shape or min(shape) < 1:
        raise UsageError(f"--shape {text!r} is not of the form INPUT=SIZES.", "Example: --shape image=1x224x224x3")
    return name, shape


def as_json(data: dict[str, Any]) -> str:
    """The JSON document that --json prints. Infinities have no place in JSON and become null."""
    import json

    return json.dumps(_finite(data), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value

"""Find operators that take longer than they must, and rewrite the graph where the result is equal and faster.

A rewrite is kept only if the outputs stay equal on your data (or on seeded noise) and a race shows that it is faster
on this device. "Nothing to gain" is a usual answer. With -o, the folder gets the rewritten model and the session.

Exit code 1: a kernel of --kernel-file fails, or computes other results than the operators that it replaces.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.cli import options
from hasten.cli.files import make_folder, refuse_existing
from hasten.cli.output import complain, show
from hasten.cli.presenting import completed, present
from hasten.cli.progress import progress_bar
from hasten.core.errors import DataError, UsageError
from hasten.core.printable import printable
from hasten.core.units import several

if TYPE_CHECKING:
    import argparse

    from hasten.core.plan import Plan

EXAMPLES = """
hasten operators model.tflite
hasten operators model.tflite --data images/ -o rewritten/
hasten operators model.tflite --rewrite layout --rewrite space-to-depth
hasten operators model.tflite --outputs boxes,scores -o smaller/
hasten operators model.tflite --cut 10:14 --data images/ -o part.tflite
hasten operators model.tflite --kernels -o faster/
hasten operators model.tflite --new-kernel mykernel --for HARD_SWISH
hasten operators model.tflite --kernel-file k/k.c --for HARD_SWISH
"""
_KERNEL_REFUSED: Final = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help=options.MODEL_HELP)
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="folder for the rewritten model and the session")
    options.add_seconds(parser, 60)
    parser.add_argument(
        "--rewrite", action="append", default=[], metavar="NAME", help="try this rewrite only; may be repeated"
    )
    parser.add_argument(
        "--outputs",
        type=options.names,
        default=(),
        metavar="NAME,…",
        help="keep only these outputs (changes the interface)",
    )
    parser.add_argument(
        "--cut",
        type=_node_range,
        metavar="A:B",
        help="write nodes A to B as a model of their own to OUT, with recorded inputs, and end",
    )
    parser.add_argument(
        "--private", action="store_true", help="with --cut: random weights, no names, no recorded inputs"
    )
    group = parser.add_argument_group("custom kernels")
    group.add_argument(
        "--kernels", action="store_true", help="also try hasten's own kernels in C, built by this machine's compiler"
    )
    group.add_argument(
        "--kernel-file",
        action="append",
        default=[],
        metavar="FILE",
        help="also try a kernel of your own: .c, or .py for numba; may be repeated",
    )
    group.add_argument(
        "--for",
        action="append",
        default=[],
        dest="replaces",
        metavar="NODES",
        help="what it replaces: HARD_SWISH, MUL,ADD or 12:15; one for each --kernel-file",
    )
    group.add_argument(
        "--kernel-delegate",
        type=Path,
        metavar="DIR",
        help="build hasten's own kernels as a delegate that leaves the model file as it is, and end",
    )
    group.add_argument(
        "--new-kernel", type=Path, metavar="DIR", help="write a kernel to start from, for the nodes of --for, and end"
    )
    parser.add_argument("--data", default="", metavar="D", help="real inputs to compare outputs on (default: noise)")
    parser.add_argument("--preprocess", default="", metavar="K=V,…", help="how to prepare them (default: unchanged)")
    options.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Examine, try and show; after Ctrl-C, what was found until then."""
    from hasten import api

    model, plan = options.model_from(arguments)
    if arguments.cut:
        return _cut(arguments, model, plan)
    if arguments.private:
        raise UsageError("--private goes with --cut only.", "Give --cut A:B as well.")
    if arguments.new_kernel:
        return _write_kernel(arguments, model)
    if arguments.kernel_delegate:
        return _build_delegate(arguments)
    files, data = _kernel_files(arguments), options.inputs_from(arguments)
    workload, target = options.workload_from(arguments), options.target_from(arguments)
    if arguments.out and arguments.session is None:
        make_folder(arguments.out)
        arguments.session = arguments.out / "session.jsonl"
        if arguments.session.is_symlink():  # a folder can come from anybody
            raise DataError(f"{arguments.session} is a symbolic link.", "Choose a new or empty folder with -o.")
    session = options.session_from(arguments, "operators")
    asked = api.OperatorOptions(tuple(arguments.rewrite), arguments.outputs, arguments.kernels, files)
    out = arguments.out or ""
    with progress_bar("operators") as progress:
        effort = api.Effort(arguments.seconds, target, progress, options.keep_in(session))
        found, interrupted = completed(
            lambda: api.operators(model, plan, workload, options=asked, data=data, out=out, effort=effort)
        )
    code = present(arguments, found, session=session, interrupted=interrupted)
    return code or (_KERNEL_REFUSED if found.refused_kernels else 0)


def _cut(arguments: argparse.Namespace, model: str, plan: Plan) -> int:
    from hasten import api

    beside = {
        "--shape": arguments.shape,
        "--signature": arguments.signature,
        "--rewrite": arguments.rewrite,
        "--outputs": arguments.outputs,
        "--kernels": arguments.kernels,
        "--kernel-file": arguments.kernel_file,
        "--for": arguments.replaces,
        "--session": arguments.session,
    }
    # Nodes are those of the main graph, in the shapes that the file has.
    options.refuse_beside("--cut", beside)
    if not arguments.out:
        raise UsageError("--cut needs a file to write.", "Give -o part.tflite.")
    if arguments.private and arguments.data:
        raise UsageError("--private keeps no data.", "Leave --data out.")
    inputs = None if arguments.private else arguments.out.with_suffix(".npz")
    refuse_existing(arguments.out, inputs, force=None, model=model)
    data = options.inputs_from(arguments)
    effort = api.Effort(on=options.target_from(arguments))
    first, last = arguments.cut
    found = api.cut(model, (first, last), arguments.out, plan, private=arguments.private, data=data, effort=effort)
    if found.why:
        complain(f"No inputs were recorded: {found.why}", "")
    lines = [f"{found.path}: nodes {first} to {last} of {Path(model).name}"]
    if found.inputs:
        lines.append(f"{found.inputs}: its inputs on {several(found.samples, 'sample')} of {found.source}")
    words = ("bench", found.path, *(("--data", found.inputs) if found.inputs else ()))
    lines.append(f"Time it:  hasten {shlex.join(words)}")
    told = {"written": found.path, "nodes": list(found.nodes)}
    recorded = {"inputs": found.inputs, "samples": found.samples, "source": found.source, "why": found.why}
    show(options.as_json({**told, **recorded}) if arguments.json else "\n".join(map(printable, lines)))
    return 0


def _kernel_files(arguments: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """Each file with what it replaces; files in Python say that themselves."""
    replaces = list(arguments.replaces)
    files = [(file, replaces.pop(0) if replaces and not file.endswith(".py") else "") for file in arguments.kernel_file]
    if replaces:
        raise UsageError(f"--for {replaces[0]} has no kernel.", "Give a --kernel-file for each --for.")
    return tuple(files)


def _write_kernel(arguments: argparse.Namespace, model: str) -> int:
    from hasten import api
    from hasten.custom_kernels.new_kernel import fitting_nodes

    if len(arguments.replaces) != 1:
        raise UsageError("--new-kernel needs the nodes that it is for.", "Add one --for, for example --for HARD_SWISH.")
    folder, nodes = arguments.new_kernel, arguments.replaces[0]
    effort = api.Effort(on=options.target_from(arguments))
    written = [str(path) for path in api.new_kernel(folder, model, nodes, effort=effort)]
    fits = fitting_nodes(Path(model), nodes)
    lines = (
        f"{folder}: {', '.join(Path(path).name for path in written)}",
        f"Test it:  {shlex.join(('make', '-C', str(folder), 'test'))}",
        f"Try it:   hasten {shlex.join(('operators', arguments.model, '--kernel-file', written[0], '--for', fits))}",
    )
    show(options.as_json({"written": written}) if arguments.json else "\n".join(map(printable, lines)))
    return 0


def _build_delegate(arguments: argparse.Namespace) -> int:
    from hasten import api

    library = api.kernel_delegate(arguments.kernel_delegate, effort=api.Effort(on=options.target_from(arguments)))
    words = ("accelerators", arguments.model, "--delegate", str(library))
    lines = (str(library), f"Examine it: hasten {shlex.join(words)}")
    show(options.as_json({"delegate": str(library)}) if arguments.json else "\n".join(map(printable, lines)))
    return 0


def _node_range(text: str) -> tuple[int, int]:
    import argparse

    first, _, last = text.partition(":")
    if not first.isdigit() or not (last.isdigit() or not last):
        raise argparse.ArgumentTypeError(f"must be a range of nodes such as 10:14, not {text!r}")
    return int(first), int(last or first)

"""Write the report of a session: one HTML file that needs no network, Markdown, JSON, or the charts as pictures.

SESSION is a session file, or the folder of a tune or quantize. --watch serves the page on this machine while the
session grows, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import threading
from pathlib import Path
from typing import Final

from hasten.cli import options
from hasten.cli.files import is_there, refuse_existing, write_new
from hasten.cli.output import show
from hasten.cli.progress import progress_bar
from hasten.core import units
from hasten.core.errors import DataError, UsageError

EXAMPLES = """
hasten report session.jsonl -o report.html
hasten report tuned -o report.html --force
hasten report session.jsonl --format md
hasten report session.jsonl --format png -o pictures
hasten report session.jsonl --watch
"""
_TEXTS: Final = ("html", "md", "json")
_PICTURES: Final = ("png", "svg")
_SESSION: Final = "session.jsonl"
_LARGEST_PORT: Final = 65535


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("session", type=Path, metavar="SESSION", help="a session file, or a folder that contains one")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="F",
        help="file to write, or folder for pictures (Markdown and JSON are printed by default)",
    )
    parser.add_argument("--format", choices=(*_TEXTS, *_PICTURES), help="default: by the file name, otherwise html")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--watch", action="store_true", help="serve the page on this machine while the session grows")
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port for --watch (default: any free one)")
    options.add_output(parser, session=False)


def run(arguments: argparse.Namespace) -> int:
    """Write, print or serve."""
    from hasten import api

    path = _session_path(arguments.session)
    if arguments.watch:
        return _watch(path, arguments)
    form = _form(arguments)
    if arguments.output is None and (form == "html" or form in _PICTURES):
        api.read_session(path)  # what is no session is said before what else is missing
    if form == "html" and arguments.output is None:
        raise UsageError(
            "No output file was given for the report.",
            f"Example: hasten report {shlex.quote(str(arguments.session))} -o report.html",
        )
    if arguments.json and arguments.output is None:
        raise UsageError("--json needs a file to write.", "Use --format json to print the report itself as JSON.")
    if form in _PICTURES:
        return _draw(path, form, arguments)
    if arguments.output is not None:
        if is_there(arguments.output) and is_there(path) and arguments.output.samefile(path):
            raise UsageError(f"{arguments.output} is the session itself.", "Choose another name for the report.")
        refuse_existing(arguments.output, force=arguments.force, model="")
    with progress_bar("report") as progress:
        progress(0.0, "reading")
        session = api.read_session(path)
        progress(0.3, "writing")
        text = api.session_report(session, form, path.name)
    if arguments.output is None:
        show(text.rstrip())
        return 0
    write_new(arguments.output, text, force=arguments.force)
    size = len(text.encode())
    lines = units.several(len(session.lines), "line")
    said = f"Wrote {arguments.output} ({units.size(size)}) from {lines} of {path.name}."
    document = {
        "report": str(arguments.output),
        "format": form,
        "bytes": size,
        "lines": len(session.lines),
        "lost_lines": session.lost_lines,
        "charts": _has_charts(form),
    }
    show(options.as_json(document) if arguments.json else said + _without(form))
    return 0


def _draw(path: Path, form: str, arguments: argparse.Namespace) -> int:
    folder = arguments.output
    if folder is None:
        raise UsageError(
            "No folder was given for the pictures.",
            f"Example: hasten report {shlex.quote(str(path))} --format {form} -o charts",
        )

    from hasten import api

    session = api.read_session(path)
    written: list[str] = []
    with progress_bar("drawing") as progress:
        for name, content in api.session_pictures(session, form, path.name):
            progress(0.0, name)
            _write_picture(folder, name, content, force=arguments.force)
            written.append(str(folder / name))
    if not written:
        hint = f"Write its figures instead: hasten report {shlex.quote(str(path))} --format md"
        raise DataError(f"{path} has nothing to draw.", hint)
    document = {"written": written, "lost_lines": session.lost_lines}
    show(options.as_json(document) if arguments.json else "\n".join(written))
    return 0


def _write_picture(folder: Path, name: str, content: bytes, *, force: bool) -> None:
    target = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder} cannot be created: {error.strerror}.", "Choose another folder.") from error
    write_new(target, content, force=force)


def _watch(path: Path, arguments: argparse.Namespace) -> int:
    from hasten import api

    if path.exists():
        api.read_session(path)  # what is no session is said now, and not on the page
    with api.serve_report(path, arguments.port) as server:
        show(
            options.as_json({"url": server.url})
            if arguments.json
            else f"{server.url} shows {path}. Press Ctrl-C to end."
        )
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


def _session_path(given: Path) -> Path:
    return given / _SESSION if given.is_dir() else given


def _form(arguments: argparse.Namespace) -> str:
    if arguments.format:
        return str(arguments.format)
    ending = arguments.output.suffix.lower().lstrip(".") if arguments.output else ""
    return {"markdown": "md", "htm": "html"}.get(ending, ending if ending in _TEXTS else "html")


def _has_charts(form: str) -> bool:
    from hasten import api

    return form == "html" and api.has_charts()


def _without(form: str) -> str:
    missing = form == "html" and not _has_charts(form)
    return "\nIt has no charts. To get them, run pip install 'hasten[report]'." if missing else ""


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"must be a number up to {_LARGEST_PORT}, not {text!r}")
    return int(text)

"""Every output that is approved: a file name, and what makes its content."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest import mock

from hasten import api
from hasten.cli.main import COMMANDS, main
from hasten.core.session import read_session
from hasten.report.forms import report_text
from hasten.show.markdown import block_lines
from hasten.show.terminal import terminal_text
from tests.approved import timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Case = Callable[[], str]

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE / "outputs"
_TESTS: Final = HERE.parent
_SESSIONS: Final = _TESTS / "data" / "sessions"
# Wrong commands: a name, and the arguments.
_ERRORS: Final = {
    "unknown-command": ("bnech",),
    "no-model": ("bench",),
    "missing-file": ("bench", "missing.tflite"),
    "unknown-option": ("bench", "demo", "--quick"),
    "no-value": ("bench", "demo", "--threads"),
    "bad-number": ("bench", "demo", "--threads", "two"),
    "bad-choice": ("bench", "demo", "--accelerator", "tpu"),
    "bad-plan": ("bench", "demo@speed=1"),
    "bad-shape": ("bench", "demo", "--shape", "1x4"),
    "unknown-input": ("bench", "demo", "--shape", "image=1x4"),
    "unknown-signature": ("bench", "demo", "--signature", "serve"),
    "unknown-target": ("bench", "demo", "--target", "mars"),
    "report-without-file": ("report", "tests/data/sessions/bench.jsonl"),
    "missing-session": ("report", "missing.jsonl", "-o", "report.html"),
    "as-json": ("bench", "missing.tflite", "--json"),
}


def cases() -> dict[str, Case]:
    """File name → what makes its content."""
    return dict([*_records(), *_commands(), *_reports()])


def _records() -> Iterator[tuple[str, Case]]:
    """Each example of a record: on a terminal of 80 columns, with --verbose if that shows more, and as Markdown."""
    for name, make in sorted(examples()):
        yield f"{name}.txt", partial(_shown, make)
        if _shown(make, verbose=True) != _shown(make):
            yield f"{name}.verbose.txt", partial(_shown, make, verbose=True)
        yield f"{name}.md", partial(_marked_down, make)


def _shown(make: Callable[[], object], *, verbose: bool = False) -> str:
    return terminal_text(api.blocks(make()), verbose=verbose)


def _marked_down(make: Callable[[], object]) -> str:
    return "\n".join(block_lines(api.blocks(make()))).strip()


def examples() -> Iterator[tuple[str, Callable[[], object]]]:
    """What the modules `examples.py` of packages below tests/unit make; `threads/examples.py: odd` is threads-odd."""
    for name, make in _makers(timing):
        yield name.replace("_", "-"), make
    for path in sorted(_TESTS.glob("unit/**/examples.py")):
        if not (path.parent / "__init__.py").exists():
            continue
        module = importlib.import_module(".".join(path.relative_to(_TESTS.parent).with_suffix("").parts))
        for name, make in _makers(module):
            yield f"{path.parent.name}-{name}".replace("_", "-"), make


def _makers(module: ModuleType) -> Iterator[tuple[str, Callable[[], object]]]:
    """The public functions of a module that need nothing and return what `api.blocks` shows."""
    for name, value in inspect.getmembers(module, inspect.isfunction):
        own = value.__module__ == module.__name__ and not name.startswith("_")
        if own and not inspect.signature(value).parameters:
            yield name, value


def _commands() -> Iterator[tuple[str, Case]]:
    yield "hasten-help.txt", partial(_printed, "--help")
    for command in COMMANDS:
        yield f"{command}-help.txt", partial(_printed, command, "--help")
    for name, words in _ERRORS.items():
        yield f"error-{name}.txt", partial(_printed, *words)


def _reports() -> Iterator[tuple[str, Case]]:
    """Sessions as reports in Markdown."""
    for path in sorted(_SESSIONS.glob("*.jsonl")):
        yield f"report-{path.stem}.md", partial(_reported, path)


def _reported(path: Path) -> str:
    return report_text(read_session(path), "md", path.name).rstrip()


def _printed(*words: str) -> str:
    """The command line, what it prints, and its exit code."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        code = main(list(words))
    parts = [f"$ hasten {' '.join(words)}", out.getvalue().rstrip(), errors.getvalue().rstrip()]
    return "\n".join([*filter(None, parts), *([f"exit code {code}"] if code else [])])

"""The command `hasten`: finds the command's module, runs it, and turns errors into a sentence and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import importlib
import json
import os
import re
import shlex
import signal
import tempfile
import textwrap
from typing import TYPE_CHECKING, Final, NoReturn

import hasten
from hasten.cli.ending import ENDING, INTERRUPTED
from hasten.cli.output import WIDTH, complain, give_up_output, own_output, prepare_streams, show
from hasten.cli.unsaved import UNSAVED
from hasten.core.errors import HastenError, UsageError
from hasten.core.printable import with_log
from hasten.practices.registry import GUIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

# Command → what it does, in the order in which a newcomer meets them. Each is a module of this room; it is imported
# only when asked for, so that --help answers at once. Those of practices come from the registry.
COMMANDS: Final = {
    "tune": "find the fastest model and plan that keep the accuracy",
    "bench": "measure the latency of a model, with a confidence interval",
    "compare": "compare the latency of two models or plans",
    **{entry.name: entry.help for entry in GUIDE if entry.help},
    "diff": "find the node where two models or plans diverge",
    "retrain": "fit a model to your own classes, without TensorFlow",
    "trace": "record a timeline that Perfetto and Chrome open",
    "check": "check a model against limits or a baseline, for CI",
    "run": "run a bundle or a model once, on your input",
    "report": "write a session as a page, Markdown, JSON or pictures",
    "devices": "list the available devices",
    "worker": "offer devices to a cluster",
    "doctor": "check this machine or a model, and pack an issue bundle",
}
_BUG: Final = 70
_MACHINE: Final = 4
_ROOM: Final = "Make room there, or set TMPDIR to a folder that has some."
_REFUSALS: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "Raise the limit of a file's size: ulimit -f unlimited",
    errno.EROFS: "Set TMPDIR to a folder that can be written.",
    errno.EMFILE: "Raise the limit of open files: ulimit -n 4096",
    errno.ENFILE: "Close other programs.",
    errno.ENOMEM: "Close other programs.",
    errno.EAGAIN: "Close other programs, or raise the limit of processes: ulimit -u",
    errno.EIO: "Check the disk.",
}
_HELP: Final = ("-h", "--help", "help")
# What argparse says → the same as a sentence.
_USAGE: Final = {
    re.compile(r"^argument (\S+): expected one argument$"): r"\1 needs a value.",
    re.compile(r"^argument (\S+): (must .+)$", re.DOTALL): r"\1 \2.",
    re.compile(r"^the following arguments are required: (.+)$"): r"The command needs \1.",
    re.compile(r"^argument (\S+): not allowed with argument (\S+)$"): r"\1 and \2 exclude each other.",
}
_CHOICE: Final = re.compile(r"argument (\S+): invalid choice: (.*) \(choose from (.+)\)", re.DOTALL)
_QUOTE: Final = "'"
# Commands name the time that they may take as it is usual for them.
_SAME: Final = {"--budget": "--seconds", "--seconds": "--budget"}
_NEGATIVE: Final = re.compile(r"-\.?\d")


class _Parser(argparse.ArgumentParser):
    """Wrong usage ends like every other error: a sentence, a hint, and JSON for programs."""

    def error(self, message: str) -> NoReturn:
        """Raise in place of printing all options and leaving."""
        for pattern, words in _USAGE.items():
            message = pattern.sub(words, message)
        if choices := _CHOICE.fullmatch(message):
            message = f"{choices[1]} must be one of {choices[3].replace(_QUOTE, '')}, not {choices[2]}."
        raise UsageError(message, f"Run {self.prog} --help for all options and examples.")

    def parsed(self, words: list[str]) -> argparse.Namespace:
        """The options; an unknown one ends with the one that was probably meant."""
        found, unknown = self.parse_known_args(self.with_values(words))
        if unknown:
            message = f"The command has no option or argument {' '.join(unknown)}."
            raise UsageError(message, self._meant(unknown) or f"Run {self.prog} --help for all options and examples.")
        return found

    def _meant(self, unknown: list[str]) -> str:
        known = self._option_string_actions
        names = {option.lstrip("-"): option for option in known}
        for word in (word.partition("=")[0] for word in unknown if word.startswith("--")):
            if (same := _SAME.get(word)) in known:
                return f"Use {same}, which is this command's option for the time."
            if close := difflib.get_close_matches(word.lstrip("-"), names, 1):
                return f"Did you mean {names[close[0]]}?"
        return ""

    def with_values(self, words: list[str]) -> list[str]:
        """Join negative values to their option (`--x=-1`); argparse rejects them otherwise.

        An empty value is refused: it usually comes from a variable that is not set, and must not mean "none".
        """
        joined: list[str] = []
        own = _own(words)
        for word in own:
            option = joined[-1] if joined else ""
            if (not word and self._lacks_value(option)) or (word[-1:] == "=" and self._lacks_value(word[:-1])):
                self.error(f"{option if not word else word[:-1]} needs a value, and the one given is empty.")
            if not self._lacks_value(option) or not word.startswith("-") or self._is_option(word):
                joined.append(word)
            elif _NEGATIVE.match(word):
                joined[-1] = f"{option}={word}"
            else:
                told = f"{option} needs a value, and {word!r} looks like an option."
                self.error(f"{told} Write {option}={word} if it is a value.")
        return joined + words[len(own) :]

    def _lacks_value(self, word: str) -> bool:
        action = self._option_string_actions.get(word)
        return action is not None and action.nargs is None

    def _is_option(self, word: str) -> bool:
        known = self._option_string_actions
        return word.partition("=")[0] in known or word[:2] in known


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    prepare_streams()
    try:
        with ENDING.heeded(), own_output():
            return ENDING.code(UNSAVED.told(_run_or_explain(arguments)))
    except BrokenPipeError:
        # The reader closed the pipe (for example `head`).
        give_up_output()
        return 0


def _run_or_explain(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except HastenError as error:
        return _fail(arguments, error.sentence, error.hint, error.exit_code, error.log)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ignore a second Ctrl-C while shutting down.
        return _fail(arguments, "Interrupted.", "", ENDING.code(INTERRUPTED))
    except BrokenPipeError:
        raise
    except MemoryError:
        return _fail(arguments, "hasten ran out of memory.", "Close other programs, or use a smaller model.", _MACHINE)
    except Exception as error:
        if trouble := _trouble_of_machine(error):
            return _fail(arguments, *trouble, _MACHINE)
        if os.environ.get("HASTEN_DEBUG"):
            raise
        hint = "Please report it with the output of: HASTEN_DEBUG=1 hasten " + shlex.join(arguments)
        return _fail(arguments, f"This is a bug in hasten: {type(error).__name__}: {error}", hint, _BUG)


def _run(arguments: list[str]) -> int:
    name, *rest = arguments or ["help"]
    if name in _HELP and rest and rest[0] in COMMANDS:
        name, rest = rest[0], ["--help"]
    if name in _HELP:
        show(_help())
        return 0
    if name in ("-V", "--version"):
        show(f"hasten {hasten.__version__}")
        return 0
    if name not in COMMANDS:
        raise UsageError(f"There is no command {name!r}.", _meant(name))
    module = importlib.import_module(f"hasten.cli.{name}")
    parser = _Parser(
        prog=f"hasten {name}",
        description=_filled(module.__doc__ or ""),
        epilog="examples:\n" + textwrap.indent(module.EXAMPLES.strip(), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true", help="show this help message and exit")
    module.configure(parser)
    if any(word in ("-h", "--help") for word in _own(rest)):
        show(parser.format_help().rstrip())
        return 0
    return int(module.run(parser.parsed(rest)))


def _trouble_of_machine(error: Exception) -> tuple[str, str] | None:
    """The sentence and the hint for what a machine refuses to any program; None for any other error."""
    if not isinstance(error, OSError):
        return None
    if error.errno in _REFUSALS:
        place = f" ({error.filename})" if error.filename else ""
        return f"The system reports: {error.strerror}{place}.", _REFUSALS[error.errno]
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as refused:  # then no folder can be found for the same reason
        return None if refused.errno == error.errno else _trouble_of_machine(refused)
    try:
        tempfile.gettempdir()
    except OSError:
        return "hasten found no folder in which it can write temporary files.", _ROOM
    return None


def _own(arguments: list[str]) -> list[str]:
    """The words for hasten; what comes after -- is a program's."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _help() -> str:
    width = max(len(name) for name in COMMANDS)
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: hasten COMMAND [options]",
            "",
            "Makes a TensorFlow Lite (LiteRT) model fast on a real device, and proves it.",
            "",
            "commands:",
            *lines,
            "",
            "hasten COMMAND --help shows a command's options and examples.",
        ]
    )


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name, COMMANDS, 1)
    return f"Did you mean {close[0]}?" if close else f"Use one of: {', '.join(COMMANDS)}."


def _filled(text: str) -> str:
    return "\n\n".join(textwrap.fill(part, WIDTH) for part in text.strip().split("\n\n"))


def _fail(arguments: list[str], sentence: str, hint: str, code: int, log: Sequence[str] = ()) -> int:
    """An error for people on standard error, and for programs as the one JSON document that --json promises."""
    complain(sentence, hint, log)
    if "--json" in _own(arguments):
        with contextlib.suppress(HastenError):  # where the output cannot be written, the exit code has to do
            told = {"message": with_log(sentence, log), "hint": hint, "exit_code": code}
            show(json.dumps({"error": told}, indent=2))
    return code

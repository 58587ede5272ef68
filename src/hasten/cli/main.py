"""The command `hasten`: finds the command's module, runs it, and turns errors into a sentence and an exit code."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import textwrap
from typing import Final

import hasten
from hasten.core.errors import HastenError

# command → what it does, in the order in which a newcomer meets them. Each is a module of this room; it is imported
# only when asked for, so that --help answers at once.
COMMANDS: Final = {
    "bench": "time a model, with an interval that can be trusted",
    "compare": "is one model or plan faster than another?",
    "profile": "each operator's time, cost and headroom",
    "trace": "a timeline that Perfetto and Chrome open",
    "devices": "the targets within reach",
    "doctor": "check this machine",
}
_INTERRUPTED: Final = 130
_BUG: Final = 70


def entry_point() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        return _run(arguments)
    except HastenError as error:
        return _fail(arguments, error.message, error.hint, error.exit_code)
    except KeyboardInterrupt:
        return _fail(arguments, "interrupted", "", _INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; nothing is left to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("HASTEN_DEBUG"):
            raise
        hint = "Please report it with the output of: HASTEN_DEBUG=1 hasten " + " ".join(arguments)
        return _fail(arguments, f"this is a bug in hasten: {type(error).__name__}: {error}", hint, _BUG)


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"hasten {hasten.__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        _complain(f"there is no command {name!r}", f"The commands are: {', '.join(COMMANDS)}.")
        return 2
    module = importlib.import_module(f"hasten.cli.{name}")
    parser = argparse.ArgumentParser(
        prog=f"hasten {name}",
        description=(module.__doc__ or "").strip(),
        epilog="examples:\n" + textwrap.indent(module.EXAMPLES.strip(), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    return int(module.run(parser.parse_args(rest)))


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


def _fail(arguments: list[str], message: str, hint: str, code: int) -> int:
    """An error for people on standard error, and for programs as the one JSON document that --json promises."""
    if "--json" in arguments:
        print(json.dumps({"error": {"message": message, "hint": hint, "exit_code": code}}, indent=2))
    _complain(message, hint)
    return code


def _complain(message: str, hint: str) -> None:
    print(f"hasten: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)

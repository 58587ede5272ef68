"""docs/options.md: every option of every command, from the parsers, and every recipe. `make tables` writes it."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Final

from hasten.cli.main import COMMANDS
from hasten.variants.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    Option = tuple[str, str]
    """How it is given, and what it does."""

# An option that means the same for so many commands is listed once.
_SHARED_FROM: Final = 3
_HEAD: Final = """# Options and recipes

`make tables` writes this page from the commands themselves; `hasten COMMAND --help` shows the same with examples.
Times are in seconds unless a unit is given.
"""


def page() -> str:
    """The whole page."""
    options = {command: _options_of(command) for command in COMMANDS}
    commands: dict[Option, list[str]] = {}
    for command, found in options.items():
        for option in found:
            commands.setdefault(option, []).append(command)
    shared = {option: names for option, names in commands.items() if len(names) >= _SHARED_FROM}
    parts = [_HEAD, "## Of several commands\n", _table(("option", "meaning", "commands"), _shared_rows(shared))]
    for command, found in options.items():
        if own := [option for option in found if option not in shared]:
            parts += [f"## hasten {command}\n", _table(("option", "meaning"), own)]
    recipes = [(f"`{recipe.name}`", recipe.description) for recipe in RECIPES]
    parts += ["## Recipes\n", "`--recipe NAME` tries only this one; it may be repeated.\n"]
    return "\n".join([*parts, _table(("recipe", "what it makes"), recipes)])


def _options_of(command: str) -> list[Option]:
    parser = argparse.ArgumentParser(prog=f"hasten {command}", add_help=False)
    importlib.import_module(f"hasten.cli.{command}").configure(parser)
    formatter = argparse.HelpFormatter(parser.prog)
    found = [action for action in parser._actions if action.option_strings and action.help != argparse.SUPPRESS]
    return [(_given(action), formatter._expand_help(action)) for action in found]


def _given(action: argparse.Action) -> str:
    name = action.option_strings[0]
    if action.nargs == 0:
        return f"`{name}`"
    choices = f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper()
    value = action.metavar or choices
    return f"`{name} {value}{' …' if action.nargs == '+' else ''}`"


def _shared_rows(shared: dict[Option, list[str]]) -> Iterable[tuple[str, ...]]:
    for option, names in shared.items():
        others = [name for name in COMMANDS if name not in names]
        told = f"all but {', '.join(others)}" if len(others) < len(names) else ", ".join(names)
        yield *option, told


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(row) for row in (head, ("---",) * len(head), *rows)]
    return "".join(f"| {line} |\n" for line in lines)

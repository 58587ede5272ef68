"""The text of an issue: what a maintainer of LiteRT asks for first, in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.doubts import DOUBTS
from hasten.core.units import several
from hasten.core.version import VERSION
from hasten.practices.help.issue import words
from hasten.practices.help.issue.reproduce import commands, script
from hasten.practices.help.model_view import (
    checks_table,
    delegates_table,
    operators_table,
    private_note,
    releases_table,
)
from hasten.practices.help.words import BOOK
from hasten.show.blocks import Facts, Prose, Section, Snippet, doubt_notes
from hasten.show.markdown import plain, section_lines

if TYPE_CHECKING:
    from hasten.practices.help.facts import ModelFound
    from hasten.show.blocks import Block


def issue_text(found: ModelFound, model: str, *, private: bool) -> str:
    """The whole text, as Markdown. `found` is scrubbed already; `model` is the file's name in the bundle."""
    parts = [
        _section("what", *_what(found)),
        _section("expected", Prose(words.expected(found))),
        _section("reproduce", *_how(found, model)),
        _section("smallest", *_smallest(found)),
        _section("environment", *_environment(found)),
        _section("latency", *_latency(found)),
        _section("releases", *_releases(found)),
        _section("operators", *operators_table(found)),
        _section("delegates", *delegates_table(found)),
        _section("checks", *checks_table(found)),
        _section("private", *([Prose(words.PRIVATE)] if private else [])),
        _section("log", *_log(found)),
    ]
    lines = [f"# {plain(words.headline(found))}", ""]
    for part in parts:
        if part.blocks:
            lines += [*section_lines(part), ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(name: str, *blocks: Block) -> Section:
    return Section(name, words.TITLES[name], blocks)


def _what(found: ModelFound) -> list[Block]:
    small = found.minimized
    if small is not None and small.shown:
        told = dict.fromkeys((BOOK.text(small.whole), BOOK.text(small.part)))
        return [Prose(text) for text in told]
    if found.failure is not None:
        return [Prose(found.failure.message)]
    return [Prose(BOOK.text(check.finding)) for check in found.checks if check.name == "runs"]


def _how(found: ModelFound, model: str) -> list[Block]:
    alone = [Snippet("python reproduce.py", "sh")] if script(found, model) else []
    return [*alone, Snippet("\n".join(commands(found, model)), "sh")]


def _smallest(found: ModelFound) -> list[Block]:
    small = found.minimized
    if small is None or not small.shown:
        return []
    tests = several(small.tests, "part")
    kept = ", ".join(f"{index} {op}" for index, op in zip(small.nodes[:8], small.operators[:8], strict=True))
    rows = (("nodes", f"{len(small.nodes)} of {small.total}"), ("kept", kept), ("tested", tests))
    return [Facts(rows), *private_note(small)]


def _environment(found: ModelFound) -> list[Block]:
    machine = found.machine
    rows = [("hasten", VERSION), ("plan", found.plan.describe())]
    if machine is not None:
        rows += [
            ("LiteRT", machine.engine),
            ("Python", machine.python),
            ("system", f"{machine.system} {machine.release} {machine.architecture}"),
            ("CPU", f"{machine.cpu}, {several(machine.cores, 'core')}, {', '.join(machine.instructions)}"),
            ("memory", f"{machine.memory_mb / 1024:.1f} GB"),
        ]
    return [Facts(tuple(rows))]


def _latency(found: ModelFound) -> list[Block]:
    if found.latency is None:
        return []
    return [Prose(words.latency(found)), *doubt_notes({"latency": found.latency.doubts}, DOUBTS)]


def _releases(found: ModelFound) -> list[Block]:
    if found.releases is None:
        return []
    return [Prose(BOOK.text(found.releases.finding)), *releases_table(found)]


def _log(found: ModelFound) -> list[Block]:
    lines = () if found.failure is None else found.failure.log
    return [Snippet("\n".join(lines))] if lines else []

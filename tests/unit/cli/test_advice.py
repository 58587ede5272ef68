"""Advice: each doubt, as each command shows it, names only options that this command has."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import pytest

import hasten
from hasten.cli import main
from hasten.core import doubts
from hasten.core.remark import remark
from hasten.gate.words import BOOK as CHECK
from hasten.practices.accelerators.words import BOOK as ACCELERATORS
from hasten.practices.choose.words import BOOK as CHOOSE
from hasten.practices.copies.words import BOOK as COPIES
from hasten.practices.profile.words import BOOK as PROFILE
from hasten.practices.quantize.words import BOOK as QUANTIZE
from hasten.practices.registry import phrasebook
from hasten.practices.threads.words import BOOK as THREADS
from hasten.search.words import BOOK as TUNE

if TYPE_CHECKING:
    from hasten.core.phrases import Phrase

BOOKS = {
    "bench": doubts.DOUBTS,
    "compare": doubts.DOUBTS,
    "profile": PROFILE,
    "threads": THREADS,
    "copies": COPIES,
    "accelerators": ACCELERATORS,
    "choose": CHOOSE,
    "quantize": QUANTIZE,
    "check": CHECK,
    "tune": TUNE,
}
FACTS: dict[str, Any] = {"input": "image", "usual": "1x224x224x3", "asked": "gpu", "causes": ["throttled"]}


def options_of(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    main.main([command, "--help"])
    return set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


@pytest.mark.parametrize("command", BOOKS)
def test_every_option_that_a_hint_names_is_an_option_of_the_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = options_of(command, capsys)
    for code in doubts.PHRASES:
        hint = BOOKS[command].hint(remark(code, **FACTS))
        named = set(re.findall(r"--[a-z-]+", re.sub(r"hasten \w+( --[a-z-]+)*", "", hint)))
        assert named <= known, (code, hint)


def test_a_page_of_several_commands_names_no_option_for_the_time() -> None:
    assert "--" not in phrasebook().hint(remark(doubts.FEW_SAMPLES, runs=3))


def test_an_accelerator_without_a_profiler_is_not_sent_to_the_profiler() -> None:
    assert "hasten accelerators" in doubts.DOUBTS.hint(remark(doubts.PARTIAL, asked="gpu"))
    assert "profile" not in doubts.DOUBTS.hint(remark(doubts.PARTIAL, failure="The runner died."))


def test_no_code_has_two_sentences() -> None:
    seen: dict[str, tuple[str, Phrase]] = {}
    for module in pkgutil.walk_packages(hasten.__path__, "hasten."):
        if module.name.startswith("hasten.watcher.inject") or module.name.endswith("__main__"):
            continue
        for code, phrase in getattr(importlib.import_module(module.name), "PHRASES", {}).items():
            first, known = seen.setdefault(code, (module.name, phrase))
            assert known == phrase, f"{code} in {first} and {module.name}"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("bench", "demo", "--budget", "5s"), "Use --seconds, which is this command's option for the time."),
        (("tune", "demo", "-o", "out", "--seconds", "5"), "Use --budget, which is this command's option for the time."),
        (("bench", "demo", "--thread", "2"), "Did you mean --threads?"),
        (("bench", "demo", "--acelerator=npu"), "Did you mean --accelerator?"),
        (("bench", "demo", "--quick"), "Run hasten bench --help for all options and examples."),
        (("bench", "demo@threads=x"), "Example: threads=2"),
    ],
)
def test_a_wrong_option_ends_with_the_right_one(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(list(words)) == 2
    assert capsys.readouterr().err.splitlines()[-1].strip() == hint

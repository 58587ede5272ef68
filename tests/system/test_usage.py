"""Help, wrong usage, and the exit codes that scripts rely on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commandline import QUICK, hasten, model_file

from hasten.cli.main import COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples_within_80_columns(command: str) -> None:
    shown = hasten(command, "--help")
    assert shown.code == 0
    assert shown.output.count(f"\n  hasten {command}") >= 1, "no example"
    assert [line for line in shown.output.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("arguments", [(), ("--help",), ("help",), ("-h",)])
def test_help_lists_every_command(arguments: tuple[str, ...]) -> None:
    shown = hasten(*arguments)
    assert shown.code == 0
    assert all(command in shown.output for command in COMMANDS)
    assert [line for line in shown.output.splitlines() if len(line) > 80] == []


def test_help_of_a_command_by_either_way() -> None:
    assert hasten("help", "bench").output == hasten("bench", "--help").output


def test_the_module_is_the_command() -> None:
    script = Path(sys.executable).with_name("hasten")
    if not script.exists():
        pytest.skip("hasten is not installed as a script here")
    for arguments in (["--version"], ["--help"], ["compare"]):
        by_script = subprocess.run([script, *arguments], capture_output=True, text=True, check=False)
        by_module = hasten(*arguments)
        assert (by_script.returncode, by_script.stdout) == (by_module.code, by_module.output)


def test_a_misspelt_command_is_guessed() -> None:
    shown = hasten("bnech")
    assert shown.code == 2
    assert "Did you mean bench?" in shown.errors


WRONG = {
    "unknown command": ("measure", "MODEL"),
    "no model": ("bench",),
    "no second model": ("compare", "MODEL"),
    "no place for the trace": ("trace", "MODEL"),
    "unknown option": ("bench", "MODEL", "--fast"),
    "abbreviated option": ("bench", "MODEL", "--thr", "2"),
    "unknown accelerator": ("bench", "MODEL", "--accelerator", "tpu"),
    "unknown kernel": ("bench", "MODEL", "--kernel", "fast"),
    "unknown precision": ("bench", "MODEL", "--precision", "fp8"),
    "unknown target": ("bench", "MODEL", "--target", "mars"),
    "unknown signature": ("bench", "MODEL", "--signature", "serve"),
    "unknown input": ("bench", "MODEL", "--shape", "image=1x4"),
    "shape without input": ("bench", "MODEL", "--shape", "1x4"),
    "shape that is none": ("bench", "MODEL", "--shape", "a=1xmany"),
    "shape with a zero": ("bench", "MODEL", "--shape", "a=0x4"),
    "no threads": ("bench", "MODEL", "--threads", "0"),
    "threads in words": ("bench", "MODEL", "--threads", "two"),
    "too many threads": ("bench", "MODEL", "--threads", "5000"),
    "no time": ("bench", "MODEL", "--seconds", "0"),
    "endless time": ("bench", "MODEL", "--seconds", "inf"),
    "time in words": ("bench", "MODEL", "--seconds", "soon"),
    "less than no time": ("bench", "MODEL", "--seconds", "-1s"),
    "option in a value's place": ("bench", "MODEL", "--session", "-s"),
    "margin that is none": ("compare", "MODEL", "MODEL", "--margin", "much"),
    "unknown setting": ("bench", "MODEL@foo=1"),
    "setting without value": ("bench", "MODEL@threads"),
    "no threads in a plan": ("bench", "MODEL@threads=0"),
    "unknown accelerator in a plan": ("compare", "MODEL", "@accelerator=tpu"),
    "plan without a model": ("bench", "@threads=2"),
    "empty name": ("bench", ""),
    "option without group": ("bench", "MODEL", "--option", "fast=1"),
    "option of an unknown group": ("bench", "MODEL", "--option", "tpu.fast=1"),
    "result in the model's place": ("trace", "MODEL", "-o", "MODEL", "--force"),
    "result in a missing folder": ("trace", "MODEL", "-o", "/nowhere/trace.json"),
    "result in a folder's place": ("trace", "MODEL", "-o", "/tmp", "--force"),
    "two results in one file": ("profile", "MODEL", "--csv", "same", "--model-explorer", "same"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_a_sentence_and_exit_code_2(case: str, tmp_path: Path) -> None:
    model = model_file(tmp_path, "one_operator")
    arguments = [word.replace("MODEL", str(model)) for word in WRONG[case]]
    shown = hasten(*arguments, cwd=tmp_path)
    assert shown.code == 2, shown.errors
    assert shown.errors.startswith("hasten: ")
    assert shown.output == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("quantize", "demo", "--max-drop", "-5%"), "must be a share from 0% to 100%, such as 1% or 0.01, not '-5%'"),
        (("tune", "demo", "--max-drop", "-.5%"), "not '-.5%'"),
        (("compare", "demo", "demo", "--margin", "-3%"), "not '-3%'"),
        (("tune", "demo", "-o", "out", "--budget", "-2m"), "-2m"),
        (("bench", "demo", "--threads", "-2x"), "must be a whole number from 1 to 1024, not '-2x'"),
        (("bench", "demo", "--shape", "-x=1"), "--shape needs a value, and '-x=1' looks like an option"),
        (("bench", "demo", "--threads"), "--threads needs a value."),
        (("tune", "demo", "--data", "", "-o", "x"), "--data needs a value, and the one given is empty."),
        (("choose", "--get="), "--get needs a value, and the one given is empty."),
        (("doctor", ""), "No model was given."),
        (("retrain", "demo", "-o", "x", "--seed", "-1"), "--seed must be a whole number of at least 0, not '-1'."),
        (("retrain", "demo", "-o", "x", "--epochs", "5"), "--epochs needs a network to train."),
        (("devices", "--setup", "--clean"), "--clean and --setup exclude each other."),
        (("bench", "demo", "--threads", "--json"), "--threads needs a value."),
        (("trace", "demo", "-o"), "-o/--output needs a value."),
    ],
)
def test_a_value_that_is_missing_or_begins_with_a_minus(arguments: tuple[str, ...], said: str) -> None:
    shown = hasten(*arguments)
    assert shown.code == 2
    assert said in shown.errors
    assert "expected" not in shown.errors


@pytest.mark.parametrize(
    "arguments", [("bench",), ("bench", "MODEL", "--threads", "0"), ("nothing",), ("bench", "missing")]
)
def test_errors_are_json_for_programs(arguments: tuple[str, ...]) -> None:
    shown = hasten(*arguments, "--json")
    error = shown.json()["error"]
    assert error["exit_code"] == shown.code
    assert error["message"]
    assert error["message"] in shown.errors


def test_what_exists_is_named_where_something_else_was_asked_for(tmp_path: Path) -> None:
    model = model_file(tmp_path, "two_signatures")
    assert "double, multiply" in hasten("bench", model, "--signature", "add").errors
    assert "a, b" in hasten("bench", model_file(tmp_path, "one_operator"), "--shape", "c=1x4").errors


def test_a_missing_delegate_is_trouble_with_an_accelerator(tmp_path: Path) -> None:
    shown = hasten("bench", model_file(tmp_path, "one_operator"), *QUICK, "--delegate", "/nowhere/libdelegate.so")
    assert shown.code == 4
    assert "/nowhere/libdelegate.so" in shown.errors


def test_a_library_that_is_no_delegate_is_trouble_with_an_accelerator(tmp_path: Path) -> None:
    library = tmp_path / "libdelegate.so"
    library.write_text("not a library")
    shown = hasten("bench", model_file(tmp_path, "one_operator"), *QUICK, "--delegate", library)
    assert shown.code == 4
    assert "libdelegate.so" in shown.errors

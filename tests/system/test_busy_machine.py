"""Commands on a machine that others keep busy: each says so, and its figures still agree with each other."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commandline import hasten

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def _busy_loops() -> Iterator[None]:
    """A busy loop for each core."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "demo", "--seconds", "1"),
        ("bench", "demo", "--sustained", "0.05"),
        ("compare", "demo", "@threads=2", "--seconds", "1"),
        ("profile", "demo", "--seconds", "1", "--no-roofline"),
        ("threads", "demo", "--seconds", "1"),
        ("copies", "demo", "--seconds", "1"),
        ("accelerators", "demo", "--seconds", "1"),
    ],
    ids=lambda words: " ".join(word for word in words if word.isalpha() or word == "--sustained"),
)
def test_a_busy_machine_is_seen(arguments: tuple[str, ...]) -> None:
    shown = hasten(*arguments)
    assert shown.code == 0, shown.errors
    assert "cores busy during the measurement." in " ".join(shown.output.split())


@pytest.mark.slow
def test_a_search_for_variants_says_that_the_machine_was_busy(tmp_path: Path) -> None:
    data = ("--data", "demo", "--calibration", "demo", "--samples", "40")
    shown = hasten("quantize", "demo", "--recipe", "float16", *data, "--seconds", "2", "-o", tmp_path / "variants")
    assert shown.code == 0, shown.errors
    assert "cores busy during the measurement." in " ".join(shown.output.split())


@pytest.mark.slow
def test_a_trace_says_that_the_machine_was_busy(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    shown = hasten("trace", "demo", "--seconds", "1", "-o", trace)
    assert "cores busy during the measurement." in " ".join(shown.output.split())
    found = hasten("trace", "demo", "--seconds", "1", "-o", trace, "--force", "--json").json()
    assert "other-load" in [doubt["code"] for doubt in found["doubts"]]


def test_operators_of_a_disturbed_profile_add_up_to_the_run() -> None:
    found = hasten("profile", "demo", "--seconds", "3", "--no-roofline", "--json").json()
    seen_ms = sum(operator["ms"] for operator in found["ops"])
    assert 0.9 * found["invoke_ms"] <= seen_ms <= 1.01 * found["invoke_ms"]
    assert {"other-load", "disturbed"} & {doubt["code"] for doubt in found["doubts"]}

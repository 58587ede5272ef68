"""`hasten check`: exit codes that a pipeline can trust, and words that a person can read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commandline import ROOT, finish, hasten, interrupt, start, wait_for_runners
from tests import example_models

from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.core.plan import Plan
from hasten.core.session import read_session
from hasten.demo import DATA, MODEL

# It ends as soon as all is decided, which on a quiet machine takes four seconds.
QUICK = ("--seconds", "40")


@pytest.mark.slow
def test_a_file_of_limits_that_is_kept_and_what_is_left_behind(tmp_path: Path) -> None:
    shutil.copy(DATA, tmp_path / "images.npz")
    (tmp_path / "limits.toml").write_text(
        '[limits]\nlatency = "10 s"\np95 = "20 s"\ninit = "60 s"\nmemory = "2 GB"\nsize = "2 MB"\naccuracy = "90 %"\n'
        '[plan]\nthreads = 2\n[data]\npath = "images.npz"\nsamples = 60\n'
    )
    session, summary = tmp_path / "s.jsonl", tmp_path / "summary.md"
    shown = hasten(
        "check",
        MODEL,
        "--limits",
        tmp_path / "limits.toml",
        "--json",
        "--session",
        session,
        "--markdown",
        summary,
        *QUICK,
    )
    assert shown.code == 0, shown.errors
    found = shown.json()
    assert found["passed"] is True
    assert found["plan"]["threads"] == 2
    names = ["size", "latency", "p95", "init", "memory", "accuracy"]
    assert [row["what"] for row in found["rows"]] == names
    for row in found["rows"]:
        assert set(row) >= {"what", "measured", "interval", "limit", "verdict", "why"}
        assert row["verdict"] == "passed"
    kinds = [trial.kind for trial in read_session(session).lines]
    assert kinds == ["environment", "measurement", "accuracy", "check"]
    assert "| latency |" in summary.read_text()

    # The session is a baseline for the next run, on this very machine.
    again = hasten(
        "check", f"{MODEL}@threads=2", "--baseline", session, "--limit", "max_slowdown=900%", *QUICK, "--json"
    )
    (row,) = again.json()["rows"]
    assert row["what"] == f"latency against {session}"
    assert row["verdict"] == "passed"


def test_broken_limits_end_with_1_and_a_summary_that_is_not_overwritten(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    limits = ("--limit", "latency=1us", "--limit", "size=1kB")
    refused = hasten("check", MODEL, *limits, "--markdown", summary)
    assert refused.code == 2
    assert "already exists" in refused.errors
    shown = hasten(
        "check", MODEL, *limits, "--markdown", summary, *QUICK, environment={"GITHUB_STEP_SUMMARY": str(summary)}
    )
    assert shown.code == 1
    assert shown.output.startswith("Failed: 2 of 2 limits are broken.")
    assert summary.read_text().startswith("# before\n\n### ❌ Failed")


def test_a_slower_model_fails_against_the_older_one_and_a_like_one_does_not(tmp_path: Path) -> None:
    slower = hasten("check", "demo@kernel=builtin", "--baseline-model", "demo@kernel=delegate", "--json", *QUICK)
    assert slower.code == 1
    (row,) = slower.json()["rows"]
    assert row["what"] == "latency against cpu, 1 thread"
    assert row["measured"] > 1.5
    # Data without labels: the older model's answers are what to agree with, which is no accuracy.
    np.savez(tmp_path / "x.npz", x=np.load(DATA)["x"][:20])
    like = hasten(
        "check",
        "demo",
        "--baseline-model",
        shutil.copy(MODEL, tmp_path / "old.tflite"),
        *QUICK,
        "--json",
        "--limit",
        "max_slowdown=50%",
        "--data",
        tmp_path / "x.npz",
    )
    assert like.code == 0, like.output
    names = ["latency against old.tflite", "agreement lost against old.tflite"]
    assert [row["what"] for row in like.json()["rows"]] == names
    assert "The baseline is the same model with the same plan." in like.json()["notes"][0]


def test_undecided_has_an_outcome_and_an_exit_code_of_its_own(tmp_path: Path) -> None:
    # Four samples are too few for any verdict but that on a hopeless model.
    asked = ("check", MODEL, "--data", "demo", "--samples", "4", "--limit", "accuracy=60%", "--limit", "size=2MB")
    shown = hasten(*asked)
    assert shown.code == 1
    assert shown.output.startswith("Undecided: 1 of 2 limits. This counts as a failure (--undecided fail).")
    assert "samples would decide." in shown.output
    told = hasten(*asked, "--undecided", "pass", "--json")
    assert told.code == 0
    found = told.json()
    assert (found["verdict"], found["passed"], found["undecided"]) == ("undecided", False, "pass")
    assert [row["verdict"] for row in found["rows"]] == ["passed", "undecided"]
    (tmp_path / "limits.toml").write_text('[limits]\naccuracy = "60 %"\n[gate]\nundecided = "pass"\n')
    in_file = ("check", MODEL, "--data", "demo", "--samples", "4", "--limits", tmp_path / "limits.toml")
    assert hasten(*in_file).code == 0
    assert hasten(*in_file, "--undecided", "fail").code == 1


def test_a_model_that_is_surely_too_slow_fails_however_little_time_there_is() -> None:
    asked = ("check", MODEL, "--kernel", "reference", "--limit", "latency=1us", "--seconds", "0.001", "--json")
    shown = hasten(*asked)
    assert shown.code == 1
    found = shown.json()
    assert found["verdict"] == "failed"
    assert found["rows"][0]["why_facts"]["processes"] == 1, "there was no time for another"
    assert found["bound_seconds"] == pytest.approx(0.003)
    assert found["seconds"] > found["bound_seconds"], "a process that has begun is finished"


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("demo",), 2, "nothing to check"),
        (("demo", "--limit", "latncy=5ms"), 2, "latncy"),
        (("demo", "--limit", "latency"), 2, "NAME=VALUE"),
        (("demo", "--limit", "latency=5"), 2, "cannot be read"),
        (("demo", "--limit", "latency=5ms", "--limit", "latency=9ms"), 2, "given twice"),
        (("demo", "--limit", "latency=5ms", "--undecided", "maybe"), 2, "maybe"),
        (("demo", "--limit", "accuracy=0.9"), 2, "data"),
        (("demo", "--limit", "size=2MB", "--limit", "max_slowdown=3%"), 2, "max_slowdown needs a baseline"),
        (("demo", "--baseline", "s.jsonl", "--data", "demo", "--limit", "max_drop=1%"), 2, "max_drop needs an older"),
        (("nothing.tflite", "--limit", "size=1MB"), 3, "no file"),
        (("demo", "--limits", "nothing.toml"), 3, "nothing.toml"),
        (("demo", "--budget", "old.toml"), 2, "--limits old.toml"),
        (("demo", "--baseline", "nothing.jsonl"), 3, "nothing.jsonl"),
        (("demo", "--limit", "accuracy=0.9", "--data", "nothing.npz"), 3, "nothing.npz"),
        (("demo", "--limit", "latency=5ms", "--memory-limit", "1"), 4, "ran out of memory while starting.\n  Raise"),
        (("demo", "--limit", "memory=1MB", "--memory-limit", "1"), 4, "ran out of memory while starting.\n  Raise"),
    ],
)
def test_what_cannot_be_checked_is_no_broken_gate(arguments: tuple[str, ...], code: int, word: str) -> None:
    shown = hasten("check", *arguments)
    assert word in shown.errors
    assert shown.code == code
    assert shown.output == ""


def test_a_model_that_does_not_fit_into_memory_breaks_a_limit_of_memory(tmp_path: Path) -> None:
    large = tmp_path / "large.tflite"
    large.write_bytes(example_models.stream(200))
    asked = ("check", large, "--memory-limit", "100", "--limit", "latency=5s")
    shown = hasten(*asked, "--limit", "memory=100MB", "--json")
    assert shown.code == 1, shown.errors
    assert [(row["what"], row["verdict"]) for row in shown.json()["rows"]] == [
        ("latency", "undecided"),
        ("memory", "failed"),
    ]
    without = hasten(*asked)
    assert without.code == 3
    assert "The runner ran out of memory.\n  Close" in without.errors, "one sentence, and what helps"


@pytest.mark.slow
def test_a_bundle_is_checked_with_its_own_plan_and_preprocessing(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    write_bundle(MODEL, Bundle(bundle, plan=Plan(threads=2), preprocess="mean=0,std=255"))
    asked = ("check", bundle, "--limit", "size=2MB", "--limit", "accuracy=50%", "--data", "demo", "--samples", "40")
    found = hasten(*asked, "--json").json()
    assert found["plan"]["threads"] == 2
    assert found["rows"][1]["measured"] < 0.5, "the wrong pre-processing of this bundle is the one in use"
    assert hasten(*asked, "--preprocess", "raw").code == 0


@pytest.mark.slow
def test_a_baseline_that_guesses_proves_nothing(tmp_path: Path) -> None:
    """Labels that are off by one, or inputs of another range: a usual mistake, after which nothing can be lost."""
    images = np.load(DATA)
    np.savez(tmp_path / "off.npz", x=images["x"], y=(images["y"] + 1) % 10)
    asked = ("check", "demo", "--data", tmp_path / "off.npz", "--limit", "max_slowdown=900%", "--seconds", "2")
    shown = hasten(*asked, "--baseline-model", "demo@kernel=builtin", "--undecided", "pass", "--json")
    row = shown.json()["rows"][-1]
    assert (row["what"][:13], row["verdict"]) == ("accuracy lost", "undecided")
    assert row["why_code"] == "gate.baseline-guesses"


def test_an_accuracy_above_all_is_a_mistake() -> None:
    shown = hasten("check", "demo", "--data", "demo", "--samples", "20", "--limit", "accuracy=95")
    assert shown.code == 2
    assert 'accuracy="95 %"' in shown.errors


def test_data_without_labels_is_refused_before_the_work(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.load(DATA)["x"][:20])
    asked = ("check", "demo", "--limit", "accuracy=90%", "--limit", "latency=1s", "--data", tmp_path / "x.npz")
    for baseline in ((), ("--baseline-model", "demo@threads=2")):
        shown = hasten(*asked, *baseline)
        assert shown.code == 3
        assert "no labels" in shown.errors
        assert "leave out the limit on accuracy" in shown.errors


def test_the_example_for_github_runs_as_it_is_written(tmp_path: Path) -> None:
    """The script of its step, in the environment that a job has."""
    yaml = pytest.importorskip("yaml", reason="PyYAML reads the example; it comes with pre-commit")
    workflow = yaml.safe_load((ROOT / "docs" / "github-actions.yml").read_text())
    (script,) = (step["run"] for step in workflow["jobs"]["check"]["steps"] if step.get("name") == "Check the model")
    shutil.copy(MODEL, tmp_path / "main.tflite")
    (tmp_path / "limits.toml").write_text('[limits]\nsize = "2 MB"\nlatency = "10 s"\nmax_slowdown = "900 %"\n')
    environment = {
        **os.environ,
        "MODEL": str(MODEL),
        "LIMITS": "limits.toml",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "latency against main.tflite" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "check.jsonl").exists()


def test_control_c_shows_how_it_stood(tmp_path: Path) -> None:
    session = tmp_path / "s.jsonl"
    process = start(
        "check",
        MODEL,
        "--limit",
        "latency=1s",
        "--limit",
        "size=2MB",
        "--baseline-model",
        f"{MODEL}@threads=2",
        "--json",
        "--session",
        session,
    )
    wait_for_runners(process, 4)
    interrupt(process)
    output, errors = finish(process, 15)
    assert process.returncode == 130
    found = json.loads(output)
    assert found["interrupted"] is True
    assert found["passed"] is False
    assert found["rows"][0]["verdict"] == "passed"
    assert "Interrupted" in errors
    assert read_session(session).lines[-1].kind == "check"

"""Releases that are simulated, with a known truth: who fails, who is wrong and who is slower since when."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.core.errors import UsageError
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.core.plan import Plan
from hasten.measure.effort import Effort
from hasten.practices.help.releases.facts import ReleaseStatus
from hasten.practices.help.releases.run import run
from hasten.targets.other_releases import ReleaseAnswer, ReleaseEnvironment

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.help.releases.facts import ReleasesFound

RELEASES = ("2.1.6", "2.2.0", "2.3.0")
CRASH = Failure("run", "crash", "The program crashed in native code (SIGSEGV) while running the model.")


class Simulated(ReleaseEnvironment):
    """A release that takes so many milliseconds, with 1 % of noise, and whose kernels are off by so much."""

    def __init__(self, release: str, milliseconds: float, error: float = 0.0, failure: Failure | None = None) -> None:
        super().__init__(release)
        self.milliseconds, self.error, self.failure = milliseconds, error, failure
        self.random = np.random.default_rng(len(release) + ord(release[2]))

    def prepare(self) -> Failure | None:
        missing = self.failure is not None and self.failure.code == NOT_INSTALLED
        return self.failure if missing else None

    def run(self, model: Path, *, threads: int, resolver: str, seconds: float) -> ReleaseAnswer | Failure:
        if self.failure is not None:
            return self.failure
        times = self.milliseconds * 1e6 * self.random.normal(1, 0.01, 50)
        off = 0.0 if resolver == "BUILTIN_REF" else self.error
        values = np.linspace(0, 1, 32, dtype=np.float32) + np.float32(off)
        output = ("float32", base64.b64encode(values.tobytes()).decode(), None)
        return ReleaseAnswer(1.0, tuple(int(value) for value in times), (output,))


def found(tmp_path: Path, *made: Simulated, problem: str = "") -> ReleasesFound:
    """What comes of these releases."""
    known = {one.release: one for one in made}
    return run(tmp_path / "m.tflite", Plan(), list(known), problem, Effort(), lambda release: known[release])


def test_a_slowdown_is_dated(tmp_path: Path) -> None:
    told = found(tmp_path, Simulated("2.3.0", 7.0), Simulated("2.1.6", 5.0), Simulated("2.2.0", 5.0))
    assert [row.release for row in told.rows] == ["2.1.6", "2.2.0", "2.3.0"]
    assert told.problem == "slow"
    assert (told.finding.code, told.finding.facts["release"]) == ("releases.since", "2.3.0")
    last = told.rows[-1]
    assert last.latency is not None
    assert last.latency.estimate == pytest.approx(7.0, rel=0.05)
    assert last.against_fastest is not None
    assert last.against_fastest.ratio == pytest.approx(1.4, rel=0.05)


def test_equal_releases_show_nothing(tmp_path: Path) -> None:
    told = found(tmp_path, *(Simulated(release, 5.0) for release in RELEASES))
    assert told.finding.code == "releases.none"
    assert all(not row.shows for row in told.rows)
    assert all(row.equal for row in told.rows)


def test_wrong_outputs_are_dated(tmp_path: Path) -> None:
    told = found(tmp_path, Simulated("2.1.6", 5.0), Simulated("2.2.0", 5.0, 0.4), Simulated("2.3.0", 5.0, 0.4))
    assert told.problem == "wrong"
    assert (told.finding.code, told.finding.facts["release"]) == ("releases.since", "2.2.0")


def test_a_crash_that_was_mended(tmp_path: Path) -> None:
    made = [Simulated("2.1.6", 5.0, failure=CRASH), Simulated("2.2.0", 5.0, failure=CRASH), Simulated("2.3.0", 5.0)]
    told = found(tmp_path, *made)
    assert told.problem == "crash"
    assert (told.finding.code, told.finding.facts["release"]) == ("releases.fixed", "2.3.0")
    assert [row.status for row in told.rows] == [ReleaseStatus.FAILS, ReleaseStatus.FAILS, ReleaseStatus.RUNS]


def test_a_release_that_cannot_be_installed_is_named_and_left_out(tmp_path: Path) -> None:
    missing = Failure("start", "target", "LiteRT 2.2.0 cannot be installed for this Python.", code=NOT_INSTALLED)
    made = [Simulated("2.1.6", 5.0), Simulated("2.2.0", 5.0, failure=missing), Simulated("2.3.0", 5.0, failure=CRASH)]
    told = found(tmp_path, *made)
    assert told.rows[1].status is ReleaseStatus.MISSING
    assert told.finding.code == "releases.since"
    assert told.finding.facts["unknown"] == ["2.2.0"]


def test_only_the_cpu_of_this_machine(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this machine only"):
        run(tmp_path / "m.tflite", Plan(accelerator="gpu"), RELEASES, "", Effort())

"""Trust: results on a quiet machine and next to a busy loop on one core, again and again, against a known truth.

Wanted: no result contradicts itself (benchmarks/consistency.py reads document, page and session), and no verdict is
wrong; 5 % more work is found in at least 18 of 20 comparisons on a quiet machine. The parts, each quiet and loaded:

- `tune`: `tune demo --budget 1m`, 20 times.
- `compare`: `compare demo demo@threads=2`, 20 times.
- `equal`: a model against itself, 40 times. If every hundredth verdict were wrong, 40 would show none in 67 % of the
  cases; if every tenth were, in 1.5 %.
- `slower`: a model against one with 5 % more of the same work, 20 times, within 20 s each.

The truth about plans and variants is measured first, on a quiet machine, by the quickest runs of interleaved rounds,
which share no estimator with hasten (benchmarks/race.py); rounds more than 3 % apart leave it unknown. Each start
measures it anew, as it may be on another machine than the one before. A verdict is
wrong if it says faster or slower where the truth is the contrary or the same, by more than 3 %; between equal models
every faster or slower is wrong. *Undecided* never is.

Each run is saved as it ends. A new start with the same code goes on where the last one stopped; with other code it
begins anew. `--only PART` (or `PART.quiet`, `PART.loaded`) runs a part; `--times N` asks less. About 80 minutes.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.example_models import repeated

from benchmarks.common import RESULTS, code_version, hasten, machine, parts_of, record, save_parts
from benchmarks.consistency import contradictions, session_lines
from benchmarks.race import levels_in_rounds, of_candidate, usual
from hasten.core.plan import plan_from_mapping
from hasten.demo import MODEL
from hasten.measure.opening import open_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hasten.measure.rounds import Candidate

QUIET, LOADED = "quiet", "loaded"
_TIMES: Final = {"tune": 20, "compare": 20, "equal": 40, "slower": 20}
_PARTS: Final = tuple(f"{part}.{how}" for part in _TIMES for how in (QUIET, LOADED))
_CLOSE: Final = 0.03
_POWER: Final = 0.9
_MOST_SECONDS: Final = 20.0
_BUDGET: Final = "1m"
_TRUTH_ROUNDS, _TRUTH_SECONDS = 12, 0.3
# What takes this many times as long as the fastest needs no precise truth: three rounds are enough.
_FAR: Final = 4.0
_FEW_ROUNDS: Final = 3
_BASE: Final = "original@cpu, 1 thread"
_BOTH: Final = ("original@cpu, 1 thread", "original@cpu, 2 threads")
_RUNS: Final = RESULTS / "trust_runs.json"


@dataclass(slots=True)
class Runs:
    """What was run so far with one version of the code, on the disk after each run."""

    path: Path
    code: str
    truth_ms: dict[str, float] = field(default_factory=dict)
    truth_spread: float = math.inf
    """How far apart the quicker half of the rounds is, for one thread or two: wide where free cores are too rare."""
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, code: str) -> Runs:
        """The runs of this code; none if the file holds those of another."""
        return cls(path, code, **parts_of(path, code))

    def learn(self, truth_ms: dict[str, float], spread: float) -> None:
        """Judge by this truth from here on; what was judged by a truth that was less well known stays so."""
        self.truth_ms = truth_ms
        self.truth_spread = max(spread, self.truth_spread) if self.rows else spread
        self.save()

    def add(self, part: str, row: dict[str, Any]) -> None:
        """Keep one run."""
        self.rows.setdefault(part, []).append(row)
        self.save()

    def save(self) -> None:
        """Write all of it."""
        parts = {"truth_ms": self.truth_ms, "truth_spread": self.truth_spread, "rows": self.rows}
        save_parts(self.path, self.code, parts)


def main() -> int:
    """The parts that are asked for, as often as they were not run yet; then the figures of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], choices=[*_TIMES, *_PARTS], help="may be repeated")
    parser.add_argument("--times", type=int, metavar="N", help="of each part (default: as above)")
    parser.add_argument("--truth-rounds", type=int, default=_TRUTH_ROUNDS, help="default: %(default)s")
    parser.add_argument("--save-as", default="trust", help="of the results (default: %(default)s)")
    arguments = parser.parse_args()
    runs = Runs.opened(_RUNS.with_name(f"{arguments.save_as}_runs.json"), code_version())
    asked = [part for part in _PARTS if not arguments.only or {part, part.partition(".")[0]} & set(arguments.only)]
    times = {part: arguments.times or _TIMES[part.partition(".")[0]] for part in asked}
    if any(len(runs.rows.get(part, ())) < count for part, count in times.items()):
        runs.learn(*_truth(arguments.truth_rounds))
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        for part, count in times.items():
            for number in range(len(runs.rows.get(part, ())), count):
                row = _run(part, Path(folder) / f"{part}-{number}", runs.truth_ms)
                runs.add(part, row)
                print(f"{part} {number + 1}/{count}: {_told(row)}", flush=True)
    figures = figures_of(runs)
    return record(arguments.save_as, figures, passed=is_reached(figures))


def figures_of(runs: Runs) -> dict[str, Any]:
    """The counts of each part, and every contradiction and wrong verdict."""
    parts: dict[str, Any] = {}
    for part, rows in runs.rows.items():
        parts[part] = {
            "runs": len(rows),
            "verdicts": dict(collections.Counter(row["verdict"] for row in rows)),
            "contradicting": sum(bool(row["contradictions"]) for row in rows),
            "wrong": sum(bool(row["wrong"]) for row in rows),
            "longest_seconds": max(row["seconds"] for row in rows),
            "median_load": round(statistics.median(row["load"] for row in rows), 2),
            "ratios": [row["ratio"] for row in rows],
        }
        if part.startswith("slower"):
            parts[part]["found"] = sum(row["verdict"] == "slower" and row["seconds"] <= _MOST_SECONDS for row in rows)
    told = [(part, row) for part, rows in runs.rows.items() for row in rows]
    return {
        "parts": parts,
        "contradictions": [f"{part}: {said}" for part, row in told for said in row["contradictions"]],
        "wrong_verdicts": [f"{part}: {said}" for part, row in told for said in row["wrong"]],
        "truth_ms": runs.truth_ms,
        "truth_spread": runs.truth_spread,
    }


def is_reached(figures: Mapping[str, Any]) -> bool:
    """Whether the truth is known, and all parts were run as often as wanted, without a fault and with enough power."""
    parts = figures["parts"]
    whole = all(part in parts and parts[part]["runs"] >= _TIMES[part.partition(".")[0]] for part in _PARTS)
    quiet = parts.get(f"slower.{QUIET}", {"found": 0, "runs": 1})
    powerful = quiet["found"] >= _POWER * quiet["runs"]
    known = figures["truth_spread"] <= _CLOSE
    return known and whole and powerful and not figures["contradictions"] and not figures["wrong_verdicts"]


# --- one run ---------------------------------------------------------------------------------------------------------


def _run(part: str, place: Path, truth_ms: Mapping[str, float]) -> dict[str, Any]:
    what, _, how = part.partition(".")
    place.mkdir()
    load = os.getloadavg()[0]
    with busy_loop() if how == LOADED else contextlib.nullcontext():
        begin = time.monotonic()
        row = _tuned(place, truth_ms) if what == "tune" else _compared(what, place, truth_ms)
        seconds = time.monotonic() - begin
    return {"seconds": round(seconds, 1), **row, "load": round(load, 2), "cpu": machine()["cpu"]}


def _tuned(place: Path, truth_ms: Mapping[str, float]) -> dict[str, Any]:
    document = hasten("tune", "demo", "--budget", _BUDGET, "-o", str(place / "tuned"))
    session = session_lines(place / "tuned" / "session.jsonl")
    page = (place / "tuned" / "report.html").read_text(encoding="utf-8")
    return {
        "verdict": _chosen(session),
        "ratio": round(1 / speedup, 4) if (speedup := document["best"]["speedup"]) else None,
        "wrong": list(wrong_in_tuning(document, session, truth_ms)),
        "contradictions": [str(found) for found in contradictions(document, page, session)],
    }


def _compared(what: str, place: Path, truth_ms: Mapping[str, float]) -> dict[str, Any]:
    subjects = ["demo", "demo@threads=2"]
    if what != "compare":
        subjects = [str(place / name) for name in ("base.tflite", "other.tflite")]
        for path, count in zip(subjects, (40, 40 if what == "equal" else 42), strict=True):
            Path(path).write_bytes(repeated(count))
    session, page = place / "session.jsonl", place / "report.html"
    document = hasten("compare", *subjects, "--session", str(session))
    subprocess.run([sys.executable, "-m", "hasten", "report", session, "-o", page], check=True, capture_output=True)
    truth = {"equal": 1.0, "slower": 42 / 40}.get(what) or truth_ms[_BOTH[1]] / truth_ms[_BOTH[0]]
    ratio = document["ratio"] or math.nan
    said = wrong_verdict(document["verdict"], ratio, truth, 0.0 if what == "equal" else _CLOSE)
    found = contradictions(document, page.read_text(encoding="utf-8"), session_lines(session))
    return {
        "verdict": document["verdict"],
        "ratio": None if math.isnan(ratio) else round(ratio, 4),
        "seconds": round(document["seconds"], 1),
        "wrong": [said] if said else [],
        "contradictions": [str(entry) for entry in found],
    }


@contextlib.contextmanager
def busy_loop() -> Iterator[None]:
    """A process that keeps one core busy, and ends with this one, even where that is killed."""
    cores = sorted(os.sched_getaffinity(0))
    program = (
        f"import os\nos.sched_setaffinity(0, {{{cores[0]}}})\n"
        f"while os.getppid() == {os.getpid()}:\n    for _ in range(1_000_000):\n        pass"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _chosen(session: Sequence[Mapping[str, Any]]) -> str:
    last = {line["label"]: line["data"]["status"] for line in session if line.get("kind") == "trial"}
    return next((name for name, status in last.items() if status == "chosen"), "")


def _told(row: Mapping[str, Any]) -> str:
    faults = f", {len(row['contradictions'])} contradictions, {len(row['wrong'])} wrong"
    return f"{row['verdict']}, ratio {row['ratio']}, {row['seconds']} s{faults}"


# --- the truth -------------------------------------------------------------------------------------------------------


def wrong_verdict(verdict: str, ratio: float, truth: float, close: float = _CLOSE) -> str:
    """What is wrong with a verdict on a pair whose true ratio is known; empty if nothing is.

    `close` is how far a claim may be from a truth that is on the other side of 1, or just there.
    """
    said = f"{verdict} at {ratio:.4g}, in truth {truth:.4g}"
    if verdict == "faster" and truth >= 1 and truth / ratio > 1 + close:
        return said
    if verdict == "slower" and truth <= 1 and ratio / truth > 1 + close:
        return said
    if verdict == "same" and abs(math.log(truth)) > math.log1p(_CLOSE):
        return said
    return ""


def wrong_in_tuning(
    document: Mapping[str, Any], session: Sequence[Mapping[str, Any]], truth_ms: Mapping[str, float]
) -> Iterator[str]:
    """Every claim of a tuning that the truth denies: of trials, of the choice, of the practices."""
    trials = {line["label"]: line["data"] for line in session if line.get("kind") == "trial"}
    for name, trial in trials.items():
        against = trial.get("against")
        if against is not None and name in truth_ms:
            said = wrong_verdict(against["verdict"], against["ratio"], truth_ms[name] / truth_ms[_BASE])
            if said:
                yield f"{name}: {said}"
    chosen = _chosen(session)
    if document["best"]["confirmed"] and truth_ms.get(chosen, 0.0) > truth_ms[_BASE] * (1 + _CLOSE):
        yield f"{chosen} is chosen, and slower than the original"
    for finding in document["verdicts"]:
        yield from _wrong_finding(finding, chosen, trials, truth_ms)


def _wrong_finding(
    finding: Mapping[str, Any], chosen: str, trials: Mapping[str, Any], truth_ms: Mapping[str, float]
) -> Iterator[str]:
    claims, practice, facts = finding["verdict"] in ("good", "improved"), finding["practice"], finding["facts"]
    if practice == "threads" and claims:
        plans = {name: ms for name, ms in truth_ms.items() if name in _BOTH}
        best = min(plans, key=lambda name: plans[name])
        # A choice that does not run on the CPU has no say in the threads there: then the original's counts.
        threads = trials[chosen]["plan"]["threads"] if chosen in trials else 1
        claimed = _BOTH[min(threads, len(_BOTH)) - 1]
        if plans[claimed] > plans[best] * (1 + _CLOSE):
            yield f"threads are {finding['verdict']} with {claimed}, and {best} is faster"
    if practice == "accelerators":
        fastest = min(truth_ms[name] for name in _BOTH)
        for row in facts.get("rows") or ():
            known = truth_ms.get(f"original@{row.get('name')}, 2 threads")
            ratio = row.get("ratio")
            if known is None or not isinstance(ratio, int | float):
                continue
            verdict = "faster" if ratio < 1 - _CLOSE else "slower" if ratio > 1 + _CLOSE else ""
            if said := wrong_verdict(verdict, ratio, known / fastest):
                yield f"accelerators, {row['name']}: {said}"
    ratio = facts.get("ratio")
    if practice == "quantize" and isinstance(ratio, dict) and ratio.get("ratio", 1.0) < 1 - _CLOSE:
        on_same_plan = [
            truth_ms[name] / truth_ms[f"original@{plan}"]
            for name in truth_ms
            for variant, _, plan in [name.partition("@")]
            if variant == facts.get("variant") and f"original@{plan}" in truth_ms
        ]
        if on_same_plan and min(on_same_plan) > 1 - _CLOSE:
            yield f"quantize: {facts['variant']} at {ratio['ratio']:.4g}, in truth {min(on_same_plan):.4g}"


def _truth(rounds: int) -> tuple[dict[str, float], float]:
    """Milliseconds of every trial of a tuning, the far ones from a few rounds only; and how far rounds are apart."""
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        place = Path(folder) / "tuned"
        hasten("tune", "demo", "--budget", _BUDGET, "-o", str(place))
        lines = [line for line in session_lines(place / "session.jsonl") if line.get("kind") == "trial"]
        trials = {line["label"]: line["data"] for line in lines if line["data"]["status"] != "failed"}
        opened = {name: _candidate(place, trial) for name, trial in trials.items()}
        candidates = {name: found for name, found in opened.items() if found is not None}
        levels = _timed(candidates, min(_FEW_ROUNDS, rounds))
        fastest = min(map(usual, levels.values()))
        near = [name for name, found in levels.items() if usual(found) <= fastest + math.log(_FAR)]
        levels |= _timed({name: candidates[name] for name in dict.fromkeys((*near, *_BOTH))}, rounds)
    found = {name: math.exp(usual(levels[name])) for name in sorted(levels)}
    spread = round(max(spread_of(levels[name]) for name in _BOTH), 4)
    print("\n".join(f"truth: {name} {ms:.4g} ms" for name, ms in found.items()), f"spread: {spread:.1%}", flush=True)
    return found, spread


def spread_of(levels: Sequence[float]) -> float:
    """How far apart the quicker half of the rounds is."""
    quicker = sorted(levels)[: (len(levels) + 1) // 2]
    return math.expm1(quicker[-1] - quicker[0]) if len(quicker) > 1 else math.inf


def _candidate(place: Path, trial: Mapping[str, Any]) -> Candidate | None:
    """A trial as it ran: the original, or the variant's file of the tuning; None if that is gone."""
    path = MODEL if trial["variant"] == "original" else place / "variants" / f"{trial['variant']}.tflite"
    return open_model(path, plan_from_mapping(trial["plan"]))[0] if path.is_file() else None


def _timed(candidates: Mapping[str, Candidate], rounds: int) -> dict[str, list[float]]:
    """Of each candidate the logarithms of its times, by rounds."""
    found = levels_in_rounds([of_candidate(found) for found in candidates.values()], rounds, _TRUTH_SECONDS)
    return dict(zip(candidates, found, strict=True))


if __name__ == "__main__":
    sys.exit(main())

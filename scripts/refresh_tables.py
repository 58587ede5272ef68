"""Write the tables of figures in README.md and docs/benchmarks.md from benchmarks/results, and docs/options.md.

Run it with `make tables`.

Each row and table names the date and the commit of its run. A benchmark without a result has no row. A test fails where
the documents and the results differ.
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.units import duration, percent, several, times
from hasten.search.settings import TUNE_SECONDS
from scripts.options_page import page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Result = dict[str, Any]
    Row = tuple[str, str, str]
    """What was measured, what was found, what was wanted; marked where it is known to be missed."""

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = (ROOT / "README.md", ROOT / "docs" / "benchmarks.md")
OPTIONS: Final = ROOT / "docs" / "options.md"
RESULTS: Final = ROOT / "benchmarks" / "results"
_PLACE: Final = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", flags=re.DOTALL)
_NAMES: Final = {
    "demo": "demo",
    "01": "MobileNet v1 0.25",
    "02": "keyword spotting",
    "03": "ResNet-8",
    "04": "DeepLab v3",
    "05": "visual wake words",
    "06": "LSTM",
}
_MISSED: Final = " **(missed)**"
_LEFT_OPEN: Final = "; the interval includes the limit"
_LEFT_OPEN_OF_MODEL: Final = " (the interval includes the limit)"
_SHORT_GRID_S: Final = 60.0
_BUDGET_INSTEAD_S: Final = 90
_TRUTH_KNOWN: Final = 0.03
_NO_CRASH: Final = "no traceback, no hang"
_RIVALS: Final = {
    "litert_defaults": "LiteRT's defaults",
    "litert_cli": "best of litert-cli",
    "openvino": "OpenVINO",
    "hasten": "hasten",
}


@dataclass(frozen=True, slots=True)
class Results:
    """The result files of a folder."""

    folder: Path

    def of(self, name: str) -> Result | None:
        """A result; None if the benchmark was not run."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def refreshed(text: str, results: Results) -> str:
    """A document with its tables written anew."""
    return _PLACE.sub(lambda place: f"{place[1]}{TABLES[place[2]](results)}{place[3]}", text)


def main() -> int:
    """Write them."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        document.write_text(refreshed(text, Results(RESULTS)), encoding="utf-8")
    OPTIONS.write_text(page(), encoding="utf-8")
    return 0


def run_of(result: Result) -> str:
    """The date and the commit of a run; marked where files differed from the commit."""
    if "commit" not in result:
        return str(result["date"])
    return f"{result['date']}, {result['commit']}{'' if result['clean'] else ' with changes'}"


def _numbers(results: Results) -> str:
    """The table of single figures; what missed its goal says so."""
    lines = ["| measured | result | wanted | run |", "|---|---|---|---|"]
    for name, rows in _ROWS.items():
        if (result := results.of(name)) is None:
            continue
        told = list(rows(result))
        is_told = result["passed"] or any(wanted.endswith(_MISSED) for _, _, wanted in told)
        for place, (what, found, wanted) in enumerate(told):
            missed = _MISSED if not is_told and place == len(told) - 1 else ""
            lines.append(f"| {what} | {found} | {wanted}{missed} | {run_of(result)} |")
    return _table(lines)


def _machine(results: Results) -> str:
    """Where the figures come from: one line for each machine and engine."""
    found: dict[str, None] = {}
    for path in sorted(results.folder.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if "machine" not in result:
            continue
        machine = result["machine"]
        vnni = " with AVX-512 VNNI" if "avx512_vnni" in machine["instructions"] else ""
        kind = "A virtual machine" if machine["hypervisor"] else "A machine"
        memory = f"{machine['memory_mb'] / 1000:.0f} GB"
        told = f"{kind} with {several(machine['cores'], 'core')} ({machine['cpu']}{vnni}), {memory}"
        found[f"{told}, LiteRT {result['engine']}."] = None
    return "\n".join(found) + "\n"


def _grid(results: Results) -> str:
    result = results.of("grid")
    return "" if result is None else _table([*_regrets(result), "", _wanted_of_grid(result)])


def _held_back(results: Results) -> str:
    """The same of models that were drawn; nothing where that was not run."""
    result = results.of("held_back")
    if result is None:
        return ""
    models = several(len(result["models"]), "model")
    drawn = f"And on {models} of packages that nobody had looked at before, drawn by a seed:"
    return _table(["", drawn, "", *_regrets(result), "", _wanted_of_grid(result)])


def _regrets(result: Result) -> list[str]:
    wanted = result["wanted"]
    by_default = any("default_regret" in found for found in result["models"].values())
    head = ["model", "grid's best", "tune's choice", "regret (95 % CI)", "tune's time over the grid's"]
    head += ["choice with the default budget", "regret (95 % CI)"] if by_default else []
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, found in result["models"].items():
        if "error" in found:
            cells = [found["error"], *[""] * (len(head) - 2)]
        else:
            cells = [found["grid_best"], found["tune_chose"], _regret(found, "regret", wanted), percent(found["cost"])]
            cells += [found["default_chose"], _regret(found, "default_regret", wanted)] if by_default else []
        lines.append(f"| {' | '.join([_case(name), *cells])} |")
    return lines


def _regret(found: Result, key: str, wanted: dict[str, float]) -> str:
    """A regret with its interval; marked where the interval leaves open on which side of the limit it lies."""
    if found[key.replace("regret", "confirmed")] == "identical":
        return "0: the same file and plan"
    low, high = found[f"{key}_ci95"]
    ends = f"{_signed_percent(low)} to {_signed_percent(high)}"
    return f"{_signed_percent(found[key])} ({ends}{_LEFT_OPEN if _leaves_open(found, key, wanted) else ''})"


def _leaves_open(found: Result, key: str, wanted: dict[str, float]) -> bool:
    low, high = found.get(f"{key}_ci95", (0.0, 0.0))
    return key in wanted and low <= wanted[key] <= high


def _signed_percent(value: float) -> str:
    # The sum turns a negative zero, as of -0.04 %, into zero.
    return f"{round(value * 100, 1) + 0.0:+.1f} %".replace("-", "−")


def _wanted_of_grid(result: Result) -> str:
    wanted = result["wanted"]
    most = {key: f"{value * 100:g} %" for key, value in wanted.items()}
    told = [found for found in result["models"].values() if "error" not in found]
    text = f"regret at most {most['regret']}, time at most {most['cost']}{_judged_time(told)}"
    if "default_regret" in most:
        text += f"; regret at most {most['default_regret']} with the default budget of {duration(TUNE_SECONDS)}"
        seconds = [found["default_seconds"] for found in told if "default_seconds" in found]
        text += f" (these searches ended after {min(seconds):.0f} s to {max(seconds):.0f} s)" if seconds else ""
    return f"Wanted: {text}; {_outcome_of_grid(result)}. Run: {run_of(result)}."


def _is_judged(key: str, found: Result) -> bool:
    """As in benchmarks/grid.py: of a grid that takes no time, none can be saved."""
    return key != "cost" or found.get("grid_seconds", _SHORT_GRID_S) >= _SHORT_GRID_S


def _judged_time(told: list[Result]) -> str:
    """Where the time has no bar."""
    return "" if all(_is_judged("cost", found) for found in told) else " (of a grid that takes a minute or more)"


def _outcome_of_grid(result: Result) -> str:
    """Reached, or which models miss which figure; where an interval includes the limit, that is said."""
    wanted = result["wanted"]
    missed = []
    for name, found in result["models"].items():
        if "error" in found:
            missed.append(f"{_case(name)} (refused)")
            continue
        keys = [key for key, most in wanted.items() if key in found and found[key] > most and _is_judged(key, found)]
        is_open = bool(keys) and all(_leaves_open(found, key, wanted) for key in keys)
        missed += [f"{_case(name)}{_LEFT_OPEN_OF_MODEL if is_open else ''}"] if keys else []
    where = f" on {', '.join(missed)}" if missed else ""
    return f"{_outcome(result)}{where}"


def _instead(results: Results) -> str:
    result = results.of("instead")
    if result is None:
        return ""
    head = [*_RIVALS.values(), "speedup over the best other (95 % CI)", "hasten's choice"]
    lines = [_ways_of_others(result), "", f"| model | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for name, found in result["models"].items():
        rows = found["rows"]
        cells = [*(_rival(rows, rival) for rival in _RIVALS), _speedup(found), rows["hasten"]["what"]]
        lines.append(f"| {_case(name)} | {' | '.join(cells)} |")
    wanted = f"Wanted: hasten is nowhere slower; {_outcome(result)}."
    if "faster_on_average" in result:
        mean = times(result["faster_on_average"])
        wanted += f" On average (geometric mean of these speedups) hasten is {mean} as fast."
    return _table([*lines, "", f"{wanted} Run: {run_of(result)}."])


def _ways_of_others(result: Result) -> str:
    """How each was run, by what the result says of itself."""
    if "litert_cli" in result:
        recipes = f"litert-cli {result['litert_cli']} with its own recipes, in an environment of its own"
    else:
        recipes = f"recipes: {result['recipes']}"
    what = [found["rows"]["openvino"]["what"] for found in result["models"].values() if "openvino" in found["rows"]]
    return (
        f"Milliseconds; {recipes}. LiteRT's defaults and litert-cli's files run with 1 thread (their default), "
        f"OpenVINO reads the same file with {what[0] if what else 'all cores'}, hasten runs the plan that it chose "
        f"within a budget of {_BUDGET_INSTEAD_S} s. **Bold**: the fastest that keeps the floor, within noise. "
        "A time is the 3 % quantile of a round's runs, averaged over the quicker half of the rounds; a speedup is the "
        "ratio of two such times."
    )


def _speedup(found: Result) -> str:
    """How many times as fast as the fastest of the others that keeps the floor."""
    low, high = found["rows"][found["best_of_the_others"]]["ci95"]
    return f"{found['best_over_hasten']:.2f}× ({1 / high:.2f}–{1 / low:.2f})"


def _rival(rows: dict[str, Any], name: str) -> str:
    """A latency; bold for the fastest that keeps the floor, and for what cannot be told from it."""
    if name not in rows:
        return "cannot read it"
    row, kept = rows[name], [found for found in rows.values() if found["keeps_floor"]]
    shown = f"{row['median_ms']:#.3g}".removesuffix(".")
    if not row["keeps_floor"]:
        return f"{shown}, breaks the floor"
    fastest = min(kept, key=lambda found: found["median_ms"])
    hasten_is_best = fastest is rows["hasten"] or fastest["hasten_is"] != "slower"
    is_like_hasten = name == "hasten" or row["hasten_is"] not in ("faster", "slower")
    return f"**{shown}**" if row is fastest or (hasten_is_best and is_like_hasten) else shown


def _case(name: str) -> str:
    return _NAMES.get(name) or name


def _outcome(result: Result) -> str:
    return "reached" if result["passed"] else "**missed**"


def _table(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _at_least(share: float) -> str:
    """A lower bound: never rounded up."""
    return f"{math.floor(round(share * 1000, 6)) / 10:.1f} %"


def _at_most(share: float) -> str:
    """An upper bound: never rounded down."""
    return f"{math.ceil(round(share * 1000, 6)) / 10:.1f} %"


# --- the rows of the benchmarks --------------------------------------------------------------------------------------


def _trust(result: Result) -> Iterator[Row]:
    parts = result["parts"]
    # As in benchmarks/trust.py: without a truth there are no wrong verdicts to count.
    known = result["truth_spread"] <= _TRUTH_KNOWN
    named = {
        "tune": "`tune demo --budget 1m`",
        "compare": "`compare demo demo@threads=2`",
        "equal": "`compare` of a model with itself",
        "slower": "`compare` with a model that has 5 % more work",
    }
    for part, what in named.items():
        both = [parts[f"{part}.{how}"] for how in ("quiet", "loaded") if f"{part}.{how}" in parts]
        if not both:
            continue
        runs = f"{' + '.join(str(found['runs']) for found in both)} times (quiet + next to a busy loop)"
        wrong, against = (" + ".join(str(found[key]) for found in both) for key in ("wrong", "contradicting"))
        found = f"wrong verdicts: {wrong if known else 'unknown'}; results that contradict themselves: {against}"
        if part == "slower":
            found += f"; found: {' + '.join(str(entry['found']) for entry in both)}"
        wanted = "neither" + ("; 18 of 20 found when quiet" if part == "slower" else "")
        yield f"{what}, {runs}", found, wanted


def _repeatable(result: Result) -> Iterator[Row]:
    ours, theirs = result["hasten_spread"], result["wheel_spread"]
    yield (
        f"{len(result['hasten_ms'])} runs of `bench`, spread of the latencies",
        f"{percent(ours)}; LiteRT's own `benchmark_litert_model`, in alternation: {percent(theirs)}",
        "a third of that, or 1.5 %",
    )


def _whole(result: Result) -> Iterator[Row]:
    rows = result["rows"]
    longer, long = (several(sum(row["latency_ms"] >= least for row in rows), "model") for least in (1, 5))
    covered, deviation = result["lowest_coverage_from_1_ms"], result["largest_deviation_from_5_ms"]
    yield (
        "share of a run that its profile explains",
        f"{_at_least(covered)} or more ({longer} from 1 ms on); profiled runs take up to {_at_most(deviation)} more or "
        f"less ({long} from 5 ms on); {several(result['kernels_not_exact'], 'kernel')} without a certain node "
        f"({several(len(rows), 'model')})",
        "97 %; 3 %; 0",
    )


def _thin(result: Result) -> Iterator[Row]:
    yield "what the timed loop adds to a call", f"{result['added_ns'] / 1e3:.1f} µs over a loop in C", "at most 1 µs"


def _quick(result: Result) -> Iterator[Row]:
    helped, seconds = times(result["help_over_python_pass"]), result["bench_demo_seconds"]
    found = f"{helped} the time of `python -c pass`; {seconds:.1f} s"
    yield "`hasten --help`; `hasten bench demo`", found, "at most 10×; under 10 s"


def _robust(result: Result) -> Iterator[Row]:
    found = f"{several(result['tracebacks'], 'traceback')}, {several(result['hangs'], 'hang')}"
    refused = f"{result['refused']:,} refused with a sentence, {result['harmless_and_ran']:,} harmless"
    yield f"{result['damaged_files']:,} damaged model files", f"{found}; {refused}", _NO_CRASH


def _damaged_files(result: Result) -> Iterator[Row]:
    counts = {kind: result[kind] for kind in ("sessions", "bundles", "traces")}
    found = "; ".join(
        f"{kind}: {of.get('read', 0)} read, {of.get('refused', 0)} refused" for kind, of in counts.items()
    )
    what = f"{sum(of['tried'] for of in counts.values()):,} damaged sessions, bundles and traces"
    yield what, f"{several(len(result['problems']), 'problem')}; {found}", _NO_CRASH


def _faults(result: Result) -> Iterator[Row]:
    named, survived = f"{result['named']} of {result['planted']}", f"{result['survived']} of {result['to_survive']}"
    yield "planted problems", f"{named} named, none on a clean set-up; {survived} others survived", "all"


def _evaluation(result: Result) -> Iterator[Row]:
    named = {
        "demo": "arrays",
        "jpeg": "JPEG files",
        "ten_variants": "ten variants on the same JPEG files",
        "ten_judged": "ten variants judged by a floor",
    }
    told = "; ".join(
        f"{times(result[name]['ratio'])} ({what}{_range_around_1(result[name]['ratios'])})"
        for name, what in named.items()
        if name in result
    )
    wanted = "1.5×; 2.5× for ten variants" if "ten_variants" in result else "1.5×"
    yield "evaluation, speedup over a plain Python loop", told, f"{wanted}; the same predictions"


def _range_around_1(ratios: list[float]) -> str:
    """The range of single pairs where they disagree on which of both is faster."""
    return f"; single pairs {min(ratios):.2f} to {max(ratios):.2f}" if min(ratios) < 1 < max(ratios) else ""


def _threads(result: Result) -> Iterator[Row]:
    asked = len(result["recommended"])
    beside = result["beside_other_work"]
    loads = f"half of the cores busy: {_distinct(beside['shared'])}, all: {_distinct(beside['busy'])}"
    found = f"{result['same']} the same ({result['recommended'][0]}); {loads}"
    yield (
        f"`threads demo`, {several(asked, 'time')}",
        found,
        "9 of 10 the same; never more threads where they are slower",
    )


def _distinct(found: int | list[int]) -> str:
    """What was recommended; each number once where that differed."""
    return " or ".join(map(str, sorted(set(found)))) if isinstance(found, list) else str(found)


def _app_overhead(result: Result) -> Iterator[Row]:
    found = {name: entry for name, entry in result.items() if isinstance(entry, dict) and "overhead" in entry}
    told = ", ".join(f"{_signed_percent(entry['overhead'])} ({name})" for name, entry in found.items())
    yield "time that `hasten app` adds to a program, by time of an inference", told, "at most 3 %, 10 %"


def _app_faults(result: Result) -> Iterator[Row]:
    entries = [entry for entry in result.values() if isinstance(entry, dict) and "within" in entry]
    named, within = (sum(entry[key] for entry in entries) for key in ("named", "within"))
    found = f"{named} of {len(entries)} named with their line; cost within 20 % of what their removal saves: {within}"
    yield "planted faults of an application", found, "all named; cost within 20 % for 10 of 11"


def _runner_copies(result: Result) -> Iterator[Row]:
    both = [result[name] for name in ("one_operator", "convolutions")]
    found = "–".join(times(value) for value in sorted(entry["faster"] for entry in both))
    bare = "–".join(f"{value:.2f}×" for value in sorted(entry["over_bare"] for entry in both))
    yield (
        "`hasten.Runner`, 1 MB in and out, speedup",
        f"{found}; {bare} the bare inference",
        "1.2×, or 1.02× the bare one",
    )


def _report(result: Result) -> Iterator[Row]:
    found = f"{result['megabytes']:.1f} MB, opens in {result['open_seconds']:.1f} s"
    yield f"a report with {result['trials']} trials", found, "at most 6 MB, under 2 s"


def _mixing(result: Result) -> Iterator[Row]:
    summary = result["summary"]
    ours, theirs = summary["evaluations"]
    mean, most = summary["mean_latency_ratio"], summary["slowest_latency_ratio"]
    samples, calculated = summary["mean_samples_ratio"], summary["mean_samples_ratio_with_its_own_ranking"]
    found = (
        f"{ours} evaluations against {theirs}; {samples:.2f} of the samples with the same layer ranking "
        f"({calculated:.2f} calculated, if the other method ranks layers on 300 samples each, as NNCF does); "
        f"latency of the mixes {mean:.2f} of the other's on average, {most:.2f} at most"
    )
    what = f"search for a mix that keeps the floor, against one layer at a time ({summary['subjects']} subjects)"
    yield what, found, "a quarter of the evaluations, and of the samples as calculated; 1.03 at most"


def _quantize(result: Result) -> Iterator[Row]:
    cases = [entry for entry in result.values() if isinstance(entry, dict) and "floor_kept" in entry]
    kept = sum(entry["floor_kept"] for entry in cases)
    ratios = [entry["ratio"] for entry in cases if entry["ratio"] is not None]
    saved = f"{percent(1 - max(ratios))} to {percent(1 - min(ratios))} less time"
    yield (
        "`quantize`, at most 1 percentage point to lose",
        f"floor kept on {kept} of {len(cases)} models; {saved}",
        "all",
    )


def _accelerators(result: Result) -> Iterator[Row]:
    models, faster = list(result["models"].values()), len(result["npu_surely_faster"])
    taken = sum(found["recommended"] == "npu" for found in models)
    imprecise = sum(found["rows"]["npu"]["status"] == "imprecise" for found in models)
    found = (
        f"OpenVINO's CPU back end in place of an NPU: faster on {faster} of {len(models)}, recommended on {taken} "
        f"(imprecise on {imprecise}); at most {result['longest_seconds']:.1f} s each"
    )
    yield "`accelerators`, with checked outputs", found, "every row on every model; at most 120 s"


def _choose(result: Result) -> Iterator[Row]:
    found = f"{result['rows']} rows in {result['seconds']} s; the race takes {percent(result['share_of_the_time'])}"
    lost = len(result["lost_from_the_front"]) + len(result["wrongly_sure"])
    yield (
        f"`choose`: {result['models']} models in float and int8, front against all timed at length",
        f"{found} of the time of as many rounds for all; {lost} wrong",
        "180 s; 40 %; none wrong by more than 3 %",
    )


def _choose_trained(result: Result) -> Iterator[Row]:
    off = len(result["off_by_more_than_a_point"])
    lost = len(result["lost_from_the_front"]) + len(result["wrongly_sure"])
    yield (
        f"`choose`: {len(result['accuracies'])} trained classifiers, accuracies measured on 1,000 images",
        f"{off} accuracies off; {lost} wrong on the front",
        "all within a point; none wrong by more than 3 %",
    )


def _retraining(result: Result) -> Iterator[Row]:
    sets, int8 = list(result["sets"].values()), result["int8"]
    better = sum(found["test"] > found["neighbors"] for found in sets)
    proven = sum(found["against_neighbors"][1] > 0 for found in sets)
    same = [found["same_predictions"] for found in sets]
    yield (
        f"`retrain`: a new head on {len(sets)} sets, against 5 nearest neighbors",
        f"higher accuracy on {better} of {len(sets)}, proven on {proven} (95 % CI); the file predicts what embeddings "
        f"and head predict for {_at_least(min(same))} or more of the samples",
        "higher on all; 100 % in float, 98.5 % quantized",
    )
    yield (
        "`retrain --to int8`: MobileNet v1 0.25 with a head for CIFAR-10",
        f"{int8['static_int8_sequential'] * 100:.2f} % where float has {int8['float'] * 100:.2f} %",
        "at most 2 points less",
    )
    yield (
        "`retrain`: fitting 2,000 samples of 1,280 features; 500 photos to a tuned int8 bundle",
        f"{result['fit_seconds']:.1f} s; {result['photos_to_bundle_seconds']} s",
        "under 5 s; under 180 s",
    )


def _catalogue(result: Result) -> Iterator[Row]:
    pairs = {name: entry for name, entry in result.items() if isinstance(entry, dict) and "verdict" in entry}
    same = [entry["ratio"] for entry in pairs.values() if entry["verdict"] == "same"]
    others = [f"; {name}: {entry['ratio']:.2f}" for name, entry in pairs.items() if entry["verdict"] != "same"]
    within = math.ceil(round(max(abs(ratio - 1) for ratio in same) * 100, 6))
    ratios = f"ratios {min(same):.2f} to {max(same):.2f}"
    yield (
        "models of the catalogue, with random weights, against files with trained ones",
        f"within {within} % on {len(same)} of {len(pairs)} ({ratios}){''.join(others)}",
        "*same* by a margin of 3 %, but for a detector whose file also suppresses boxes",
    )


def _platform_traces(result: Result) -> Iterator[Row]:
    formats = [entry for entry in result.values() if isinstance(entry, dict) and "mb_a_second" in entry]
    slowest, memory = (max(entry[key] for entry in formats) for key in ("cpu_seconds", "memory_mb"))
    found = f"at most {math.ceil(slowest)} s and {memory:,} MB in {several(len(formats), 'format')}"
    yield f"a platform's trace of {result['megabytes']} MB", found, "60 s, 2,000 MB"


def _doctor(result: Result) -> Iterator[Row]:
    left = ", ".join(f"{len(told['nodes'])} ({name})" for name, told in result["minimized"].items())
    what = f"nodes that `doctor --minimize` leaves of {result['of']} with a bad one"
    yield what, left, "at most 3 that still show the problem"
    models, differ = sum(result["rules"]["models"].values()), len(result["rules"]["differ"])
    what = "what XNNPACK and the GPU delegate take, by the doctor's rules"
    yield what, f"as placed for {models - differ} of {models} pairs of model and delegate", "all"


def _ssh_trial(result: Result) -> Iterator[Row]:
    extra = f"{result['extra_s']:+.2f} s".replace("-", "−")
    yield "extra time of a trial over ssh on loopback, against a local one", extra, "at most 0.3 s"
    yield "until a device whose client is silent has ended its runner", f"{result['silent_s']:.1f} s", "at most 2 s"
    yield "`hasten devices` with three devices, one of them dead", f"{result['list_s']:.1f} s", "under 2 s"
    ends = f"{result['ratio_low']:.3f}–{result['ratio_high']:.3f}"
    yield "a latency over ssh against the local one", f"{result['ratio']:.3f}× (95 % CI {ends})", "1.00×"


def _fleet(result: Result) -> Iterator[Row]:
    queue, evaluation = result["queue"], result["evaluation"]
    yield (
        f"a fleet of {queue['devices']} simulated devices, {queue['trials']:,} trials: idle while the queue is full",
        f"{percent(queue['idle_share'])}; the worst device {percent(queue['worst_device_idle_share'])}",
        "at most 5 %",
    )
    yield (
        "evaluation on two workers with a core each, speedup over one",
        f"{times(evaluation['ratio'])}; two bare processes: {times(evaluation['bare_ratio'])}",
        "1.6×, or 0.9 of what bare processes gain",
    )


def _same_choice(result: Result) -> Iterator[Row]:
    reached = sum(found["reached"] for found in result["models"].values())
    found = f"the same choice, or one that `compare` calls the same, on {reached} of {len(result['models'])} models"
    yield "three tunings with the same seed", found, "all"


def _operators(result: Result) -> Iterator[Row]:
    def ratios(part: str, names: dict[str, str]) -> str:
        found = {told: result[part][name] for name, told in names.items() if name in result[part]}
        shown = {told: f"{entry['ratio']:.3f}" if entry["kept"] else "unchanged" for told, entry in found.items()}
        return ", ".join(f"{ratio} ({told})" for told, ratio in shown.items())

    parts = {
        "exported": ("networks in NCHW from PyTorch", {name: name for name in result["exported"]}),
        "packages": ("models of packages", {"basic_pitch": "basic-pitch", "pose_lite": "pose lite, 3 of 5 outputs"}),
        "drawn": ("formulas", {"hard_swish": "HARD_SWISH", "gelu": "GELU", "affine": "affine chain"}),
    }
    wanted = {
        "exported": "at most 0.75; 0.67 for yolo, 1.00 for shuffle",
        "packages": "at most 0.65, 0.50",
        "drawn": "at most 0.25, 0.40, 0.75",
    }
    for part, (what, names) in parts.items():
        missed = any(one.startswith(f"{name}:") for one in result["missed"] for name in names)
        if found := ratios(part, names):
            what = f"`operators`, {what}: time of the rewritten model over the original's"
            yield what, found, wanted[part] + (_MISSED if missed else "")


def _operators_cases(result: Result) -> Iterator[Row]:
    cases = [entry for name, entry in result["cases"].items() if name != "usual_time" and "now" in entry]
    slower, changed = (sum(entry["now"] in told for entry in cases) for told in ("slower", "faster same undecided"))
    found = f"{slower} slower, {changed} rewritten, {len(cases) - slower - changed} unchanged"
    yield f"`operators` on {several(len(cases), 'other model')}", found, "none slower; outputs equal"


def _kernels(result: Result) -> Iterator[Row]:
    kinds = [entry for entry in result.values() if isinstance(entry, dict) and "times_faster" in entry]
    speedups = [entry["times_faster"] for entry in kinds]
    found = f"{min(speedups):.1f}× to {max(speedups):.1f}×, equal bits; {result['glue_us']:.1f} µs a call for the glue"
    yield f"`operators --kernels`, speedup over {several(len(kinds), 'built-in kernel')}", found, "10×; at most 1 µs"


def _tune_rewrites(result: Result) -> Iterator[Row]:
    verdicts = [found["verdict"] for found in result["models"].values()]
    found = f"faster on {verdicts.count('faster')}, slower on {verdicts.count('slower')}"
    what = f"`tune` against `tune --no-rewrites` ({several(len(verdicts), 'model')}, {result['budget_s']:.0f} s each)"
    yield what, f"{found}; largest time ratio {result['worst_ratio']:.2f}", "none slower by more than 3 %"


def _diff(result: Result) -> Iterator[Row]:
    parts = [result["chosen"], result["random"]]
    named, planted = (sum(part[key] for part in parts) for key in ("named", "planted"))
    found = f"{named} of {planted}; {len(result['spoken_of'])} of {result['equal_pairs']} equal pairs blamed"
    yield "`diff` names the node with a planted fault, and no other", found, "19 of 20; no equal pair"


_ROWS: Final[dict[str, Callable[[Result], Iterator[Row]]]] = {
    "trust": _trust,
    "repeatable": _repeatable,
    "whole": _whole,
    "thin": _thin,
    "quick": _quick,
    "quantize": _quantize,
    "mixing": _mixing,
    "same_choice": _same_choice,
    "threads": _threads,
    "accelerators": _accelerators,
    "operators": _operators,
    "operators_cases": _operators_cases,
    "kernels": _kernels,
    "tune_rewrites": _tune_rewrites,
    "choose": _choose,
    "choose_trained": _choose_trained,
    "retraining": _retraining,
    "catalogue": _catalogue,
    "evaluation": _evaluation,
    "app_faults": _app_faults,
    "app_overhead": _app_overhead,
    "runner_copies": _runner_copies,
    "report": _report,
    "platform_traces": _platform_traces,
    "ssh_trial": _ssh_trial,
    "diff": _diff,
    "doctor": _doctor,
    "fleet": _fleet,
    "robust": _robust,
    "damaged_files": _damaged_files,
    "faults": _faults,
}
TABLES: Final[dict[str, Callable[[Results], str]]] = {
    "machine": _machine,
    "numbers": _numbers,
    "grid": _grid,
    "held_back": _held_back,
    "instead": _instead,
}


if __name__ == "__main__":
    sys.exit(main())

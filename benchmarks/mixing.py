"""Mixed precision: what the search for a mix costs, against giving back one layer after the other.

Both start from a static int8 variant that breaks the floor, and from the error at the output when each layer alone is
quantized, on the same samples. The other way, which NNCF's accuracy-aware quantization goes, gives the worst layer
back to float, evaluates, and goes on until the floor holds. Evaluations end early for both once the floor is decided.

The floor has to hold on both halves of the data. On the half that is searched by, one by one stops at the first count
that chance lets pass: simulated on MobileNet's measured drops with 500 samples and a floor of one point, every fourth
to second such mix loses more in truth. A mix that breaks the floor on the other half goes on: one layer further, or as
hasten's own search does.

Cost is counted in three ways: mixes that were evaluated; samples run through variants, those for the order of the
layers included; and the same with the order found as NNCF does by default, on 300 samples a layer (worked out, not
run). Wanted: at most a quarter of the evaluations, a mix at most 3 % slower, and 60 % of the weights in integers. Each
subject is one case; its race tells apart what differs by about 2 %.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES, Case, data_of
from benchmarks.common import record
from benchmarks.planted import plant
from hasten.api import Effort, SearchSettings, compare
from hasten.core.goal import Goal
from hasten.core.plan import Plan, Workload
from hasten.core.trial import REPORTING, Purpose, Trial
from hasten.data.request import open_data
from hasten.data.tensor_forms import forms_from_graph
from hasten.measure.opening import open_model
from hasten.search.folder import QUANTIZE, SearchFolder
from hasten.search.quantizing import QuantizeSearch
from hasten.search.sensitivity import MOST_SAMPLES, sensitivities
from hasten.search.settings import compared_settings
from hasten.search.variant_store import VariantRequest, VariantStore
from hasten.targets.local import LocalTarget

_WANTED_EVALUATIONS, _WANTED_SLOWER, _WANTED_INTEGERS = 0.25, 1.03, 0.6
_SECONDS = 20.0
_TIMING_SECONDS = 5.0
_NNCF_RANKING_SAMPLES = 300
# (case, recipe, the most to lose): where the recipe keeps the floor there is nothing to mix, and that is said.
_SUBJECTS = (
    ("01", "static_int8_min_max", 0.01),
    ("01", "static_int8_min_max", 0.005),
    ("01", "static_int8", 0.01),
    ("01", "static_int8", 0.02),
    ("01", "static_int8_octav", 0.01),
    ("planted", "static_int8", 0.01),
    ("planted again", "static_int8", 0.01),
)
_OCTAVES = 9.0
_NAMED = "01 static_int8_min_max at 1.0%"


@dataclass(frozen=True)
class Cost:
    """What a search took, beyond the variant that it started from, and what it came to."""

    row: Trial | None
    evaluations: int
    samples: int
    small_evaluations: int
    seconds: float
    reporting_drop: float | None

    def all_samples(self, each: int) -> int:
        """Samples run through variants, with so many for the sensitivity of each layer."""
        return self.samples + each * self.small_evaluations

    def as_data(self) -> dict[str, Any]:
        """The cost as JSON can hold it."""
        return {
            "evaluations": self.evaluations,
            "samples_run_in_them": self.samples,
            "sensitivities": self.small_evaluations,
            "samples_run_in_those": self.small_evaluations * MOST_SAMPLES,
            "seconds": round(self.seconds, 1),
            "float_nodes": None if self.row is None else len(self.row.float_nodes),
            "drop": None if self.row is None else self.row.drop,
            "drop_on_the_other_half": self.reporting_drop,
            "integer_weights": None if self.row is None else round(self.row.integer_share or 0.0, 3),
        }


def main() -> int:
    """Both ways on each subject, or on those of the cases that are named."""
    asked = sys.argv[1:]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = {**CASES}
        for seed, name in enumerate(("planted", "planted again")):
            broken = Path(folder) / f"planted_{seed}.tflite"
            plant(broken, _OCTAVES, seed)
            cases[name] = replace(CASES["demo"], name=name, model=broken)
        for name, recipe, max_drop in _SUBJECTS:
            key = f"{name} {recipe} at {max_drop:.1%}"
            if name in (asked or cases):
                figures[key] = _race(cases[name], recipe, max_drop)
                print(f"{key}: {figures[key]}", flush=True)
    told = [found for found in figures.values() if "evaluations_ratio" in found]
    totals = [sum(found[way]["evaluations"] for found in told) for way in ("ours", "one_by_one")]
    summary = {"subjects": len(told), "evaluations": totals, "evaluations_ratio": round(totals[0] / totals[1], 3)} | {
        f"mean_{key}": round(statistics.mean(found[key] for found in told), 3)
        for key in ("evaluations_ratio", "samples_ratio", "samples_ratio_with_its_own_ranking", "latency_ratio")
    }
    summary["slowest_latency_ratio"] = max(found["latency_ratio"] for found in told)
    first = figures.get(_NAMED, {})
    reached = {
        "a_quarter_of_the_evaluations": totals[0] <= _WANTED_EVALUATIONS * totals[1],
        "a_quarter_of_the_samples_with_its_own_ranking": (
            summary["mean_samples_ratio_with_its_own_ranking"] <= _WANTED_EVALUATIONS
        ),
        "at_most_3_percent_slower_on_average": summary["mean_latency_ratio"] <= _WANTED_SLOWER,
        "at_most_3_percent_slower_everywhere": summary["slowest_latency_ratio"] <= _WANTED_SLOWER,
        "60_percent_integers": "ours" not in first or first["ours"]["integer_weights"] >= _WANTED_INTEGERS,
    }
    found = {"summary": summary, "reached": reached, **figures}
    return record("mixing", found, passed=all(reached.values()), whole=not asked)


def _race(case: Case, recipe: str, max_drop: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        ways = {}
        for way in ("ours", "one_by_one"):
            # One by one needs no profile: only errors count.
            goal = Goal.SIZE if way == "one_by_one" else Goal.LATENCY
            settings = SearchSettings((recipe,), max_drop, mix=False, goal=goal)
            search = _opened(case, Path(folder) / way, settings)
            try:
                found = _searched(search, recipe, way)
            finally:
                search.store.close()
            if found is None:
                return {"floor": "kept without a mix"}
            ways[way] = found
        data: dict[str, Any] = {way: cost.as_data() for way, cost in ways.items()}
        ours, theirs = ways["ours"], ways["one_by_one"]
        data["evaluations_ratio"] = round(ours.evaluations / theirs.evaluations, 3)
        data["samples_ratio"] = round(ours.all_samples(MOST_SAMPLES) / theirs.all_samples(MOST_SAMPLES), 3)
        data["samples_ratio_with_its_own_ranking"] = round(
            ours.all_samples(MOST_SAMPLES) / theirs.all_samples(_NNCF_RANKING_SAMPLES), 3
        )
        if ours.row is not None and theirs.row is not None:
            raced = compare((theirs.row.path, Plan()), (ours.row.path, Plan()), effort=Effort(_SECONDS)).comparison
            data |= {"latency_ratio": round(raced.ratio, 3), "ci95": [round(bound, 3) for bound in raced.ci95]}
        else:
            data["latency_ratio"] = 1.0 if theirs.row is None else float("inf")
        return data


def _opened(case: Case, folder: Path, settings: SearchSettings) -> QuantizeSearch:
    """A search on the case that has not begun."""
    candidate, graph = open_model(case.model)
    data = open_data(data_of(case, folder.with_name(f"{folder.name}-data")), forms_from_graph(graph, Workload()).inputs)
    place = SearchFolder(folder, QUANTIZE, compared_settings(candidate, data, settings))
    return QuantizeSearch(VariantStore(LocalTarget(), candidate, graph, data, settings, place), _TIMING_SECONDS)


def _searched(search: QuantizeSearch, recipe: str, way: str) -> Cost | None:
    search._begin()
    if search.attempt(VariantRequest(recipe)).may_be_chosen:
        return None
    if way == "ours":
        search.time_all()
    judge, trial = search.store.judge, search.folder.variants[recipe]
    judge.original(REPORTING)
    begin, samples = time.monotonic(), judge.samples_run
    found = _ours(search, trial) if way == "ours" else _one_by_one(search, trial)
    seconds = time.monotonic() - begin
    # Both have to look at the other half: what counts is how many mixes it takes to get there.
    evaluations, samples = sum(entry.is_step for entry in search.trials), judge.samples_run - samples
    drop = None if found is None or found.change is None else round(found.change.drop, 4)
    return Cost(found, evaluations, samples, len(search.folder.sensitivities), seconds, drop)


def _ours(search: QuantizeSearch, trial: Trial) -> Trial | None:
    found = search.mixer.search(trial)
    while found is not None:
        if found.passed_when_judged and (kept := _on_both_parts(search, found)) is not None:
            return kept
        found = search.mixer.further(found)
    return None


def _one_by_one(search: QuantizeSearch, trial: Trial) -> Trial | None:
    worst_first = sorted(sensitivities(search.store, trial, Plan()), key=lambda entry: -entry.error)
    for count in range(1, len(worst_first)):
        nodes = tuple(sorted(node for entry in worst_first[:count] for node in entry.nodes))
        tried = search.attempt(VariantRequest(trial.recipe, nodes, Purpose.FLOOR, trial.variant))
        if tried.passed_when_judged and (kept := _on_both_parts(search, tried)) is not None:
            return kept
    return None


def _on_both_parts(search: QuantizeSearch, trial: Trial) -> Trial | None:
    """The mix with its drop on the other part; None if it may not be chosen."""
    found = search.store.judge.reported(trial, search.store.candidate_of(trial, Plan()))
    return found if found.may_be_chosen else None


if __name__ == "__main__":
    sys.exit(main())

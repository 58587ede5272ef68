"""Contradictions in a result: its JSON document, its HTML page and its session, each in itself and with each other.

`python -m benchmarks.consistency RESULT.json [PAGE.html] [SESSION.jsonl]` lists them. The rules use no code of hasten:
a ratio follows from the latencies next to it, a verdict from its interval and rounds, and a quantity has one value. A
number stands for all values that are printed like it, in JSON for all that agree with it in three digits.
"""

from __future__ import annotations

import enum
import json
import math
import re
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.page_reader import read_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from benchmarks.page_reader import Page, Sheet

    Data = Mapping[str, Any]

_FASTER, _SLOWER, _SAME, _UNDECIDED = "faster", "slower", "same", "undecided"
_CLAIMS: Final = ("good", "improved")
# A verdict of "same" is about differences that nobody would care about.
_MOST_WHEN_SAME: Final = 0.05
_FEWEST_ROUNDS: Final = 2
# A step may be judged against something that is slower than the best of the rest only by what noise explains.
_NOISE: Final = 0.03
# From a 95 % interval to the one-sided 5 % that a verdict on accuracy may be wrong by: 1.645 / 1.960.
_ONE_SIDED: Final = 0.839
_MS: Final = {"µs": 1e-3, "ms": 1.0, "s": 1e3}
_TIME: Final = re.compile(r"(?<![\d.–])(\d+(?:\.\d+)?) (µs|ms|s)\b")
_FACTOR: Final = re.compile(r"(\d+(?:\.\d+)?)×(?: (faster|slower))?")
_LESS: Final = re.compile(r"(\d+(?:\.\d+)?) % (faster|slower)")
_CLAIM: Final = re.compile(r"(\d+(?:\.\d+)?)× (faster|slower)[^()]{0,40}\(95 % CI (\d+(?:\.\d+)?)–(\d+(?:\.\d+)?)\)")
_ARROW: Final = re.compile(r"(\d+(?:\.\d+)? (?:µs|ms|s)) → (\d+(?:\.\d+)? (?:µs|ms|s))")
_AGAINST_ITSELF: Final = re.compile(r"as long as|no faster|(?<!far )slower than|breaks the floor")
# What is claimed of a ratio in words, as a verdict.
_CLAIMED: Final = re.compile(
    r"\d(?:×| %) (?:(faster|more energy|higher throughput)|(slower|less energy|lower throughput))"
)
_ALIKE: Final = re.compile(r"\b(?:as|equally) fast\b|^the same|^same", re.IGNORECASE)
_RATIO_COLUMNS: Final = ("speedup", "time ratio", "against the original")


class Kind(str, enum.Enum):
    """What is contradicted."""

    RATIO = "a ratio does not follow from the latencies"
    INTERVAL = "a verdict contradicts its interval"
    DETECTABLE = "a verdict contradicts the smallest detectable difference"
    WORDS = "words claim another verdict than the data"
    ROUNDS = "a verdict from a single round, or from an undecided comparison"
    TWO_VALUES = "one quantity has two values"
    CHOICE = "the choice has a reason against itself"
    STEPS = "the steps do not add up, or change two things at once"
    LIMIT = "kept or broken against the interval"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two statements that cannot both be true."""

    kind: Kind
    where: str
    said: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.where}: {self.kind.value}: {self.said}"


@dataclass(frozen=True, slots=True)
class Shown:
    """A number with the range of values that are printed like it."""

    low: float
    high: float

    def over(self, other: Shown) -> Shown:
        """The quotients of all values."""
        return Shown(self.low / other.high, self.high / other.low if other.low > 0 else math.inf)

    def agrees(self, other: Shown) -> bool:
        """Whether one value can stand for both."""
        return self.low <= other.high and other.low <= self.high

    @property
    def inverse(self) -> Shown:
        """One over it."""
        return Shown(1.0, 1.0).over(self)

    def __str__(self) -> str:
        """The middle, in four digits."""
        return f"{(self.low + self.high) / 2:.4g}"


def shown(value: float, digits: int = 3) -> Shown:
    """What a number of a document may be printed as."""
    if value == 0 or not math.isfinite(value):
        return Shown(value, value)
    half = 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    return Shown(value - half, value + half)


def printed(text: str, unit: float = 1.0) -> Shown:
    """A number as it is written: half of its last digit either way."""
    decimals = len(text.partition(".")[2])
    half = 0.5 * 10.0**-decimals
    return Shown(max(0.0, float(text) - half) * unit, (float(text) + half) * unit)


def contradictions(document: Data, page: str = "", session: Sequence[Data] = ()) -> list[Contradiction]:
    """Every contradiction in a document, with the page and the lines of the session that show the same result."""
    trials = Trials.of(document, session)
    compared = [line for line in session if line.get("kind") == "comparison"]
    found = [*_document(document, trials), *trials.contradictions(), *_tuning(document, trials, compared)]
    found += [told for line in compared for told in _verdict(f"comparison {line['label']}", line["data"])]
    if page:
        read = read_page(page)
        found += [*_page(read), *_between(document, trials, read)]
    return list(dict.fromkeys(found))


# --- a document ------------------------------------------------------------------------------------------------------


def _document(document: Data, trials: Trials) -> Iterator[Contradiction]:
    for where, entry in _walk(document):
        if entry.get("verdict") in (_FASTER, _SLOWER, _SAME, _UNDECIDED) and _is_number(entry.get("ratio")):
            yield from _verdict(where, entry)
        if _is_number(entry.get("limit")) and "interval" in entry:
            yield from _limit(where, entry)
    yield from _compared(document)
    yield from _waterfall(document, trials)
    yield from _rows_against_cpu(document)
    yield from _threads(document)
    yield from _gate(document)
    for finding in document.get("verdicts", ()):
        yield from trials.finding(finding)


def _verdict(where: str, entry: Data) -> Iterator[Contradiction]:
    verdict, ratio = entry["verdict"], entry["ratio"]
    low, high = (math.nan if end is None else end for end in entry.get("ci95") or (None, None))
    said = f"{verdict} at a ratio of {ratio:.4g}"
    if ratio < low or ratio > high:
        yield Contradiction(Kind.INTERVAL, where, f"{ratio:.4g} is outside of {low:.4g} to {high:.4g}")
    if (verdict == _FASTER and not high < 1) or (verdict == _SLOWER and not low > 1):
        yield Contradiction(Kind.INTERVAL, where, f"{said}, interval {low:.4g} to {high:.4g}")
    if verdict == _SAME and abs(ratio - 1) > _MOST_WHEN_SAME:
        yield Contradiction(Kind.INTERVAL, where, said)
    difference = 1 - min(ratio, 1 / ratio) if ratio > 0 else 1.0
    detectable = entry.get("smallest_detectable", 0.0)
    if verdict == _UNDECIDED and detectable and difference > detectable + 1e-9:
        yield Contradiction(Kind.DETECTABLE, where, f"{said}, {difference:.1%}; smallest detectable {detectable:.1%}")
    if verdict not in (_FASTER, _SLOWER):
        return
    if detectable is None or detectable > difference + 1e-9:
        told = "unknown" if detectable is None else f"{detectable:.1%}"
        yield Contradiction(Kind.DETECTABLE, where, f"{said}, {difference:.1%}; smallest detectable {told}")
    if (rounds := entry.get("rounds")) is not None and rounds < _FEWEST_ROUNDS:
        yield Contradiction(Kind.ROUNDS, where, f"{said} after {rounds} round")


def _words(where: str, text: str, verdict: object) -> Iterator[Contradiction]:
    """What words claim of a ratio against its verdict: faster or slower only if it is proven, equal only if it is."""
    if verdict not in (_FASTER, _SLOWER, _SAME, _UNDECIDED):
        return
    claims = {_FASTER if better else _SLOWER for better, _ in _CLAIMED.findall(text)}
    claims |= {_SAME} if _ALIKE.search(text) else set()
    claims |= {_UNDECIDED} if text.casefold().startswith(_UNDECIDED) else set()
    if claims - {verdict}:
        yield Contradiction(Kind.WORDS, where, f"{text[:60]!r}, though the verdict is {verdict}")


def _gate(document: Data) -> Iterator[Contradiction]:
    """A gate as a whole says what its limits say. `passed` may also be what the user asked for, of an undecided one."""
    outcomes = [row.get("verdict") for row in document.get("rows", ()) if "limit" in row]
    if not outcomes or "passed" not in document:
        return
    allowed = document.get("undecided") == "pass"
    said = document.get("verdict") or ("passed" if document["passed"] else "failed")
    expected = "failed" if "failed" in outcomes else _UNDECIDED if _UNDECIDED in outcomes else "passed"
    if "verdict" in document and said != expected:
        yield Contradiction(Kind.LIMIT, "verdict", f"{said}, though the limits are {', '.join(outcomes)}")
    if document["passed"] is not (expected == "passed" or (allowed and expected == _UNDECIDED)):
        yield Contradiction(Kind.LIMIT, "passed", f"{document['passed']}, though the limits are {', '.join(outcomes)}")


def _limit(where: str, row: Data) -> Iterator[Contradiction]:
    """A limit of a gate: kept or broken means that the whole interval lies on that side."""
    low, high = row["interval"] or (row["measured"], row["measured"])
    if low is None or high is None or row["measured"] is None:
        return
    worst, best = (-low, -high) if row.get("at_least") else (high, low)
    limit = -row["limit"] if row.get("at_least") else row["limit"]
    said = f"{row['verdict']}, {low:.4g} to {high:.4g} against {row['limit']:.4g}"
    if (row["verdict"] == "passed" and worst > limit) or (row["verdict"] == "failed" and best <= limit):
        yield Contradiction(Kind.LIMIT, where, said)


def _compared(document: Data) -> Iterator[Contradiction]:
    sides = [_median_ms(document.get(side)) for side in ("first", "second")]
    if None not in sides and _is_number(document.get("ratio")):
        yield from _ratio("ratio", document["ratio"], sides[1], sides[0])


def _waterfall(document: Data, trials: Trials) -> Iterator[Contradiction]:
    steps, best = document.get("steps") or [], document.get("best") or {}
    for number, step in enumerate(steps):
        yield from _ratio(f"steps[{number}]", step["ratio"], step["to_ms"], step["from_ms"])
    for number, (one, other) in enumerate(pairwise(steps)):
        yield from _equal(f"steps[{number}] to steps[{number + 1}]", one["to_ms"], other["from_ms"])
    if not best or not _is_number(best.get("speedup")):
        return
    if steps:
        product = math.prod(step["ratio"] for step in steps)
        if not shown(1 / product).agrees(shown(best["speedup"])):
            said = f"their product is {1 / product:.4g}, the speedup {best['speedup']:.4g}"
            yield Contradiction(Kind.STEPS, "steps", said)
        yield from _ratio("best.speedup", best["speedup"], steps[0]["from_ms"], steps[-1]["to_ms"])
        yield from _equal("best.latency_ms", best.get("latency_ms"), steps[-1]["to_ms"])
    low, high = best.get("ci95") or (None, None)
    if low is not None and high is not None and not low <= best["speedup"] <= high:
        yield Contradiction(Kind.INTERVAL, "best", f"{best['speedup']:.4g} is outside of {low:.4g} to {high:.4g}")
    changed = trials.changed(best)
    if steps and len(changed) > len(steps):
        yield Contradiction(Kind.STEPS, "steps", f"{len(steps)} steps change {', '.join(sorted(changed))}")


def _tuning(document: Data, trials: Trials, compared: Sequence[Data]) -> Iterator[Contradiction]:
    """What a tuning says of its choice: the headline, the chosen trial and the confirmation have one verdict."""
    goal, best = document.get("goal"), document.get("best")
    if not isinstance(goal, dict) or not best:
        return
    if goal.get("compared_by") != "size":  # which is exact
        yield from _words("verdict", document["verdict"], goal.get("verdict"))
    verdicts = {"best": best.get("verdict"), **trials.verdicts_on_choice()}
    if document.get("steps"):  # else a comparison is that of an earlier run
        verdicts |= {line["label"]: line["data"].get("verdict") for line in compared if line["label"] == "final"}
    if goal.get("compared_by") == "latency":
        verdicts["goal"] = goal.get("verdict")
    known = {where: verdict for where, verdict in verdicts.items() if verdict is not None}
    if len(set(known.values())) > 1:
        said = ", ".join(f"{verdict} ({where})" for where, verdict in known.items())
        yield Contradiction(Kind.TWO_VALUES, "verdict on the choice", said)


def _rows_against_cpu(document: Data) -> Iterator[Contradiction]:
    """Accelerators, each against the CPU's row, and against that with all cores."""
    rows = [row for row in document.get("rows", ()) if isinstance(row, dict) and "against_cpu" in row]
    base = next((row for row in rows if row["against_cpu"] is None and _median_ms(row) is not None), None)
    for row in rows:
        if base is not None and row["against_cpu"] is not None and _median_ms(row) is not None:
            yield from _ratio(f"rows.{row['name']}", row["against_cpu"]["ratio"], _median_ms(row), _median_ms(base))
        if (against := row.get("against_all_cores")) is not None:
            name = f"{base['name'] if base else ''} {row['cpu_threads']} threads"
            all_cores = next((_median_ms(one) for one in rows if one["name"] == name), None)
            yield from _ratio(f"rows.{row['name']}, all cores", against["ratio"], _median_ms(row), all_cores)


def _threads(document: Data) -> Iterator[Contradiction]:
    """A study of threads: each step against the rows, and the recommendation against the choice."""
    choices = document.get("by_load") or {}
    for load, choice in choices.items():
        rows = [row for row in document["rows"] if row["load"] == load]
        if choice.get("sure") and any(step["rounds"] < _FEWEST_ROUNDS for step in choice["steps"]):
            yield Contradiction(Kind.ROUNDS, f"by_load.{load}", f"{choice['threads']} threads after a single round")
        for step in choice["steps"]:
            where = f"by_load.{load}, {step['threads']} threads"
            if step["took_the_lead"] and step["ci95"][1] is not None and step["ci95"][1] >= 1:
                yield Contradiction(Kind.INTERVAL, where, f"took the lead at {step['ratio']:.4g}")
            medians = {(row["threads"], tuple(row["cores"])): row["median_ms"] for row in rows}
            times = [medians.get((step[f"{side}threads"], tuple(step[f"{side}cores"]))) for side in ("", "against_")]
            if len(medians) == len(rows) and None not in times:  # under several kinds of load there are several
                yield from _ratio(where, step["ratio"], times[0], times[1])
    asked = choices.get(document.get("load", ""))
    if asked is not None and document.get("recommended") != asked["threads"]:
        said = f"{document.get('recommended')} recommended, {asked['threads']} chosen"
        yield Contradiction(Kind.TWO_VALUES, "recommended", said)


def _ratio(where: str, ratio: float, time: float | None, base: float | None) -> Iterator[Contradiction]:
    if not time or not base:
        return
    if not shown(ratio).agrees(shown(time).over(shown(base))):
        said = f"{ratio:.4g} beside {time:.4g} and {base:.4g}, which make {time / base:.4g}"
        yield Contradiction(Kind.RATIO, where, said)


def _equal(where: str, one: float | None, other: float | None) -> Iterator[Contradiction]:
    if one is not None and other is not None and not shown(one).agrees(shown(other)):
        yield Contradiction(Kind.TWO_VALUES, where, f"{one:.4g} and {other:.4g}")


# --- the trials of a search ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trials:
    """The last that is known of each trial of a search, the original on its first plan before all others."""

    by_name: dict[str, Data]
    allowed_drop: float | None

    @classmethod
    def of(cls, document: Data, session: Iterable[Data]) -> Trials:
        """From the lines of a session, or from a document that has variants."""
        found: dict[str, Any] = {}
        for line in session:
            if line.get("kind") in ("trial", "variant"):
                data = line["data"]
                found[line["label"] if line["kind"] == "trial" else data["variant"]] = data
        found |= {trial["variant"]: trial for trial in document.get("variants", ())}
        return cls(found, document.get("max_drop") if _is_share(found.values()) else None)

    @property
    def base(self) -> Data | None:
        """The original."""
        return next((trial for trial in self.by_name.values() if trial.get("variant") == "original"), None)

    def ms(self, name: str) -> float | None:
        """The latency of a trial."""
        return _median_ms(self.by_name.get(name))

    def contradictions(self) -> Iterator[Contradiction]:
        """What trials say against themselves and each other."""
        for name, trial in self.by_name.items():
            time, against, why = _median_ms(trial), trial.get("against"), trial.get("why") or {}
            if against is not None:
                yield from _verdict(name, against)
                yield from _ratio(name, against["ratio"], time, _median_ms(self.base))
            facts = why.get("facts", {}) if isinstance(why, dict) else {}
            if "than" in facts and _is_number(facts.get("ratio")):
                yield from _ratio(f"{name}, why", facts["ratio"], time, self.ms(facts["than"]))
            if trial.get("status") == "chosen":
                yield from self._chosen(name, trial)
            yield from self._floor(name, trial)

    def verdicts_on_choice(self) -> dict[str, str]:
        """The verdict on the latency of the chosen trial, by its name."""
        chosen = {name: trial.get("against") for name, trial in self.by_name.items() if trial.get("status") == "chosen"}
        return {name: against["verdict"] for name, against in chosen.items() if against is not None}

    def _chosen(self, name: str, trial: Data) -> Iterator[Contradiction]:
        why = trial.get("why") or {}
        code = why.get("code") if isinstance(why, dict) else why
        if code:
            yield Contradiction(Kind.CHOICE, name, f"chosen, and {code}")
        if trial.get("floor") in ("broken", "failed"):
            yield Contradiction(Kind.CHOICE, name, f"chosen, and its floor is {trial['floor']}")

    def _floor(self, name: str, trial: Data) -> Iterator[Contradiction]:
        """Each verdict on the floor against the interval of the drop on the same samples."""
        verdicts = [found for part in ("judged", "reported") if isinstance(found := trial.get(part), dict)]
        for found in verdicts:
            yield from self._kept(name, found["state"], found["drop"], found["ci95"])
        change = trial.get("change")
        if not verdicts and isinstance(change, dict):  # a session from before verdicts were recorded
            sign = -1 if change["higher_is_better"] else 1
            ends = [None if end is None else sign * end for end in change["ci95"] or (None, None)]
            yield from self._kept(name, trial.get("floor"), sign * change["difference"], ends[::sign])

    def _kept(self, name: str, state: object, drop: float, ends: Sequence[float | None]) -> Iterator[Contradiction]:
        low, high = ends
        if self.allowed_drop is None or low is None or high is None:
            return
        surely, at_least = drop + _ONE_SIDED * (high - drop), drop - _ONE_SIDED * (drop - low)
        if state == "kept" and surely > self.allowed_drop + 1e-9:
            yield Contradiction(Kind.LIMIT, name, f"kept, though up to {high:.2%} may be lost")
        if state == "broken" and at_least <= self.allowed_drop - 1e-9:
            yield Contradiction(Kind.LIMIT, name, f"broken, though perhaps only {low:.2%} is lost")

    def changed(self, best: Data) -> set[str]:
        """What differs between the original on its first plan and the choice."""
        base, plan = self.base, best.get("plan")
        if base is None or not isinstance(plan, dict):
            return set()
        first = base["plan"]
        where = ("accelerator", "kernel", "delegate")
        changed = {"where it runs"} if any(first[key] != plan[key] for key in where) else set()
        changed |= {key for key in ("threads", "cores", "precision") if first.get(key) != plan.get(key)}
        return changed | ({"variant"} if best.get("variant") != base["variant"] else set())

    def finding(self, finding: Data) -> Iterator[Contradiction]:
        """What a practice says, against the trials that it rests on."""
        facts, where = finding.get("facts") or {}, f"verdicts.{finding['practice']}"
        for place, entry in _walk(facts):
            if finding["verdict"] in _CLAIMS and entry.get("rounds") is not None and entry["rounds"] < _FEWEST_ROUNDS:
                said = f"{finding['verdict']} after {entry['rounds']} round"
                yield Contradiction(Kind.ROUNDS, f"{where}.{place}", said)
        if finding["practice"] == "threads":
            yield from self._threads(where, finding)
        if finding["practice"] == "accelerators":
            yield from self._accelerators(where, facts.get("rows") or ())
        ratio = facts.get("ratio")
        if finding["practice"] == "quantize" and isinstance(ratio, dict) and facts.get("variant") in self._variants:
            yield from self._credit(where, facts["variant"], ratio["ratio"])

    @property
    def _variants(self) -> set[str]:
        return {trial["variant"] for trial in self.by_name.values()}

    def _threads(self, where: str, finding: Data) -> Iterator[Contradiction]:
        """Threads are judged on the CPU, by the variant that the finding names."""
        facts = finding.get("facts") or {}
        for row in facts.get("rows") or ():
            if not isinstance(row, dict) or "threads" not in row or not _is_number(row.get("median_ms")):
                continue
            trial = self._on_cpu(row["threads"], facts.get("variant", "original"))
            if trial is None or (time := _median_ms(trial)) is None:
                continue
            yield from _equal(f"{where}, {row['threads']} threads", row["median_ms"], time)
            against = trial.get("against")
            if finding["verdict"] not in _CLAIMS or against is None:
                continue
            if against["verdict"] == _UNDECIDED or against["rounds"] < _FEWEST_ROUNDS:
                said = f"{finding['verdict']}, though {row['threads']} threads are {against['verdict']}"
                yield Contradiction(Kind.ROUNDS, where, f"{said} after {against['rounds']} rounds")

    def _on_cpu(self, threads: int, variant: str) -> Data | None:
        return next((trial for trial in self._cpu_trials(variant) if trial["plan"]["threads"] == threads), None)

    def _cpu_trials(self, variant: str) -> Iterator[Data]:
        """A variant on the CPU with XNNPACK, by threads."""
        for trial in self.by_name.values():
            plan = trial["plan"]
            on_cpu = plan["accelerator"] == "cpu" and plan["kernel"] == "delegate" and not plan["delegate"]
            if trial["variant"] == variant and on_cpu:
                yield trial

    @property
    def _choice(self) -> Data | None:
        chosen = (trial for trial in self.by_name.values() if trial.get("status") == "chosen")
        return next(chosen, self.base)

    def _accelerators(self, where: str, rows: Sequence[Any]) -> Iterator[Contradiction]:
        """The yardstick of a ratio is the latency of the choice, or of its variant with other threads of the CPU, and
        none of these is clearly lower."""
        choice = self._choice
        on_cpu = [] if choice is None else list(self._cpu_trials(choice["variant"]))
        times = [time for trial in on_cpu if (time := _median_ms(trial)) is not None]
        known = [*times, *([time] if (time := _median_ms(choice)) is not None else [])]
        for row in rows:
            if not known or not isinstance(row, dict) or not row.get("median_ms") or not _is_number(row.get("ratio")):
                continue
            yardstick = row["median_ms"] / row["ratio"]
            quotients = [shown(row["median_ms"]).over(shown(time)) for time in known]
            if not any(shown(row["ratio"]).agrees(quotient) for quotient in quotients):
                said = f"{row['ratio']:.4g} beside {row['median_ms']:.4g}: no latency of the choice is {yardstick:.4g}"
                yield Contradiction(Kind.RATIO, f"{where}.{row.get('name')}", said)
            elif times and yardstick > min(times) * (1 + _NOISE):
                said = f"against {yardstick:.4g} ms, though the CPU takes {min(times):.4g} ms with other threads"
                yield Contradiction(Kind.STEPS, f"{where}.{row.get('name')}", said)

    def _credit(self, where: str, variant: str, ratio: float) -> Iterator[Contradiction]:
        """What a variant brings is its time over the original's on the same plan."""
        pairs = [
            (trial, other)
            for trial in self.by_name.values()
            for other in self.by_name.values()
            if trial["variant"] == variant and other["variant"] == "original" and trial["plan"] == other["plan"]
        ]
        times = [(_median_ms(trial), _median_ms(other)) for trial, other in pairs]
        known = [shown(time).over(shown(base)) for time, base in times if time and base]
        if known and not any(shown(ratio).agrees(quotient) for quotient in known):
            said = f"{variant} is credited with {ratio:.4g}; on the same plan it is {', '.join(map(str, known))}"
            yield Contradiction(Kind.STEPS, where, said)


# --- a page ----------------------------------------------------------------------------------------------------------


def _page(page: Page) -> Iterator[Contradiction]:
    base = next((_base_of(sheet.rows) for sheet in page.sheets if _base_of(sheet.rows) is not None), None)
    for sheet in page.sheets:
        yield from _sheet(sheet, base)
    for title, (value, *notes) in page.tiles.items():
        if title == "Speedup":
            yield from _arrow(f"tile {title}", " ".join((*notes, value)))
    for place in (page.headline, *page.sentences):
        yield from _arrow(place[:40], place)
    yield from _claimed(page)
    yield from _bars(page)
    yield from _counts(page)
    yield from _named(page)


def _base_of(rows: Sequence[Mapping[str, str]]) -> Shown | None:
    """The row that the ratios of a table are against: the first with a latency and without a ratio."""
    for row in rows:
        ratios = [row[column] for column in _RATIO_COLUMNS if column in row]
        if ratios and not ratios[0] and (found := _time(row.get("latency", ""))) is not None:
            return found
    return None


def _sheet(sheet: Sheet, base: Shown | None) -> Iterator[Contradiction]:
    base = _base_of(sheet.rows) or base
    for row in sheet.rows:
        name, where = next(iter(row.values()), ""), f"{sheet.name}, {next(iter(row.values()), '')}"
        time, column = _time(row.get("latency", "")), next((key for key in _RATIO_COLUMNS if row.get(key)), "")
        if base is not None and time is not None and column and (factor := _FACTOR.search(row[column])):
            quotient = time.over(base) if column == "time ratio" or factor[2] == _SLOWER else base.over(time)
            yield from _printed_ratio(where, row[column], printed(factor[1]), quotient)
        yield from _head_to_head(row)
        before, after = (_time(row.get(key, "")) for key in ("from", "to"))
        if before is not None and after is not None and (factor := _FACTOR.search(row.get("change", ""))):
            quotient = after.over(before) if factor[2] == _SLOWER else before.over(after)
            yield from _printed_ratio(where, row["change"], printed(factor[1]), quotient)
        if row.get("status") == "chosen" and (reason := _AGAINST_ITSELF.search(row.get("why", ""))):
            yield Contradiction(Kind.CHOICE, where, f"{name} is chosen, and its row says “{reason[0]}”")


def _printed_ratio(where: str, said: str, ratio: Shown, quotient: Shown) -> Iterator[Contradiction]:
    if not ratio.agrees(quotient):
        yield Contradiction(Kind.RATIO, where, f"{said!r} beside latencies that make {quotient}")


def _arrow(where: str, text: str) -> Iterator[Contradiction]:
    """`2.31 ms → 1.19 ms` with one factor or percentage in the same sentence."""
    times, factors = _ARROW.findall(text), _FACTOR.findall(text)
    if len(times) != 1:
        return
    before, after = _time(times[0][0]), _time(times[0][1])
    if before is None or after is None:
        return
    if len(factors) == 1:
        number, word = factors[0]
        quotient = after.over(before) if word == _SLOWER else before.over(after)
        yield from _printed_ratio(where, text, printed(number), quotient)
    for number, word in _LESS.findall(text):
        share = printed(number, 0.01)
        quotient = after.over(before)
        ratio = Shown(1 - share.high, 1 - share.low) if word == _FASTER else Shown(1 + share.low, 1 + share.high)
        yield from _printed_ratio(where, text, ratio, quotient)


def _head_to_head(row: Mapping[str, str]) -> Iterator[Contradiction]:
    """A row of two candidates: the ratio against the two latencies, and the verdict against the ratio."""
    first, second = (_time(row.get(f"latency of {side}", "")) for side in "AB")
    told = row.get("B is", "")
    if first is None or second is None or not (factor := _FACTOR.search(told)):
        return
    where, found = f"comparison {next(iter(row.values()))}", printed(factor[1])
    quotient = second.over(first)
    yield from _printed_ratio(where, told, found if factor[2] == _SLOWER else found.inverse, quotient)
    yield from _words(where, told, row["verdict"])


def _claimed(page: Page) -> Iterator[Contradiction]:
    """Every `2.3× faster (95 % CI 2.0–2.5)` of the page: inside of its interval, which leaves 1 out."""
    cells = (text for sheet in page.sheets for row in sheet.rows for text in row.values())
    for text in (page.headline, *page.sentences, *cells):
        for factor, _, low, high in _CLAIM.findall(text):
            value, least, most = printed(factor), printed(low), printed(high)
            if value.high < least.low or value.low > most.high:
                yield Contradiction(Kind.INTERVAL, text[:40], f"{factor}× is outside of {low} to {high}")
            if least.high < 1:
                yield Contradiction(Kind.INTERVAL, text[:40], f"a claim whose interval begins at {low}")


def _bars(page: Page) -> Iterator[Contradiction]:
    """The waterfall: bars that go on where the one before ended, from the first total to the last."""
    bars = page.charts.get("steps") or []
    if not bars:
        return
    level = bars[0]["high"]
    for bar in bars[1:-1]:
        start, end = (bar["high"], bar["low"]) if bar["kind"] == "gain" else (bar["low"], bar["high"])
        if not shown(start).agrees(shown(level)):
            yield Contradiction(Kind.STEPS, f"chart steps, {bar['name']}", f"begins at {start:.4g}, not {level:.4g}")
        if (told := _time(bar.get("told", ""))) is not None and not told.agrees(_difference(start, end)):
            yield Contradiction(Kind.TWO_VALUES, f"chart steps, {bar['name']}", f"{bar['told']} for {start - end:.4g}")
        level = end
    if not shown(level).agrees(shown(bars[-1]["high"])):
        yield Contradiction(Kind.STEPS, "chart steps", f"ends at {level:.4g}, not {bars[-1]['high']:.4g}")


def _difference(start: float, end: float) -> Shown:
    one, other = shown(max(start, end)), shown(min(start, end))
    return Shown(one.low - other.high, one.high - other.low)


def _counts(page: Page) -> Iterator[Contradiction]:
    """How many candidates or trials there were: in a tile, in a heading, next to a chart."""
    counted: dict[str, dict[str, int]] = {}
    for text in (*(value for value, *_ in page.tiles.values()), *page.headings, *page.sentences):
        found = re.match(r"(\d+) (candidate|trial)s?\b", text) or re.match(r"All (trial)s \(([\d,]+)\)", text)
        if found:
            number, noun = found.groups() if found[1].isdigit() else reversed(found.groups())
            counted.setdefault(noun, {})[text[:40]] = int(number.replace(",", ""))
    for noun, counts in counted.items():
        if len(set(counts.values())) > 1:
            said = ", ".join(f"{count} ({text})" for text, count in counts.items())
            yield Contradiction(Kind.TWO_VALUES, f"number of {noun}s", said)


def _named(page: Page) -> Iterator[Contradiction]:
    """A trial has one latency, size and accuracy in all tables and charts."""
    seen: dict[tuple[str, str], tuple[str, Shown]] = {}
    for name, what, value, where in _figures(page):
        key = (name, what)
        if key not in seen:
            seen[key] = (where, value)
        elif not value.agrees(seen[key][1]):
            said = f"{what} of {name}: {seen[key][1]} in {seen[key][0]}, {value} in {where}"
            yield Contradiction(Kind.TWO_VALUES, name, said)


def _figures(page: Page) -> Iterator[tuple[str, str, Shown, str]]:
    for sheet in page.sheets:
        for row in sheet.rows:
            if (name := row.get("trial", "")) and (time := _time(row.get("latency", ""))) is not None:
                yield name, "latency", time, sheet.name
    for chart, values in page.charts.items():
        for value in values:
            if "@" in str(value.get("name", "")) and _is_number(value.get("x")):
                yield value["name"], "latency", shown(value["x"]), f"chart {chart}"


# --- a document, its session and its page ----------------------------------------------------------------------------


def _between(document: Data, trials: Trials, page: Page) -> Iterator[Contradiction]:
    for row in page.sheet("trials-table"):
        known, told = trials.ms(row.get("trial", "")), _time(row.get("latency", ""))
        if known is not None and told is not None and not told.agrees(shown(known)):
            yield Contradiction(Kind.TWO_VALUES, row["trial"], f"{row['latency']} and {known:.4g} ms")
    if document.get("best"):
        yield from _tuned(document, trials, page)
    else:
        yield from _words("headline", page.headline, document.get("verdict"))


def _tuned(document: Data, trials: Trials, page: Page) -> Iterator[Contradiction]:
    """What a tuning says of its choice, of its front and of their number."""
    best, said = document["best"], document["verdict"]
    if said.casefold() != page.headline.casefold():
        yield Contradiction(Kind.TWO_VALUES, "headline", f"{page.headline!r} and {said!r}")
    for step, row in zip(document.get("steps") or (), page.sheet("steps-table"), strict=False):
        yield from _words(f"steps-table, {step['practice']}", row.get("change", ""), step.get("verdict"))
    told = _FACTOR.search(page.tiles.get("Speedup", ("",))[0])
    if told is not None and best.get("verdict") == _UNDECIDED:
        yield Contradiction(Kind.WORDS, "tile Speedup", f"{told[0]}, though the verdict is {_UNDECIDED}")
    if told is not None and not printed(told[1]).agrees(shown(best["speedup"])):
        yield Contradiction(Kind.TWO_VALUES, "speedup", f"{told[0]} and {best['speedup']:.4g}")
    for entry in document["front"]:
        yield from _equal(f"front, {entry['id']}", entry["latency_ms"], trials.ms(entry["id"]))
    timed = page.tiles.get("Timed", ("",))[0]
    if timed and not timed.startswith(f"{document['trials']} "):
        yield Contradiction(Kind.TWO_VALUES, "trials", f"{timed} and {document['trials']}")
    for finding in document["verdicts"]:
        if finding["practice"] == "profile":
            # A run of the choice takes the same here; a profiled run is another quantity.
            facts = finding.get("facts") or {}
            told_ms = None if "run_ms" in facts else facts.get("latency_ms")
            yield from _equal("verdicts.profile", told_ms, best["latency_ms"])


# --- numbers ---------------------------------------------------------------------------------------------------------


def _time(text: str) -> Shown | None:
    """The first latency of a text, in milliseconds."""
    found = _TIME.search(text)
    return None if found is None else printed(found[1], _MS[found[2]])


def _median_ms(data: object) -> float | None:
    latency = data.get("latency") if isinstance(data, dict) else None
    value = latency.get("median_ms") if isinstance(latency, dict) else None
    return value if _is_number(value) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _walk(data: object, where: str = "") -> Iterator[tuple[str, Data]]:
    """Every dictionary inside, and where it stands."""
    if isinstance(data, dict):
        yield where, data
        for key, value in data.items():
            yield from _walk(value, f"{where}.{key}".lstrip("."))
    elif isinstance(data, list | tuple):
        for place, value in enumerate(data):
            yield from _walk(value, f"{where}[{place}]")


def _is_share(trials: Iterable[Data]) -> bool:
    """Whether accuracy is a share of the samples or pixels: of other metrics, the floor is a part of their value."""
    metrics = {(trial.get("accuracy") or {}).get("metric", "top-1") for trial in trials}
    return all(metric.startswith("top-") or metric == "miou" for metric in metrics)


def session_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a session file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def main(paths: Sequence[Path]) -> int:
    """List the contradictions of the files."""
    by_suffix = {path.suffix: path for path in paths}
    page, session = by_suffix.get(".html"), by_suffix.get(".jsonl")
    found = contradictions(
        json.loads(by_suffix[".json"].read_text(encoding="utf-8")),
        page.read_text(encoding="utf-8") if page else "",
        session_lines(session) if session else (),
    )
    print("\n".join(map(str, found)) or "no contradiction")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))

"""The phrases about the choice of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes, doubts
from hasten.core.accuracy import is_share, value_text
from hasten.core.comparison import Verdict
from hasten.core.floor import FloorState
from hasten.core.phrases import Phrase, Phrasebook, as_sentence
from hasten.core.units import first_few, interval_ms, memory, milliseconds, percentage_points, several, size, speedup
from hasten.practices.choose.facts import FLOAT, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LIMITS: Final = {
    "latency": "latency",
    "p95": "p95 latency",
    "init": "init time",
    "memory": "memory",
    "size": "size",
    "accuracy": "accuracy",
}
_TIMES: Final = ("latency", "p95", "init")
_DECIDED_BY: Final = {"latency": "measure longer (--seconds)", "accuracy": "give more samples"}
_MOST_NAMED: Final = 3
_WITHOUT: Final = {"fastest": "the fastest would be", "most accurate": "the most accurate would be"}
_GOALS: Final = {
    "fastest": "It is the fastest of {kept} that {keep} {limits}.",
    "most accurate": "It is the most accurate of {kept} that {keep} {limits}.",
    "knee": "It is at the knee of the Pareto front: beyond it, accuracy costs more time per point.",
}


def value_words(limit: str, value: float | None, metric: str) -> str:
    """A value of what a limit is about, with its unit."""
    if value is None:
        return "unknown"
    if limit in _TIMES:
        return milliseconds(value)
    if limit == "size":
        return size(round(value))
    if limit == "memory":
        return memory(value)
    return f"{value_text(metric, value)} {metric}".strip()


def limit_words(limit: Mapping[str, Any]) -> str:
    """`latency ≤ 20.0 ms`, `accuracy ≥ 70.0 % top-1`."""
    sign = "≥" if limit["at_least"] else "≤"
    return f"{_LIMITS[limit['limit']]} {sign} {value_words(limit['limit'], limit['asked'], limit['metric'])}"


def _limits(limits: Sequence[Mapping[str, Any]]) -> str:
    return " and ".join(map(limit_words, limits))


def accuracy_words(facts: Mapping[str, Any]) -> str:
    """`71.8 % top-1 (published)`."""
    if facts["accuracy"] is None:
        return "accuracy unknown"
    return f"{value_text(facts['metric'], facts['accuracy'])} {facts['metric']} ({facts['source']})"


def row_words(facts: Mapping[str, Any]) -> str:
    """What a model has: accuracy, latency and size."""
    latency = "not timed" if facts["latency_ms"] is None else f"{milliseconds(facts['latency_ms'])} on {facts['plan']}"
    return f"{accuracy_words(facts)}, {latency}, {size(facts['size'])}"


def _take(facts: Mapping[str, Any]) -> str:
    kept, undecided = facts["kept"], facts.get("undecided", 0)
    is_open = facts.get("verdict") == FloorState.UNDECIDED.value
    keep = "keeps" if kept == 1 else "keep"
    by = "" if not undecided else " by its estimate" if kept == 1 else " by their estimates"
    limits = _limits(facts["limits"])
    reason = _GOALS[facts["goal"]].format(kept=several(kept, "candidate"), keep=keep, limits=f"{limits}{by}")
    if kept == 1 and limits:
        reason = f"It is the only one of {several(facts['count'], 'candidate')} that {keep} {limits}{by}."
    open_limits = _open_limits(facts["limits"]) or ["accuracy"]  # earlier releases judged no other
    doubt = f" Whether it keeps the limit on {' and '.join(open_limits)} is undecided." if is_open else ""
    return f"Take {facts['name']}: {row_words(facts)}. {reason}{doubt}"


def _open_limits(limits: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(limit["limit"]) for limit in limits if limit.get("verdict") == FloorState.UNDECIDED.value]


def _get(facts: Mapping[str, Any]) -> str:
    limits = " Set --limit to choose by your own needs." if facts.get("goal") == "knee" else ""
    if facts["origin"] != Origin.CATALOGUE.value:
        return limits.strip()
    if not facts["obtainable"]:
        return f"The catalogue knows no trained file of it: train it, or search a model hub.{limits}"
    weights = f" ({facts['weights']})" if facts["weights"] else ""
    only = "" if facts["precision"] == FLOAT else f" --only {facts['precision']}"
    return f"Get trained weights{weights} with hasten choose --get {facts['model']}{only}.{limits}"


def _none(facts: Mapping[str, Any]) -> str:
    parts = []
    for limit in facts["limits"]:
        value = value_words(limit["limit"], limit["value"], limit["metric"])
        state = "kept" if limit["limit"] in facts["kept"] else "missed"
        state = FloorState.UNDECIDED.value if limit.get("verdict") == FloorState.UNDECIDED.value else state
        parts.append(f"{value} ({limit_words(limit)}: {state})")
    every = "the limit" if len(parts) == 1 else "all limits"
    keeps = "is proven to keep" if facts.get("undecided") else "keeps"
    tried = f"None of {several(facts['count'], 'candidate')} {keeps} {every}."
    return f"{tried} The nearest is {facts['nearest']['name']}: {', '.join(parts)}."


def _relax(facts: Mapping[str, Any]) -> str:
    ways = [_DECIDED_BY[limit] for limit in _open_limits(facts["limits"]) if facts.get("undecided")]
    text = f"{', '.join([*ways, 'relax a limit'])}, or add candidates."
    return text[0].upper() + text[1:]


def _cost(facts: Mapping[str, Any]) -> str:
    changes = []
    if "gain" in facts:
        gain = facts["gain"]
        changes.append(percentage_points(gain) if is_share(facts["metric"]) else f"{gain:+.3g}")
    if "ratio" in facts:
        changes.append(speedup(facts["ratio"]["ratio"]))
    told = f" ({', '.join(changes)})" if changes else ""
    best = _WITHOUT.get(facts.get("goal", ""), "take")
    return f"Without the limit {limit_words(facts['limit'])}, {best} {facts['name']}: {row_words(facts)}{told}."


def _unproven(facts: Mapping[str, Any]) -> str:
    limit = facts["limit"]
    value = value_words(limit, facts["value"], facts["metric"])
    low, high = facts["ci95"]
    interval = ""
    if low is not None and high is not None:
        ends = [value_text(facts["metric"], end) for end in (low, high)]
        interval = f" (95 % CI {interval_ms(low, high) if limit in _TIMES else f'{ends[0]}–{ends[1]}'})"
    samples = f" on {several(facts['samples'], 'sample')}" if "samples" in facts else ""
    needed = f" About {facts['needed']:,} samples would decide." if facts.get("needed") else ""
    return f"It is not proven that {facts['name']} keeps {limit_words(facts)}: {value}{interval}{samples}.{needed}"


def _more_data(facts: Mapping[str, Any]) -> str:
    return f"{_DECIDED_BY[facts['limit']].capitalize()}."


def _rivals(facts: Mapping[str, Any]) -> str:
    names = first_few(facts["rivals"], _MOST_NAMED)
    return f"{names} may be at least as good as {facts['name']} in accuracy and latency."


def _unknown(facts: Mapping[str, Any]) -> str:
    rows = [f"{row['name']} ({milliseconds(row['latency_ms'])})" for row in facts["rows"]]
    return f"Faster, but not chosen because the accuracy is unknown: {first_few(rows, _MOST_NAMED)}."


def _accuracy_unknown(facts: Mapping[str, Any]) -> str:
    fastest = facts["fastest"]
    timed = "" if fastest is None else f" The fastest is {fastest['name']}: {milliseconds(fastest['latency_ms'])}."
    kept = ""
    if limits := facts.get("limits"):
        which = f"{facts['kept']} of {several(facts['count'], 'candidate')}" if facts["kept"] else "No candidate"
        kept = f" {which} {'are' if facts['kept'] > 1 else 'is'} known to keep {_limits(limits)}."
    return f"Nothing can be chosen, because no accuracy is known.{kept}{timed}"


def _dominated(facts: Mapping[str, Any]) -> str:
    better = []
    if facts.get("gain") is not None:
        gain, metric = facts["gain"], facts["metric"]
        points = percentage_points(gain) if is_share(metric) else f"{gain:+.3g}"
        better.append("as accurate" if gain == 0 else f"more accurate ({points})")
    larger = (facts["winner_size"] > facts["size"]) - (facts["winner_size"] < facts["size"])
    better.append(f"{('as large', 'larger', 'smaller')[larger]} ({size(facts['winner_size'])})")
    if "ratio" not in facts:
        return f"{facts['than']} is {' and '.join(better)}."
    same = facts["verdict"] == Verdict.SAME.value
    speed = "as fast" if same else speedup(facts["ratio"]["ratio"], facts["ratio"]["ci95"])
    return f"{facts['than']} is {speed}, {' and '.join(better)}."


def _own_beaten(facts: Mapping[str, Any]) -> str:
    return f"Another model is better: {_dominated(facts)}"


def _own_fastest(facts: Mapping[str, Any]) -> str:
    unsure = facts.get("undecided", ())
    timed = f"No other model is proven faster: {several(facts['count'], 'candidate')} timed."
    return f"{timed} Undecided: {first_few(unsure, _MOST_NAMED)}." if unsure else timed


def _run_longer(facts: Mapping[str, Any]) -> str:
    return "Run hasten choose for longer." if facts.get("undecided") else ""


def _own_slower(facts: Mapping[str, Any]) -> str:
    faster = f"{several(facts['count'], 'model')} of the catalogue {'is' if facts['count'] == 1 else 'are'} faster"
    accurate = f"The most accurate of them is {facts['name']}: {row_words(facts)}."
    return f"{faster} than {facts['own']} ({milliseconds(facts['own_ms'])}). {accurate}"


PHRASES: Final[dict[str, Phrase]] = {
    "choose.not-examined": Phrase(
        "Other models were not examined.", "Add --also choose, with files for the task as --candidates."
    ),
    "choose.take": Phrase(_take, _get),
    "choose.none": Phrase(_none, _relax),
    "choose.accuracy-unknown": Phrase(_accuracy_unknown, "Give labeled data with --data."),
    "choose.cost": Phrase(_cost),
    "choose.unproven": Phrase(_unproven, _more_data),
    "choose.rivals": Phrase(_rivals, "Measure longer (--seconds), or give more samples."),
    "choose.unknown-faster": Phrase(
        _unknown, "Get the trained file, then measure it: hasten choose --candidates FILE --data DATA."
    ),
    "choose.published": Phrase(
        "Accuracies are published figures; --verbose names the weights. The models were timed with random weights,"
        " which hardly changes the latency.",
        "Give trained files with --candidates and your data with --data to measure them.",
    ),
    "choose.both-sources": Phrase(
        "Accuracies on {data} and published accuracies are never compared with each other: the choice is among the"
        " measured models."
    ),
    "choose.same-file": Phrase("{path} is the same model as another candidate, and was left out."),
    "choose.no-quantizer": Phrase("No file was quantized to int8. {message}", "{hint}"),
    "choose.no-accelerators": Phrase("There was no time to try accelerators.", "Measure longer (--seconds)."),
    "choose.stand-in": Phrase("The {name} here is {what}."),
    "choose.dominated": Phrase(_dominated),
    "choose.slower": Phrase(
        lambda facts: f"It is {speedup(facts['ratio']['ratio'], facts['ratio']['ci95'], facts['than'])}."
    ),
    "choose.not-timed": Phrase("It was not timed, because the time limit was reached.", "Measure longer (--seconds)."),
    "choose.failed": Phrase(lambda facts: as_sentence(facts["message"])),
    "choose.own-beaten": Phrase(_own_beaten, lambda facts: f"Tune {facts['name']} in its place."),
    "choose.own-best": Phrase(
        lambda facts: (
            f"No other model is at least as accurate and faster: {several(facts['count'], 'candidate')} compared."
        )
    ),
    "choose.own-rivals": Phrase(_rivals, "Give more samples, or run hasten choose for longer."),
    "choose.own-fastest": Phrase(_own_fastest, _run_longer),
    "choose.own-slower": Phrase(
        _own_slower,
        "Their accuracy on your data is not known. Give trained files with --candidates, or retrain one of them.",
    ),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES, accuracy_notes.PHRASES)

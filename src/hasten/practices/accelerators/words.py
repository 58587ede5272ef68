"""The phrases about accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.comparison import Verdict
from hasten.core.contention import BEYOND_LOAD
from hasten.core.goal import Goal
from hasten.core.phrases import Phrase, Phrasebook, as_sentence, filled
from hasten.core.remark import Remark, remark_from_data
from hasten.core.units import count, first_few, milliseconds, percent, several, speedup, times
from hasten.evaluate.trial_words import why_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.phrases import Template

_KERNELS: Final = {"reference": "the reference kernels", "builtin": "the built-in kernels", "xnnpack": "XNNPACK"}
_FAR: Final = 10.0
_REFUSED_NAMED: Final = 4
_LONGEST_MESSAGE: Final = 240
_LONGER: Final = "Measure longer (--seconds)."
_GO_ON: Final = "Continue with --resume and a larger --budget."
_IDLE: Final = "Run hasten accelerators on an idle machine, or raise --budget."
# From this ratio on, a factor reads better than a percentage.
_SHOWN_AS_FACTOR: Final = 2.0


def error_words(error: float) -> str:
    """An error as a share of the outputs' range."""
    return f"{percent(error)} of" if error < _FAR else "more than ten times"


def _parts(facts: Mapping[str, Any]) -> str:
    return " ".join(BOOK.text(remark_from_data(part)) for part in facts["parts"])


def _failed(facts: Mapping[str, Any]) -> str:
    """The failure's sentence, cut where an engine says too much, and what helps."""
    message = facts["message"]
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE].rsplit(" ", 1)[0] + " …"
    return f"{as_sentence(message)} {facts['hint']}".strip()


def _imprecise(facts: Mapping[str, Any]) -> str:
    tipped = (
        " They are choices (such as a class index), which a small rounding error can change."
        if facts["chooses"]
        else ""
    )
    return f"Some outputs are off by {error_words(facts['error'])} their range.{tipped} Test its accuracy first."


def _names(keys: Sequence[str]) -> str:
    return " and ".join(_KERNELS[key] for key in keys)


def _compared(facts: Mapping[str, Any]) -> str:
    yardstick = f" with {_KERNELS[facts['yardstick']]}" if facts["yardstick"] else ""
    absent = f", because {_names(facts['absent'])} did not run" if facts["absent"] else ""
    return f"compared{yardstick} on {facts['inputs']}{absent}"


def _not_compared(facts: Mapping[str, Any]) -> str:
    ran = facts["ran"]
    why = "no CPU kernels ran" if len(ran) > 1 else f"only {ran[0]} ran" if ran else "nothing ran"
    return f"not compared: {why}"


def _where(facts: Mapping[str, Any]) -> str:
    return "the engine's own kernels" if facts["on_cpu"] else "the CPU"


def _left(facts: Mapping[str, Any]) -> str:
    return f"Left to {_where(facts)}: {first_few(facts['operators'], _REFUSED_NAMED)}."


def _left_count(facts: Mapping[str, Any]) -> str:
    left = several(facts["count"], "operator")
    return f"Left to {_where(facts)}: {left}; the compiler does not report which."


def _speed_words(facts: Mapping[str, Any]) -> str:
    ratio, ends = facts["ratio"]["ratio"], facts["ratio"]["ci95"]
    verdict, rival = Verdict(facts["verdict"]), _rival(facts)
    if verdict is Verdict.SAME:
        return f"as fast as {rival}"
    if verdict is not Verdict.UNDECIDED:
        return f"{speedup(ratio, ends)} than {rival}"
    if ratio > BEYOND_LOAD:
        return f"about {times(ratio)} slower than {rival}"
    return f"undecided, so far {speedup(ratio)} than {rival}"


def _rival(facts: Mapping[str, Any]) -> str:
    """XNNPACK, with its threads where it ran with several counts."""
    return f"XNNPACK with {several(facts['cpu_threads'], 'thread')}" if "cpu_threads" in facts else "XNNPACK"


def _repaid(facts: Mapping[str, Any]) -> str:
    if not facts["break_even_runs"]:
        return ""
    return f" Its start-up is repaid after {several(facts['break_even_runs'], 'run')}."


def _speed(facts: Mapping[str, Any]) -> str:
    said = _speed_words(facts)
    unsure = Verdict(facts["verdict"]) is Verdict.UNDECIDED and facts["ratio"]["ratio"] <= BEYOND_LOAD
    return f"{said[:1].upper()}{said[1:]}.{_repaid(facts)}" + (f" {_LONGER}" if unsure else "")


def _use(facts: Mapping[str, Any]) -> str:
    if facts.get("error") is not None:  # an older release recommended it all the same
        return _condition(facts)
    text = f"Use {facts['name']}: {_speed_words(facts)}.{_repaid(facts)}"
    if "off" in facts:
        text += f" Some outputs differ by {error_words(facts['off'])} their range."
    if facts["more_cores"]:
        text += f" {BOOK.text(Remark(doubts.MORE_CORES, facts['more_cores']))}"
    return f"{text}{_conditional(facts)}"


def _condition(facts: Mapping[str, Any]) -> str:
    off = f"but some outputs differ by {error_words(facts['error'])} their range"
    return f"{facts['name']} is {_speed_words(facts)}, {off}: use it only if its accuracy holds on your data."


def _conditional(facts: Mapping[str, Any]) -> str:
    return "".join(f" {_condition(row)}" for row in facts.get("conditional", ()))


def _to_do(facts: Mapping[str, Any]) -> str:
    """The options of what is recommended; or how to test what is faster, but perhaps not good enough."""
    if facts.get("error") is None and "settings" in facts:
        return f"Run the model with {facts['settings']}." + (f" {_LONGER}" if facts.get("undecided") else "")
    if facts.get("conditional") or facts.get("error") is not None:
        return "Test its accuracy with labeled data: hasten tune MODEL --data DATA."
    return _LONGER if facts.get("undecided") else ""


def _stay(facts: Mapping[str, Any]) -> str:
    tried = f" Tried: {', '.join(facts['tried'])}." if facts["tried"] else ""
    names = ", ".join(facts.get("untrusted", ()))  # how an older release told of them
    untrusted = f" Faster, but test their accuracy first: {names}." if names else ""
    proven = "proven both faster and right" if facts.get("conditional") or names else "proven faster"
    stay = f"Stay with XNNPACK on the CPU: nothing else is {proven}."
    if "all_cores" in facts:
        threads, gain = _gain(facts["all_cores"])
        stay = f"Stay with XNNPACK on the CPU, but use {threads}: {gain}. Nothing else is {proven}."
    return f"{stay}{_undecided(facts)}{tried}{untrusted}{_conditional(facts)}"


def _gain(all_cores: Mapping[str, Any]) -> tuple[str, str]:
    """How many threads XNNPACK is faster with, and by how much."""
    return several(all_cores["threads"], "thread"), _speed_words(all_cores)


def _undecided(facts: Mapping[str, Any]) -> str:
    rows = [f"{row['name']} (so far {_so_far(row)})" for row in facts.get("undecided", ())]
    return f" Undecided: {', '.join(rows)}." if rows else ""


def _so_far(row: Mapping[str, Any]) -> str:
    return speedup(row["ratio"]["ratio"], than=_rival(row) if "cpu_threads" in row else "")


def _without_base(text: Template) -> Phrase:
    """A sentence, and why XNNPACK is out of the question."""

    def told(facts: Mapping[str, Any]) -> str:
        first = filled(text, facts)
        if "base_why" not in facts:
            return f"{first} XNNPACK was not timed."
        why = BOOK.text(remark_from_data(facts["base_why"]))
        trouble = "XNNPACK is wrong." if facts.get("base_ran") else "XNNPACK does not run this model."
        return f"{first} {trouble} {why}".rstrip()

    return Phrase(told, _to_do)


def _unchecked(facts: Mapping[str, Any]) -> str:
    runs, its = ("runs", "its") if len(facts["names"]) == 1 else ("run", "their")
    return f"Only {', '.join(facts['names'])} {runs} this model, and {its} outputs are wrong or cannot be checked."


def _none_here(facts: Mapping[str, Any]) -> str:
    told = [f"{row['name'].upper()}: {BOOK.text(remark_from_data(row))}" for row in facts["rows"]]
    if "all_cores" in facts:
        threads, gain = _gain(facts["all_cores"])
        told.append(f"XNNPACK with {threads} is {gain}.")
    return " ".join(["No accelerator runs the model on this machine.", *told])


def _raced(facts: Mapping[str, Any]) -> str:
    than = f" than {several(facts['threads'], 'thread')}" if "threads" in facts else ""
    unsure = facts.get("undecided", ())
    rows = [(row["name"], _raced_row(row, than, "so far " if row["name"] in unsure else "")) for row in facts["rows"]]
    return " ".join(f"{name.upper()}: {told}" for name, told in rows)


def _raced_row(row: Mapping[str, Any], other: str, so_far: str) -> str:
    if row["median_ms"] is None:
        return as_sentence(why_words(row["why"]) or "it was not tried yet")
    ratio = row["ratio"]
    than = "" if ratio is None else f" ({so_far}{_against_best(ratio)}{other})"
    why = f" {as_sentence(why_words(row['why']))}" if row["why"] and ratio is not None and ratio < 1 else ""
    return f"{milliseconds(row['median_ms'])}{than}.{why}"


def _beaten(facts: Mapping[str, Any]) -> str:
    return "the CPU" if "threads" in facts else "the chosen plan"


def _left_out(facts: Mapping[str, Any]) -> str:
    reason = "it was not chosen"
    if "limit" in facts:
        limited = Goal(facts["limit"])
        value, asked = limited.written(facts["value"]), limited.written(facts["asked"])
        reason = f"its {limited.value} of {value} is beyond the limit of {asked}"
    elif "goal" in facts:
        reason = f"the goal is {facts['goal']}, not latency"
    return f"The {facts['faster'].upper()} is faster than {_beaten(facts)}, but {reason}. {_raced(facts)}"


def _chosen(facts: Mapping[str, Any]) -> str:
    here = f"The choice runs on the {facts['name'].upper()}: {milliseconds(facts['median_ms'])}"
    if "cpu_ms" not in facts:
        return f"{here}. The same model was not timed on the CPU."
    doubt = " Which is faster is undecided." if facts["undecided"] else ""
    return f"{here}; on the CPU with {several(facts['threads'], 'thread')}: {milliseconds(facts['cpu_ms'])}.{doubt}"


def _chosen_and_raced(facts: Mapping[str, Any]) -> str:
    others = facts["rows"]
    return f"{_chosen(facts)} {_raced({'rows': others})}" if others else _chosen(facts)


def _open(facts: Mapping[str, Any]) -> str:
    """Which of them is undecided, where others are decided; sessions from before it was told have all in one."""
    names = [f"the {name.upper()}" for name in facts.get("undecided", ())]
    if not names or len(names) == len(facts["rows"]):
        return "an accelerator beats"
    return f"{' or '.join(names)} beats"


def _against_best(ratio: float) -> str:
    """`22 % slower`, `3.1× slower`, `1.60× faster`."""
    return f"{percent(ratio - 1)} slower" if 1 < ratio < _SHOWN_AS_FACTOR else speedup(ratio)


def _pays_at(facts: Mapping[str, Any]) -> str:
    sizes = {
        "proven faster": facts["faster"],
        "undecided": facts["undecided"],
        "not faster": sorted([*facts["same"], *facts["slower"]]),
    }
    at = "{what} at {sizes:list} MACs"
    told = [filled(at, {"what": what, "sizes": [*map(count, macs)]}) for what, macs in sizes.items() if macs]
    return f"It is {', '.join(told)}."


def _vendor(facts: Mapping[str, Any]) -> str:
    first = f"Its compiler plugin {facts['compiler']} is installed"
    if facts["dispatch"]:
        return f"{first}, and so is its dispatch library {facts['dispatch']}, but hasten cannot drive it yet."
    return (
        f"{first}, but ai_edge_litert has no dispatch library (vendors/{facts['name']}/dispatch/libLiteRtDispatch*.so)."
    )


PHRASES: Final[dict[str, Phrase]] = {
    "accelerators.parts": Phrase(_parts),
    "accelerators.failed": Phrase(_failed),
    "accelerators.failed-later": Phrase(
        lambda facts: f"It failed after {several(facts['rounds'], 'round')}: {_failed(facts)}"
    ),
    "accelerators.vendor": Phrase(_vendor),
    "accelerators.no-numbers": Phrase(
        "Do not use it: its outputs are not numbers, or differ in size from the expected ones."
    ),
    "accelerators.wrong": Phrase(
        lambda facts: f"Do not use it: its outputs are off by {error_words(facts['error'])} their range."
    ),
    "accelerators.imprecise": Phrase(_imprecise),
    "accelerators.outputs-change": Phrase("Its first outputs were right, and those after some hundred runs were not."),
    "accelerators.choices": Phrase(
        "Its outputs are choices that rounding also changes on the CPU, so their error says little."
    ),
    "accelerators.compared": Phrase(_compared),
    "accelerators.not-compared": Phrase(_not_compared),
    "accelerators.left": Phrase(_left),
    "accelerators.left-count": Phrase(_left_count),
    "accelerators.placement-unknown": Phrase("LiteRT does not report which operators it takes."),
    "accelerators.speed": Phrase(_speed),
    "accelerators.cached": Phrase("It starts in {start_ms:ms}, or in {cached_ms:ms} with a filled cache."),
    "accelerators.stand-in": Phrase("This is {what}."),
    "accelerators.use": Phrase(_use, _to_do),
    "accelerators.stay": Phrase(_stay, _to_do),
    "accelerators.use-fastest": _without_base("Use {name}, the fastest that runs this model correctly."),
    "accelerators.unchecked": _without_base(_unchecked),
    "accelerators.nothing-runs": _without_base("Nothing on this machine runs this model."),
    "accelerators.none-here": Phrase(_none_here, _to_do),
    "accelerators.pays-unknown": Phrase("The network size from which it pays off is unknown."),
    "accelerators.pays-nowhere": Phrase(
        "It does not pay off at any size from {smallest:large} to {largest:large} MACs."
    ),
    "accelerators.pays-at": Phrase(_pays_at),
    "accelerators.pays-everywhere": Phrase("It pays off at every size tried, from {smallest:large} MACs up."),
    "accelerators.pays-from": Phrase("It pays off from {macs:large} MACs up; at {below:large} this is not proven."),
    "accelerators.ladder-failed": Phrase(
        lambda facts: f"It failed at {count(facts['macs'])} MACs: {_failed({**facts, 'hint': ''})}"
    ),
    "accelerators.not-examined": Phrase("No accelerator was tried.", "Run hasten accelerators."),
    "accelerators.none-runs": Phrase(lambda facts: f"No accelerator runs the model on this machine. {_raced(facts)}"),
    "accelerators.none-timed": Phrase(lambda facts: f"No accelerator was timed yet. {_raced(facts)}", _GO_ON),
    "accelerators.no-data": Phrase(
        lambda facts: f"{_raced(facts)} Without data, nothing shows that its answers are right.",
        "Give labeled data with --data.",
    ),
    "accelerators.none-accurate": Phrase(
        lambda facts: f"No accelerator beats {_beaten(facts)} and keeps the accuracy. {_raced(facts)}"
    ),
    "accelerators.undecided": Phrase(
        lambda facts: f"Whether {_open(facts)} {_beaten(facts)} is undecided. {_raced(facts)}", _IDLE
    ),
    "accelerators.left-out": Phrase(_left_out),
    "accelerators.choice": Phrase(_chosen_and_raced),
    "accelerators.choice-alone": Phrase(_chosen_and_raced, _IDLE),
    "accelerators.choice-undecided": Phrase(_chosen_and_raced, _IDLE),
    "accelerators.none-faster": Phrase(lambda facts: f"No accelerator beats {_beaten(facts)}. {_raced(facts)}"),
}
BOOK: Final = Phrasebook(PHRASES, doubts.PHRASES)

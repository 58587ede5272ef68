"""The phrases about operators: single ones, rewrites, and what was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import doubts
from hasten.core.phrases import Phrase, Phrasebook, filled
from hasten.core.units import first_few, milliseconds, percent, several, speedup
from hasten.custom_kernels import words as kernel_words

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_NAME: Final = 48
_NAMES_TOLD: Final = 4


def _where(facts: Mapping[str, Any]) -> str:
    """Converters join the names of all that was fused into an operator; the first one is enough to find it."""
    first = facts["location"].partition(";")[0]
    short = first if len(first) <= _LONGEST_NAME else f"…{first[-_LONGEST_NAME:]}"
    return f"{facts['op']} at {short}" if short else str(facts["op"])


def _phrase(text: str, hint: str = "") -> Phrase:
    return Phrase(lambda facts: filled(text, {**facts, "where": _where(facts)}), hint)


def _rewritten(facts: Mapping[str, Any]) -> str:
    times = f"{milliseconds(facts['from_ms'])} → {milliseconds(facts['to_ms'])}"
    names = first_few(facts["rewrites"], _NAMES_TOLD)
    dropped = facts.get("dropped", ())  # sessions from before it was told have none
    without = f" It lacks {several(len(dropped), 'output')}: {first_few(dropped, _NAMES_TOLD)}." if dropped else ""
    return f"The rewritten model is {speedup(facts['ratio'], facts['ci95'])}: {times} ({names}).{without}"


def _use(facts: Mapping[str, Any]) -> str:
    if not facts.get("path"):
        return "Write it with the option -o OUT."
    told = f"Use {facts['path']} in place of the original"
    return f"{told} where the application reads none of these." if facts["dropped"] else f"{told}."


def _came_to(facts: Mapping[str, Any]) -> str:
    if facts.get("only_together"):  # sessions from before it was told have none
        return ", together they are no faster" if not facts.get("failed") else ", together the others are no faster"
    return ", none was faster" if not facts.get("failed") else ", none of the others was faster"


def _nothing(facts: Mapping[str, Any]) -> str:
    if facts["tried"]:
        failed = f", {facts['failed']} failed" if facts.get("failed") else ""
        all_failed = facts.get("failed") == facts["tried"]
        came_to = "" if all_failed else _came_to(facts)
        first = f"Nothing to gain by rewriting: {several(facts['tried'], 'rewrite')} applied{failed}{came_to}."
    else:
        first = "Nothing to gain by rewriting: no rewrite applies to this graph."
    if "op" not in facts or facts["share"] <= 0:
        return first
    return f"{first} The largest headroom of one kind is {percent(facts['share'])} of a run: {_where(facts)}."


def _refused(facts: Mapping[str, Any]) -> str:
    names = first_few(facts["kernels"], _NAMES_TOLD)
    if len(facts["kernels"]) == 1:
        return f"{names} is refused: it fails, or it computes other results than the operators that it replaces."
    return f"{names} are refused: they fail, or they compute other results than the operators that they replace."


def _error(facts: Mapping[str, Any]) -> str:
    allowed = f"{facts['tolerance']:.0e} is allowed" if facts["tolerance"] else "they must be equal"
    return f"Outputs differ by {facts['error']:.1e} of the largest output; {allowed}."


PHRASES: Final[dict[str, Phrase]] = {
    "operators.not-examined": Phrase("No profile was recorded, so no operator can be judged.", "Run hasten profile."),
    "operators.unseen": Phrase(
        "The profiler sees too little of the run to judge single operators.",
        "Run hasten operators on the same plan: it times layers or ranges of nodes.",
    ),
    "operators.no-peaks": Phrase(
        "What its operators could gain is unknown: this machine's peak was not measured.", "Run hasten profile."
    ),
    "operators.no-headroom": Phrase(
        "What its operators could gain is unknown: none of them can be held against this machine's peak.",
        "Run hasten profile to see what is known.",
    ),
    "operators.no-counters": Phrase("OpenVINO's counters are not known, so ranges of nodes were timed: {message}"),
    "operators.not-profiled": Phrase("Operator times are not known: {message}"),
    "operators.little": _phrase(
        "No single operator could save 10 % of a run. The largest headroom is {share:percent}: {where}."
    ),
    "operators.much": _phrase(
        "{where} could save up to {headroom_ms:ms} of the {run_ms:ms} of a run, measured against this machine's peak.",
        "Run hasten operators: it tries rewrites of the graph.",
    ),
    "operators.rewriting-no-gain": Phrase("Rewriting the graph does not make the model faster on this device."),
    "operators.rewriting-undecided": Phrase(
        "Whether rewriting the graph pays is undecided.", "Run hasten operators, or give it more time with --budget."
    ),
    # What a study comes to.
    "operators.rewritten": Phrase(_rewritten, _use),
    "operators.undecided-all": Phrase(
        lambda facts: f"No rewrite is proven faster. Undecided: {first_few(facts['rewrites'], _NAMES_TOLD)}.",
        "Give it more time with --seconds.",
    ),
    "operators.nothing-to-gain": Phrase(_nothing),
    "operators.kernels-refused": Phrase(_refused, "Correct what the table says, and run the command again."),
    # Why something that was tried is kept or not.
    "operators.faster": Phrase("It is faster."),
    "operators.slower": Phrase("It is slower."),
    "operators.same": Phrase("It is no faster."),
    "operators.undecided": Phrase("Its effect is undecided after {rounds:count round}."),
    "operators.not-alone": Phrase("It was timed only together with the others."),
    "operators.not-equal": Phrase(_error),
    "operators.failed": Phrase("The rewritten model does not run. {message}"),
    "operators.not-confirmed": Phrase("Fresh processes do not confirm it ({verdict})."),
}
BOOK: Final = Phrasebook(PHRASES, kernel_words.PHRASES, doubts.PHRASES)

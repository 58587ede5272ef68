"""The phrases about other releases of LiteRT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core.phrases import Phrase

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROBLEMS: Final = {
    "slow": ("is slower", "are slower"),
    "wrong": ("gives wrong outputs", "give wrong outputs"),
    "crash": ("fails", "fail"),
}


def _verb(facts: Mapping[str, Any], several: bool = False) -> str:
    return _PROBLEMS[facts["problem"]][several]


def _unknown(facts: Mapping[str, Any]) -> str:
    return f" Not known for {', '.join(facts['unknown'])}." if facts["unknown"] else ""


def _since(facts: Mapping[str, Any]) -> str:
    return f"LiteRT {facts['release']} {_verb(facts)}; {facts['before']} does not.{_unknown(facts)}"


def _fixed(facts: Mapping[str, Any]) -> str:
    return f"LiteRT {facts['before']} {_verb(facts)}; {facts['release']} no longer does.{_unknown(facts)}"


def _listed(facts: Mapping[str, Any]) -> str:
    return ", ".join(facts["releases"])


PHRASES: Final[dict[str, Phrase]] = {
    "releases.since": Phrase(_since),
    "releases.fixed": Phrase(_fixed, lambda facts: f"Update to LiteRT {facts['release']}."),
    "releases.all": Phrase(
        lambda facts: f"All releases that were tried {_verb(facts, True)}: {_listed(facts)}.{_unknown(facts)}"
    ),
    "releases.none": Phrase(lambda facts: f"No release {_verb(facts)}: {_listed(facts)}.{_unknown(facts)}"),
    "releases.mixed": Phrase(
        lambda facts: f"LiteRT {_listed(facts)} {_verb(facts, True)}, others between them do not.{_unknown(facts)}"
    ),
    "releases.unknown": Phrase(
        lambda facts: f"No release could tell.{_unknown(facts)}", "Read the log of each release in the JSON document."
    ),
}

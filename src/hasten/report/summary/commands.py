"""Commands as they can be pasted into a shell: a model with its plan, and what times a line of the session again."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from hasten.core.cores import cores_text
from hasten.core.plan import Plan
from hasten.report.summary.reading import at, items, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hasten.core.session import Line

ORIGINAL: Final = "original"


def plan_text(plan: object) -> str:
    """A plan as a model's name takes it after @: only what differs from the default."""
    if not isinstance(plan, dict):
        return ""
    parts = []
    for item in fields(Plan):
        value, usual = plan.get(item.name, item.default), item.default
        if item.name == "options":
            parts += [f"{pair[0]}={pair[1]}" for pair in items(plan, "options") if len(pair) == 2]
        elif item.name == "cores":
            parts += [f"cores={cores_text(tuple(value))}"] if value else []
        elif value != usual:
            parts.append(f"{item.name}={value}")
    return ",".join(parts)


def candidate(model: str, plan: object) -> str:
    """A model with its plan, quoted for a shell."""
    told = plan_text(plan)
    return shlex.quote(f"{model}@{told}" if told else model)


def variant_paths(lines: Iterable[Line], result: dict[str, Any] | None, model: str) -> dict[str, str]:
    """Where the files of the variants are, as far as the session tells."""
    paths = {ORIGINAL: model} if model else {}
    for line in lines:
        if line.kind == "variant" and text(line.data, "path"):
            paths[line.label] = text(line.data, "path")
    best, path = text(result, "best", "variant"), text(result, "best", "model")
    return {**paths, best: path} if best and path else paths


def command_of(line: Line, paths: Mapping[str, str]) -> str:
    """The command that times again what this line is about; empty if the file is not known."""
    data = line.data
    if line.kind == "measurement":
        return f"hasten bench {candidate(text(data, 'model', 'path'), at(data, 'plan'))}"
    if line.kind == "trial" and (path := paths.get(text(data, "variant"), "")):
        return f"hasten bench {candidate(path, at(data, 'plan'))}"
    if line.kind == "variant" and text(data, "path"):
        return f"hasten bench {candidate(text(data, 'path'), {})}"
    return ""

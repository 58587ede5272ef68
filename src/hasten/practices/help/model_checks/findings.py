"""What the checks of a model look at, and the few ways to word a result: good, could be better, broken, or that it does
not apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.remark import remark
from hasten.practices.help.facts import Check, Status

if TYPE_CHECKING:
    from collections.abc import Collection

    from hasten.core.profile import Profile
    from hasten.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Subject:
    """A model file, and where its time goes if that was measured."""

    graph: Graph
    profile: Profile | None = None

    def cost(self, nodes: Collection[int]) -> dict[str, Any]:
        """What nodes of the main graph cost in a run, as facts; nothing where it was not measured."""
        if self.profile is None or not self.profile.is_mostly_seen:
            return {}
        ms = sum(operator.ms for operator in self.profile.operators if operator.index in nodes)
        return {"ms": ms, "share": self.profile.share(ms)}


def good(name: str, code: str, /, **facts: Any) -> Check:
    """Nothing to do."""
    return Check(name, Status.GOOD, remark(code, **facts))


def not_applicable(name: str, code: str, /, **facts: Any) -> Check:
    """Nothing that is asked of such a model."""
    return Check(name, Status.NOT_APPLICABLE, remark(code, **facts))


def better(name: str, code: str, /, **facts: Any) -> Check:
    """Something that costs time, memory or numbers."""
    return Check(name, Status.BETTER, remark(code, **facts))


def broken(name: str, code: str, /, **facts: Any) -> Check:
    """Something that must be mended before the model is used."""
    return Check(name, Status.BROKEN, remark(code, **facts))

"""What a minimization found: the smallest part of a model that still shows a problem."""

from __future__ import annotations

from typing import Final

from hasten.core.codec import record, sentence
from hasten.core.remark import Remark

SLOW, WRONG, CRASH = "slow", "wrong", "crash"
PROBLEMS: Final = (SLOW, WRONG, CRASH)


@record
class Minimized:
    """A problem, and the nodes of the original that are enough to show it."""

    problem: str
    shown: bool
    """Whether the whole model shows the problem at all."""
    total: int
    """How many nodes the whole model has."""
    nodes: tuple[int, ...]
    operators: tuple[str, ...]
    """Their kinds, in the same order."""
    tests: int
    """How many parts were tried, in processes of their own."""
    remembered: int = 0
    """How many of them an earlier run had tried."""
    whole: Remark = sentence(default=Remark(""))
    """What the whole model shows."""
    part: Remark = sentence(default=Remark(""))
    """What the smallest part shows."""
    against: str = ""
    """The plan that does it right; empty where there is none."""
    private_shows: bool | None = None
    """Whether the part still shows it with random weights; None where that was not asked, or could not be told."""
    complete: bool = True
    """False where the time was over, or Ctrl-C came, before no smaller part was left to try."""

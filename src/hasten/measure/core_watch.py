"""Waits while somebody else shares a core of the machine that is measured, as long as that is worth it.

Two threads are as fast as the slower of their cores: next to another virtual machine on the same physical core, plans
and variants change places. Where that is an exception, it is waited out, so that a round also has blocks at full speed:
its level is that of the quickest ones. Where it is the rule, that is how fast the machine is.
"""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hasten.core.block import is_slowed, quickest_core_us
from hasten.measure.schedule import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.block import Block
    from hasten.core.machine import Machine

_PAUSE_S: Final = 0.2
# A machine that is never left alone must not take all the time of a measurement.
_FIRST_S: Final = 0.5
_SHARE: Final = 0.1
_EXCEPTION: Final = 0.5
_LONGEST_S: Final = 15.0


@dataclass(slots=True)
class CoreWatch:
    """What is known of a machine's cores, and how long they were waited for."""

    quickest_us: float = math.inf
    begin: float = field(default_factory=now)
    waited_s: float = 0.0
    _in_a_row_s: float = 0.0
    _looks: int = 0
    _slowed: int = 0

    def pauses(self, blocks: Sequence[Block]) -> bool:
        """Whether a core was slowed during these blocks and there was time to wait: they are best taken once more."""
        conditions = [block.conditions for block in blocks]
        self.quickest_us = min(self.quickest_us, quickest_core_us(conditions))
        slowed = any(is_slowed(item, self.quickest_us) for item in conditions)
        self._looks, self._slowed = self._looks + 1, self._slowed + slowed
        if not slowed or self._slowed > 1 + _EXCEPTION * self._looks:
            self._in_a_row_s = 0.0
            return False
        spent = sum(item.wall_seconds for item in conditions) + _PAUSE_S
        most = _FIRST_S + _SHARE * (now() - self.begin)
        if self.waited_s + spent > most or self._in_a_row_s + spent > _LONGEST_S:
            return False
        time.sleep(_PAUSE_S)
        self.waited_s += spent
        self._in_a_row_s += spent
        return True


def watch_of(machine: Machine) -> CoreWatch:
    """The watch of a machine, for as long as this process lives: how fast its cores can be does not change."""
    return _watch(machine.platform, machine.cpu, machine.cores)


@functools.cache
def _watch(platform: str, cpu: str, cores: int) -> CoreWatch:
    return CoreWatch()

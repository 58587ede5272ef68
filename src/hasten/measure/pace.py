"""How much slower the machine was in each turn of a round that two candidates shared.

Another virtual machine on the same physical core slows runs by 1.5 to 1.9 times, for hundredths of a second, again and
again. Two candidates whose turns of some milliseconds follow each other are slowed alike: the median of their ratios
within turns is steady where their times are not. It is that of their levels, once what slowed both is taken out.
"""

from __future__ import annotations

from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_FEWEST_TURNS: Final = 5
_TENTHS: Final = 10
# A session holds thousands of them.
_DIGITS: Final = 4


def slowdowns(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """For each turn that both took, how much longer runs took than in the quickest tenth of these turns (a natural
    logarithm), by the logarithms of both candidates' times. Nothing where turns are few."""
    paces = [fmean(pair) for pair in zip(first, second, strict=False)]
    if len(paces) < _FEWEST_TURNS:
        return []
    quickest = quantiles(paces, n=_TENTHS, method="inclusive")[0]
    return [round(pace - quickest, _DIGITS) for pace in paces]

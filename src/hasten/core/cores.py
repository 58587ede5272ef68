"""Sets of processor cores as people write them: `0-3+6`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Linux itself stops at 8192; a larger number is a slip of the finger.
_MOST_CORES: Final = 8192


def cores_from_text(text: str) -> tuple[int, ...]:
    """The core numbers of `0-3+6`; nothing at all means every core."""
    found: set[int] = set()
    for part in filter(None, text.strip().split("+")):
        first, is_range, last = part.partition("-")
        ends = (first, last if is_range else first)
        if not all(end.strip().isdecimal() and int(end) < _MOST_CORES for end in ends) or int(ends[0]) > int(ends[1]):
            raise UsageError(f"The cores {text!r} cannot be read.", "Write core numbers and ranges, for example 0-3+6.")
        found.update(range(int(ends[0]), int(ends[1]) + 1))
    return tuple(sorted(found))


def cores_text(cores: Iterable[int]) -> str:
    """The cores in the same words, ranges put together."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return "+".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def checked_cores(cores: Iterable[int]) -> tuple[int, ...]:
    """The cores in order, each once."""
    try:
        found = tuple(sorted(set(cores)))
    except TypeError:
        found = (-1,)
    if any(not isinstance(core, int) or not 0 <= core < _MOST_CORES for core in found):
        raise UsageError(
            f"The value of cores cannot be {cores!r}.", "Write core numbers and ranges, for example 0-3+6."
        )
    return found

"""Numbers as people read them: three significant digits and a unit that fits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# Ends that lie further apart than this factor come from two or three values that differ wildly. As numbers they would
# look like knowledge.
_TOO_WIDE: Final = 10.0
_TELLS_NOTHING: Final = "too wide to tell"
# Ends of ratios that would print alike get up to this many decimals more.
_MORE_DECIMALS: Final = 2
_ROUNDING: Final = 1e-6


def tells(low: float, high: float) -> bool:
    """Whether the interval of a quantity that is above 0 (a time, a ratio of times) tells anything about it."""
    return math.isfinite(low) and math.isfinite(high) and 0 <= low <= high <= _TOO_WIDE * low


def milliseconds(value: float) -> str:
    """A time given in milliseconds."""
    if not math.isfinite(value):
        return "unknown"
    if value < 0:
        return f"−{milliseconds(-value)}"
    if value >= 10_000:
        return f"{_digits(value / 1e3)} s"
    if value >= 0.1 or value == 0:
        return f"{_digits(value)} ms"
    return f"{_digits(value * 1e3)} µs"


def interval_ms(low: float, high: float) -> str:
    """An interval of times, in one unit: that of its upper end, with digits enough to tell the ends apart."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "unknown"
    if not tells(low, high):
        return _TELLS_NOTHING
    scale, unit, decimals = _digits_of_interval(low, high)
    return f"{low * scale:.{decimals}f}–{high * scale:.{decimals}f} {unit}"


def milliseconds_within(value: float, low: float, high: float) -> str:
    """A time with the digits of its interval, so that it lies inside as printed: 1.7524 ms in 1.7503–1.7559 ms."""
    if not (math.isfinite(low) and math.isfinite(high)) or not tells(low, high):
        return milliseconds(value)
    scale, unit, decimals = _digits_of_interval(low, high)
    return f"{value * scale:.{decimals}f} {unit}"


def _digits_of_interval(low: float, high: float) -> tuple[float, str, int]:
    """The scale and the unit of an interval's upper end, and the decimals that tell the ends apart."""
    scale, unit = (1e-3, "s") if high >= 10_000 else (1.0, "ms") if high >= 0.1 else (1e3, "µs")
    low, high = low * scale, high * scale
    width = high - low
    decimals = 0 if width <= 0 else max(0, min(6, 1 - math.floor(math.log10(width))))
    return scale, unit, max(decimals, 2 - math.floor(math.log10(high)) if high > 0 else 0, 0)


def cost_interval_ms(low: float, high: float) -> str:
    """The interval of what something costs, which may be nothing: then only its upper end tells something."""
    if not (math.isfinite(low) and math.isfinite(high)) or high < 0:
        return "unknown"
    return interval_ms(low, high) if tells(low, high) else f"at most {milliseconds(high)}"


def ratio_interval(ci95: Sequence[float | None], digits: int = 2) -> str:
    """The 95 % interval of a ratio of times: 0.98–1.05. An open end is infinite, or null in a session."""
    low, high = ci95
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return "unknown"
    if not tells(low, high):
        return _TELLS_NOTHING
    if (decimals := ratio_decimals(ci95, digits)) > digits:  # then to the outside: no end looks better than it is
        scale = 10**decimals
        low, high = math.floor(low * scale + _ROUNDING) / scale, math.ceil(high * scale - _ROUNDING) / scale
    return f"{low:.{decimals}f}–{high:.{decimals}f}"


def ratio_decimals(ci95: Sequence[float | None], usual: int) -> int:
    """The decimals of a ratio and of its interval: the usual ones, or as many more as tell the ends apart."""
    low, high = ci95
    if low is None or high is None or low == high or not tells(low, high):
        return usual
    most = usual + _MORE_DECIMALS
    return next((number for number in range(usual, most) if round(low, number) != round(high, number)), most)


def count(value: int | None) -> str:
    """A large count, as of multiply-accumulates."""
    if value is None:
        return "unknown"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{_digits(value / limit)} {unit}"
    return str(value)


def size(value: int | None) -> str:
    """A number of bytes."""
    if value is None:
        return "unknown"
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{_digits(value / limit)} {unit}"
    return f"{value} B"


def memory(megabytes: float) -> str:
    """A peak of memory, or a limit on one, in units of 2**20 bytes as every command counts them."""
    return f"{megabytes:.1f} MB"


def millijoules(value: float) -> str:
    """An energy given in millijoules."""
    if not math.isfinite(value):
        return "unknown"
    if value >= 10_000:
        return f"{_digits(value / 1e3)} J"
    return f"{_digits(value)} mJ" if value >= 0.1 or value == 0 else f"{_digits(value * 1e3)} µJ"


def rate(value: float) -> str:
    """A number of inferences for each second."""
    return f"{_digits(value)}/s" if math.isfinite(value) else "unknown"


def percent(value: float) -> str:
    """A share: 7.8 %, 83 %."""
    if not math.isfinite(value):
        return "unknown"
    return f"{value * 100:.1f} %" if abs(value) < 0.0995 else f"{value * 100:.0f} %"


def decibels(value: float, decimals: int = 1) -> str:
    """A ratio in decibels."""
    return f"{round(value, decimals) + 0.0:.{decimals}f} dB".replace("-", "−")


def percentage_points(value: float) -> str:
    """A difference of two shares, with its sign: -0.6 pp."""
    return "unknown" if not math.isfinite(value) else f"{value * 100:+.1f} pp".replace("-", "−")


def times(value: float) -> str:
    """A factor: 2.3×, 14×."""
    if not math.isfinite(value):
        return "unknown"
    return f"{value:.{_factor_decimals(value)}f}×"


def times_within(value: float, ends: Sequence[float]) -> str:
    """A factor with as many digits as its interval has in a speedup."""
    usual = _factor_decimals(max(ends, default=0.0))
    decimals = ratio_decimals(ends, usual) if len(ends) == 2 else usual
    return f"{value:.{decimals}f}×" if decimals > usual else times(value)


def _factor_decimals(value: float) -> int:
    return 2 if value < 1.995 else 1 if value < 9.95 else 0


def speedup(
    ratio: float,
    ci95: Sequence[float | None] | None = None,
    than: str = "",
    words: tuple[str, str] = ("faster", "slower"),
) -> str:
    """A ratio of times (below 1 is faster) as a speedup: 1.60× faster than A (95 % CI 1.50–1.70).

    With an interval that holds 1, neither is said: not proven faster than A (1.02×, 95 % CI 0.98–1.06). Costs other
    than time have words of their own for better and worse.
    """
    faster = ratio <= 1
    ends = [end for end in ci95 or () if end is not None and math.isfinite(end)]
    if faster:
        ratio = 1 / ratio if ratio else math.inf
        ends = [1 / end if end > 0 else math.inf for end in reversed(ends)]
    # Both ends with as many digits as the larger one is worth.
    digits = _factor_decimals(max(ends, default=0.0))
    known = len(ends) == 2 and math.isfinite(ends[1])
    interval = f"95 % CI {ratio_interval(ends, digits)}" if known else ""
    against = f"{words[0] if faster else words[1]}{f' than {than}' if than else ''}"
    factor = times_within(ratio, ends)
    if known and ends[0] <= 1 <= ends[1]:
        return f"not proven {against} ({factor}, {interval})"
    return f"{factor} {against}{f' ({interval})' if interval else ''}"


def duration(seconds: float) -> str:
    """How long something took or may take: 45 s, 3 min."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _digits(value: float) -> str:
    """Three significant digits, never an exponent."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def several(count: int, what: str) -> str:
    """A count with its noun: 1 sample, 2 samples, 3 processes."""
    return f"{count} {what}" + ("" if count == 1 else "es" if what.endswith("s") else "s")


def first_few(values: Sequence[object], most: int) -> str:
    """Some values, and how many more there are: a, b and 3 more."""
    more = len(values) - most
    return ", ".join(map(str, values[:most])) + (f" and {more} more" if more > 0 else "")

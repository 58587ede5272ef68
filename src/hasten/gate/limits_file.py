"""What a model may cost, in a user's words: `latency = "5 ms"`, `size = "2 MB"`, `accuracy = "95 %"`."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MILLISECONDS: Final = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
_BYTES: Final = {"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# As `bench` counts memory: 2**20 bytes.
_MEGABYTES: Final = {"kb": 2**-10, "mb": 1.0, "gb": 2**10, "kib": 2**-10, "mib": 1.0, "gib": 2**10}
_QUANTITY: Final = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ%]*)\s*")

# Regressions below are no news: what a rebuild of the same model can show.
DEFAULT_SLOWDOWN: Final = 0.03
DEFAULT_DROP: Final = 0.01


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits; None where there is none. All are upper ones, except for an accuracy where more is better."""

    latency_ms: float | None = None
    p95_ms: float | None = None
    init_ms: float | None = None
    memory_mb: float | None = None
    size_bytes: float | None = None
    accuracy: float | None = None
    max_slowdown: float = DEFAULT_SLOWDOWN
    """How much slower than the baseline is no regression yet."""
    max_drop: float = DEFAULT_DROP
    """How much less accurate than the baseline is no regression yet; of mae and metrics of one's own, a part of the
    baseline's value."""

    @property
    def is_timed(self) -> bool:
        """Whether a limit asks for runs of the model that are timed."""
        limits = (self.latency_ms, self.p95_ms, self.init_ms, self.memory_mb)
        return any(limit is not None for limit in limits)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited, but for what a baseline may show."""
        return not self.is_timed and self.size_bytes is None and self.accuracy is None

    def as_data(self) -> dict[str, Any]:
        """The budget as JSON can hold it."""
        return asdict(self)


# Name in a budget file → field, units, an example. No units: a share such as 0.95 or "95 %".
_LIMITS: Final[dict[str, tuple[str, Mapping[str, float] | None, str]]] = {
    "latency": ("latency_ms", _MILLISECONDS, "5 ms"),
    "p95": ("p95_ms", _MILLISECONDS, "8 ms"),
    "init": ("init_ms", _MILLISECONDS, "200 ms"),
    "memory": ("memory_mb", _MEGABYTES, "100 MB"),
    "size": ("size_bytes", _BYTES, "2 MB"),
    "accuracy": ("accuracy", None, "95 %"),
    "max_slowdown": ("max_slowdown", None, "3 %"),
    "max_drop": ("max_drop", None, "1 %"),
}
LIMIT_NAMES: Final = tuple(_LIMITS)


def budget_from_mapping(values: Mapping[str, Any], where: str = "a budget") -> Budget:
    """A budget from names and quantities as a user writes them. What is not known is an error that lists what is."""
    return budget_with(Budget(), values, where)


def budget_with(base: Budget, values: Mapping[str, Any], where: str = "a budget") -> Budget:
    """The budget with these limits in place of its own."""
    no_unknown_keys(values, LIMIT_NAMES, where)
    return replace(base, **{_LIMITS[name][0]: _quantity(name, value) for name, value in values.items()})


def no_unknown_keys(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """A misspelt limit must not pass for one that holds."""
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        raise UsageError(f"{where} has no {unknown!r}", f"Known are: {', '.join(known)}.")


def _quantity(name: str, value: Any) -> float:
    _, units, example = _LIMITS[name]
    wrong = UsageError(f"{name} = {value!r} is not understood", f'Write it like this: {name} = "{example}"')
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong
    if units is None:
        number = _share(value)
    else:
        matched = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        scale = None if matched is None else units.get(matched[2].lower())
        number = math.nan if matched is None or scale is None else float(matched[1]) * scale
    if not (math.isfinite(number) and number >= 0) or (number == 0 and units is not None):
        raise wrong
    return number


def _share(value: str | float) -> float:
    if not isinstance(value, str):
        return float(value)
    matched = _QUANTITY.fullmatch(value)
    if matched is None or matched[2] not in ("", "%"):
        return math.nan
    return float(matched[1]) / (100 if matched[2] else 1)

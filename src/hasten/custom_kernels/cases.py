"""Inputs that show whether a kernel is right: ordinary values, and those at the edges of their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[Any]

# A kernel that computes as the original does must do so on every value.
EXACT_CASES: Final = (
    "normal",
    "wide",
    "nonzero",
    "tiny",
    "signed-zero",
    "not-finite",
    "special",
    "equal",
    "extreme",
    "index",
)
# One that sums in another order overflows elsewhere, so the largest numbers prove nothing.
TOLERANT_CASES: Final = ("normal", "wide", "nonzero", "tiny", "signed-zero", "not-finite", "equal", "index")
_RARE: Final = 0.02
_INDEX: Final = "index"


def values_for(case: str, dtype: str, shape: tuple[int, ...], seed: int, indices: int) -> Array:
    """Seeded values of a case. `indices` is how many places an index may name."""
    random = np.random.default_rng([seed, *case.encode()])
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    return _reals(case, kind, shape, random) if kind.kind == "f" else _whole(case, kind, shape, random, indices)


def _reals(case: str, kind: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator) -> Array:
    limits: Any = np.finfo(kind.type)
    normal = random.normal(size=shape)
    largest, smallest, least = float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)
    drawings: dict[str, Callable[[], Any]] = {
        "wide": lambda: normal * 10.0 ** random.uniform(-4, 4, shape),
        "nonzero": lambda: np.where(np.abs(normal) < 1e-2, 1.0, normal),
        "tiny": lambda: normal * smallest * 0.01,
        "signed-zero": lambda: random.choice([0.0, -0.0, 1.0, -1.0], shape),
        "not-finite": lambda: _sprinkled(normal, [np.nan, np.inf, -np.inf], random),
        "special": lambda: _sprinkled(
            normal * 10.0 ** random.uniform(-4, 4, shape),
            [np.nan, np.inf, -np.inf, 0.0, -0.0, largest, -largest, smallest, least, -least],
            random,
        ),
        "equal": lambda: np.full(shape, 0.5),
        "extreme": lambda: random.choice([largest, -largest, smallest, -smallest, least, -least], shape),
        _INDEX: lambda: random.uniform(size=shape),
    }
    drawn = drawings[case]() if case in drawings else normal
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(drawn).astype(kind)


def _whole(case: str, kind: np.dtype[Any], shape: tuple[int, ...], random: np.random.Generator, indices: int) -> Array:
    limits = np.iinfo(kind)
    low, high = int(limits.min), int(limits.max)
    if case in ("special", "extreme"):
        return random.choice(np.array([low, high, 0, 1, high - 1], kind), shape)
    if case == "wide":
        return random.integers(low, high, shape, kind, endpoint=True)
    ranges = {
        "nonzero": (1, 100),
        "tiny": (0, 1),
        "signed-zero": (0, 1),
        "equal": (3, 3),
        _INDEX: (0, max(0, indices - 1)),
    }
    first, last = ranges.get(case, (-100, 100))
    return random.integers(max(first, low), min(last, high), shape, kind, endpoint=True)


def _sprinkled(values: Array, specials: list[float], random: np.random.Generator) -> Array:
    """The values with special ones in a few places; at least one, where there is a place."""
    flat = np.array(values).reshape(-1)
    count = min(flat.size, max(1, int(_RARE * flat.size) * len(specials)))
    places = random.choice(flat.size, count, replace=False)
    flat[places] = random.choice(specials, count)
    return flat.reshape(np.shape(values))


def index_limit(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """How many places an index may name, whatever it indexes: the smallest dimension above 1."""
    return min((size for shape in shapes.values() for size in shape if size > 1), default=1)


class Judgement:
    """Compares outputs with the original's, and keeps the largest difference."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self.largest_error = 0.0

    def first_wrong(self, expected: Array, got: Array) -> int | None:
        """The first element that differs by more than is allowed; None where there is none."""
        wrong = self._unequal(expected, got) if self._tolerance == 0 else self._beyond(expected, got)
        return int(np.argmax(wrong)) if wrong.any() else None

    def _unequal(self, expected: Array, got: Array) -> Array:
        """Bit by bit, but for NaN: every NaN is one."""
        unsigned = f"u{expected.dtype.itemsize}"
        differs: Array = expected.reshape(-1).view(unsigned) != got.reshape(-1).view(unsigned)
        if expected.dtype.kind == "f":
            differs &= ~(np.isnan(expected.reshape(-1)) & np.isnan(got.reshape(-1)))
        return differs

    def _beyond(self, expected: Array, got: Array) -> Array:
        with np.errstate(invalid="ignore"):
            a, b = (values.reshape(-1).astype(np.float64) for values in (expected, got))
            error = np.abs(a - b)
        finite = np.isfinite(a)
        scale = float(np.abs(a[finite]).max(initial=0.0))
        is_real = expected.dtype.kind == "f"
        # XNNPACK takes numbers below the smallest normal one for 0; a kernel need not.
        nothing = float(np.finfo(expected.dtype).tiny) if is_real else 0.0
        allowed = max(nothing if is_real else 1.0, self._tolerance * scale)
        known = error[finite & np.isfinite(b) & (error > nothing)]
        if scale:
            self.largest_error = max(self.largest_error, float(known.max(initial=0.0)) / scale)
        # What comes of a NaN hangs on the order of comparisons, which differs between LiteRT's own kernels.
        alike: Array = np.isnan(a) | (a == b)
        return ~(alike | (error <= allowed))


def element_text(values: Array, element: int) -> str:
    """An element as a person compares it: all digits, and the sign of a zero."""
    value = values.reshape(-1)[element]
    return repr(float(value)) if values.dtype.kind == "f" else str(value)


def place_text(shape: tuple[int, ...], element: int) -> str:
    """Where an element is: its indices."""
    return ", ".join(str(int(index)) for index in np.unravel_index(element, shape)) if shape else "0"

"""All rewrites, in the order in which they are tried: each opens the way for those after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError
from hasten.core.printable import printable
from hasten.rewrites.activations import ACTIVATION_FUSION, CLAMPS, RELU_0_TO_1
from hasten.rewrites.affine import AFFINE
from hasten.rewrites.broadcasts import BROADCASTS, BROADCASTS_AS_TILES
from hasten.rewrites.concatenations import CONCATENATIONS, NARROW_CONCATENATIONS
from hasten.rewrites.constants import CONSTANT_FOLDING
from hasten.rewrites.dead_code import DEAD_CODE, DUPLICATES
from hasten.rewrites.gelu import GELU
from hasten.rewrites.hard_swish import HARD_SWISH
from hasten.rewrites.identities import IDENTITIES
from hasten.rewrites.joins import JOINS
from hasten.rewrites.layer_norm import LAYER_NORM
from hasten.rewrites.layout import LAYOUT, LAYOUT_ROUNDED
from hasten.rewrites.leaky_relu import LEAKY_RELU
from hasten.rewrites.logistic import LOGISTIC
from hasten.rewrites.plain_forms import READ_ONCE, UNIT_CLAMPS
from hasten.rewrites.pools import GLOBAL_POOLS
from hasten.rewrites.quantization import FLOAT16_CONSTANTS, QUANTIZATION_PAIRS, REQUANTIZATIONS
from hasten.rewrites.reshapes import RESHAPES
from hasten.rewrites.resizes import RESIZES, RESIZES_AS_COPIES
from hasten.rewrites.roots import ROOTS
from hasten.rewrites.same_padding import SAME_PADDING
from hasten.rewrites.selections import EXTREMES, MASKS
from hasten.rewrites.slices import SLICES
from hasten.rewrites.stems import SPACE_TO_DEPTH, SPACE_TO_DEPTH_REORDERED
from hasten.rewrites.widening import WIDENING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.rewrites.rewrite import Rewrite

_SIMPLER: Final[tuple[Rewrite, ...]] = (
    # Less to look at, and constants that others can read.
    DEAD_CODE,
    FLOAT16_CONSTANTS,
    CONSTANT_FOLDING,
    IDENTITIES,
    DUPLICATES,
    RESHAPES,
    BROADCASTS,
    QUANTIZATION_PAIRS,
    # Formulas as the operators that they are.
    EXTREMES,
    CLAMPS,
    ROOTS,
    LAYER_NORM,
    HARD_SWISH,
    GELU,
    LOGISTIC,
    LEAKY_RELU,
    RELU_0_TO_1,
    RESIZES,
    # The order of axes, and what reads it.
    LAYOUT,
    LAYOUT_ROUNDED,
    SPACE_TO_DEPTH,
    SPACE_TO_DEPTH_REORDERED,
    CONCATENATIONS,
    # What layers can take in, then the layers themselves.
    AFFINE,
    ACTIVATION_FUSION,
    SAME_PADDING,
    WIDENING,
)
"""They can be applied together: none undoes what another one does."""

_CPU_FORMS: Final[tuple[Rewrite, ...]] = (SLICES, JOINS, RESIZES_AS_COPIES, NARROW_CONCATENATIONS)
_GPU_FORMS: Final[tuple[Rewrite, ...]] = (BROADCASTS_AS_TILES, MASKS, SLICES, UNIT_CLAMPS, READ_ONCE)

REWRITES: Final = (*_SIMPLER, *_CPU_FORMS)
"""What is tried on a CPU: all that makes a graph simpler, and operators that XNNPACK refuses as others."""

GPU_REWRITES: Final = (*_SIMPLER, *_GPU_FORMS)
"""What is tried on a GPU, whose delegates refuse other operators."""

BY_NAME_ONLY: Final[tuple[Rewrite, ...]] = (REQUANTIZATIONS, GLOBAL_POOLS)
"""What is tried only if a user asks for it, as outputs of 8 bits may differ by a step."""


def rewrites_for(accelerator: str) -> tuple[Rewrite, ...]:
    """What is worth a try on the accelerator of a plan."""
    return GPU_REWRITES if accelerator == "gpu" else REWRITES


def rewrites_named(names: Sequence[str]) -> tuple[Rewrite, ...]:
    """The rewrites of these names, in the order in which they are tried; an unknown name raises a `UsageError`."""
    known = {rewrite.name: rewrite for rewrite in (*REWRITES, *GPU_REWRITES, *BY_NAME_ONLY)}
    for name in names:
        if name not in known:
            raise UsageError(f"There is no rewrite {printable(name)!r}.", f"Choose among {', '.join(known)}.")
    return tuple(rewrite for rewrite in known.values() if rewrite.name in names)

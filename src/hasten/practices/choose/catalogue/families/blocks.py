"""What the families share: names of variants, rounding of channels, activations, inverted residuals, and heads.

As converters do it, batch normalization is folded into the convolutions, and activations are fused where TensorFlow
Lite has a fused form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hasten.model.build import ModelBuilder
    from hasten.model.build_graph import Value

_FUSED: Final = (None, "relu", "relu6")


class Stage(NamedTuple):
    """A row of a family's table: blocks of one kind, the first of which may have a stride."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int
    squeeze: float = 0.0
    """Channels of the squeeze, as a share of the block's input; 0 for none."""


@dataclass(frozen=True, slots=True)
class Block:
    """An inverted residual: expansion, depthwise convolution, squeeze-and-excite if any, projection."""

    kernel: int
    stride: int
    expanded: int
    channels: int
    activation: str = "relu6"
    squeeze: int = 0
    hard_gate: bool = False
    squeeze_activation: str = "relu"
    dilation: int = 1


class Drawn(NamedTuple):
    """What a block computed: detectors also read the expansion."""

    expanded: Value
    output: Value


def refuse_variant(family: str, variant: str, known: Iterable[str]) -> None:
    """Say which variants a family has, if this is none of them."""
    *others, last = known
    if variant not in (*others, last):
        choices = f"{', '.join(others)} or {last}"
        raise UsageError(f"There is no {family} {variant!r}.", f"Choose {choices} as the variant.")


def rounded(channels: float, multiple: int = 8) -> int:
    """Round channels to a multiple, but lose no more than a tenth of them (`make_divisible` of the MobileNets)."""
    nearest = max(multiple, int(channels + multiple / 2) // multiple * multiple)
    return nearest + multiple if nearest < 0.9 * channels else nearest


def scaled(stages: Iterable[Stage], width: float, multiple: int = 8) -> list[Stage]:
    """The stages with their channels scaled and rounded."""
    return [stage._replace(channels=rounded(stage.channels * width, multiple)) for stage in stages]


def blocks_of(stages: Iterable[Stage], channels: int, activation: str, *, output_stride: int = 32) -> Iterator[Block]:
    """The blocks of the stages; `channels` come from the stem, whose stride is 2.

    Strides beyond `output_stride` become dilation, as DeepLab does it: a block that would have halved the image keeps
    the dilation of those before it, and the blocks after it have twice as much.
    """
    reached, dilation = 2, 1
    for stage in stages:
        for number in range(stage.repeats):
            stride = stage.stride if number == 0 else 1
            kept = stride if reached * stride <= output_stride else 1
            yield Block(
                stage.kernel,
                kept,
                channels * stage.expansion,
                stage.channels,
                activation,
                max(1, int(channels * stage.squeeze)) if stage.squeeze else 0,
                squeeze_activation="swish" if activation == "swish" else "relu",
                dilation=dilation,
            )
            reached *= kept
            dilation *= stride // kept
            channels = stage.channels


def draw_stages(
    g: ModelBuilder, x: Value, stem: int, stages: Iterable[Stage], activation: str, *, output_stride: int = 32
) -> list[Drawn]:
    """Draw a stem of so many channels, which halves the image, and the blocks of the stages."""
    y = conv(g, x, stem, 3, 2, activation=activation)
    return draw_blocks(g, y, blocks_of(stages, stem, activation, output_stride=output_stride))


def draw_blocks(g: ModelBuilder, x: Value, blocks: Iterable[Block]) -> list[Drawn]:
    """Draw the blocks in a row."""
    drawn = [Drawn(x, x)]
    for block in blocks:
        drawn.append(_inverted_residual(g, drawn[-1].output, block))
    return drawn[1:]


def conv(
    g: ModelBuilder, x: Value, filters: int, kernel: int = 1, stride: int = 1, *, activation: str | None = None
) -> Value:
    """Convolve, with whatever activation."""
    fused = activation if activation in _FUSED else None
    return _activated(g, g.conv2d(x, filters, kernel, stride, activation=fused), activation)


def dense(g: ModelBuilder, x: Value, units: int, activation: str) -> Value:
    """Multiply by a matrix, with whatever activation."""
    fused = activation if activation in _FUSED else None
    return _activated(g, g.fully_connected(x, units, activation=fused), activation)


def classifier(g: ModelBuilder, x: Value, classes: int) -> dict[str, Value]:
    """Mean over the image, logits and probabilities."""
    return {"probabilities": g.softmax(g.fully_connected(g.mean(x), classes))}


def joined(g: ModelBuilder, maps: Sequence[Value], channels: int) -> Value:
    """What several feature maps predict, as one list of rows."""
    rows = [g.reshape(one, (1, one.shape[1] * one.shape[2] * one.shape[3] // channels, channels)) for one in maps]
    return g.concatenation(rows, axis=1)


def _inverted_residual(g: ModelBuilder, x: Value, block: Block) -> Drawn:
    expanded = x if block.expanded == x.shape[-1] else conv(g, x, block.expanded, activation=block.activation)
    fused = block.activation if block.activation in _FUSED else None
    y = g.depthwise_conv2d(expanded, block.kernel, block.stride, dilation=block.dilation, activation=fused)
    y = _activated(g, y, block.activation)
    if block.squeeze:
        y = _squeeze_excite(g, y, block)
    y = g.conv2d(y, block.channels)
    return Drawn(expanded, g.add(x, y) if y.shape == x.shape else y)


def _squeeze_excite(g: ModelBuilder, x: Value, block: Block) -> Value:
    squeezed = conv(g, g.mean(x, keep_dims=True), block.squeeze, activation=block.squeeze_activation)
    gate = g.conv2d(squeezed, x.shape[-1])
    return g.mul(x, g.hard_sigmoid(gate) if block.hard_gate else g.logistic(gate))


def _activated(g: ModelBuilder, x: Value, activation: str | None) -> Value:
    if activation in _FUSED:
        return x
    return g.hard_swish(x) if activation == "hard_swish" else g.swish(x)

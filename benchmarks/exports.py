"""Networks in NCHW, as PyTorch has them, exported to .tflite: what `benchmarks.operators` rewrites.

They need PyTorch and Google's converter for it, which hasten does not: use an environment of their own.

    python -m venv exports
    exports/bin/pip install torch litert-torch
    exports/bin/python benchmarks/exports.py benchmarks/models/exported

The converter has a pass of its own that moves most operators to NHWC. It is off here: files that come from ONNX, and
from converters without such a pass, have a TRANSPOSE before and after every convolution, and so have these. The weights
are random, as the time of a run does not depend on them.
"""

# ruff: noqa: D102 (what a module computes stands in its class)

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn


def main() -> int:
    """Export the networks that are named, or all, into a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        network, side = NETWORKS[name]
        torch.manual_seed(0)
        made = network().eval()
        for module in made.modules():
            if isinstance(module, nn.BatchNorm2d):  # that of a trained network is not the identity
                nn.init.uniform_(module.running_var, 0.5, 1.5)
                nn.init.normal_(module.running_mean, 0, 0.1)
                nn.init.uniform_(module.weight, 0.5, 1.5)
        _convert(made, torch.zeros(1, 3, side, side), folder / f"{name}.tflite")
    return 0


def _convert(network: nn.Module, example: torch.Tensor, path: Path) -> None:
    import litert_torch
    from litert_torch import fx_infra
    from litert_torch._convert import fx_passes

    class Nothing(fx_infra.ExportedProgramPassBase):
        def call(self, program: Any) -> Any:
            return fx_infra.ExportedProgramPassResult(program, False)

    fx_passes.OptimizeLayoutTransposesPass = Nothing
    litert_torch.convert(network, (example,)).export(str(path))


def conv(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, *, groups: int = 1, act: type[nn.Module] = nn.SiLU
) -> nn.Sequential:
    """A convolution, its batch norm and its activation."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), act())


def separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """A depthwise convolution and one that mixes channels."""
    return nn.Sequential(conv(inputs, inputs, 3, stride, groups=inputs), conv(inputs, outputs))


class Residual(nn.Module):
    """A value and what some layers make of it."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class CrossStage(nn.Module):
    """Two paths, one through residual blocks, joined."""

    def __init__(self, inputs: int, outputs: int, depth: int = 1) -> None:
        super().__init__()
        half = outputs // 2
        blocks = [Residual(conv(half, half), separable(half, half)) for _ in range(depth)]
        self.long = nn.Sequential(conv(inputs, half), *blocks)
        self.short = conv(inputs, half)
        self.join = conv(2 * half, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.join(torch.cat([self.long(x), self.short(x)], 1))


class Pyramid(nn.Module):
    """Pools of several sizes, joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.enter = conv(width, half)
        self.pools = nn.ModuleList(nn.MaxPool2d(size, 1, size // 2) for size in (5, 9, 13))
        self.join = conv(4 * half, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        return self.join(torch.cat([x, *(pool(x) for pool in self.pools)], 1))


class Detector(nn.Module):
    """A detector with the layers of YOLOX-Nano: a "focus" stem of strided slices, three scales, decoupled heads."""

    def __init__(self, width: int = 16, classes: int = 80) -> None:
        super().__init__()
        first, second, third, fourth, fifth = (width << step for step in range(5))
        self.stem = conv(12, first, 3)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(separable(first, second, 2), CrossStage(second, second)),
                nn.Sequential(separable(second, third, 2), CrossStage(third, third, 3)),
                nn.Sequential(separable(third, fourth, 2), CrossStage(fourth, fourth, 3)),
                nn.Sequential(separable(fourth, fifth, 2), Pyramid(fifth), CrossStage(fifth, fifth)),
            ]
        )
        self.larger = nn.Upsample(scale_factor=2, mode="nearest")
        self.up = nn.ModuleList([conv(fifth, fourth), conv(fourth, third)])
        self.joined = nn.ModuleList([CrossStage(2 * fourth, fourth), CrossStage(2 * third, third)])
        self.down = nn.ModuleList([separable(third, third, 2), separable(fourth, fourth, 2)])
        self.gathered = nn.ModuleList([CrossStage(2 * third, fourth), CrossStage(2 * fourth, fifth)])
        self.heads = nn.ModuleList(Head(size, third, classes) for size in (third, fourth, fifth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)], 1)
        x = self.stages[0](self.stem(x))
        near = self.stages[1](x)
        middle = self.stages[2](near)
        far = self.up[0](self.stages[3](middle))
        half = self.up[1](self.joined[0](torch.cat([self.larger(far), middle], 1)))
        first = self.joined[1](torch.cat([self.larger(half), near], 1))
        second = self.gathered[0](torch.cat([self.down[0](first), half], 1))
        third = self.gathered[1](torch.cat([self.down[1](second), far], 1))
        found = [head(scale) for head, scale in zip(self.heads, (first, second, third), strict=True)]
        return torch.cat(found, 2).permute(0, 2, 1)


class Head(nn.Module):
    """Boxes, whether there is something, and what it is, for each place of one scale."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = conv(inputs, width)
        self.kinds = nn.Sequential(separable(width, width), separable(width, width), nn.Conv2d(width, classes, 1))
        self.places = nn.Sequential(separable(width, width), separable(width, width))
        self.box, self.score = nn.Conv2d(width, 4, 1), nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        places = self.places(x)
        parts = [self.box(places), self.score(places).sigmoid(), self.kinds(x).sigmoid()]
        return torch.cat(parts, 1).flatten(2)


def shuffled(x: torch.Tensor) -> torch.Tensor:
    """The channels of both halves in turns."""
    batch, channels, height, width = x.shape
    return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(x.shape)


class Reduction(nn.Module):
    """Half of the height and width: two paths, joined and shuffled."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        steps = [conv(width, width, 3, 2, groups=width, act=nn.Identity) for width in (inputs, half)]
        self.short = nn.Sequential(steps[0], conv(inputs, half, act=nn.ReLU))
        self.long = nn.Sequential(conv(inputs, half, act=nn.ReLU), steps[1], conv(half, half, act=nn.ReLU))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return shuffled(torch.cat([self.short(x), self.long(x)], 1))


class Shuffle(nn.Module):
    """Half of the channels through layers, then both halves shuffled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        depthwise = conv(half, half, 3, groups=half, act=nn.Identity)
        self.layers = nn.Sequential(conv(half, half, act=nn.ReLU), depthwise, conv(half, half, act=nn.ReLU))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, changed = x.chunk(2, 1)
        return shuffled(torch.cat([kept, self.layers(changed)], 1))


class Squeeze(nn.Module):
    """Channels weighed by what the whole image shows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 4, 1), nn.ReLU(), nn.Conv2d(width // 4, width, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * nn.functional.hardsigmoid(self.layers(x))


def shuffle_classifier() -> nn.Module:
    """A classifier with the layers of ShuffleNet v2."""
    layers: list[nn.Module] = [conv(3, 24, 3, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    width = 24
    for outputs, depth in ((116, 3), (232, 7), (464, 3)):
        layers += [Reduction(width, outputs), *(Shuffle(outputs) for _ in range(depth))]
        width = outputs
    return nn.Sequential(*layers, conv(width, 1024, act=nn.ReLU), *_classes(1024))


def squeeze_classifier() -> nn.Module:
    """A classifier of the MobileNet v3 kind: its widths and kernels, squeeze and excite, hard swish."""
    layers: list[nn.Module] = [conv(3, 16, 3, 2, act=nn.Hardswish)]
    width = 16
    for outputs, depth, kernel in ((24, 2, 3), (40, 3, 5), (80, 3, 3), (112, 2, 3)):
        layers.append(inverted(width, outputs, kernel, 2))
        layers += [Residual(inverted(outputs, outputs, kernel)) for _ in range(depth - 1)]
        width = outputs
    return nn.Sequential(*layers, conv(width, 672, act=nn.Hardswish), *_classes(672))


def inverted(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Many channels between few."""
    wide = 4 * inputs
    depthwise = conv(wide, wide, kernel, stride, groups=wide, act=nn.Hardswish)
    return nn.Sequential(
        conv(inputs, wide, act=nn.Hardswish), depthwise, Squeeze(wide), conv(wide, outputs, act=nn.Identity)
    )


def segmenter() -> nn.Module:
    """A network from image to image: a U-shaped one with leaky units and resizes."""
    return nn.Sequential(conv(3, 16, 3, 2, act=nn.LeakyReLU), Nested(16, 3), nn.Conv2d(16, 2, 1), nn.Sigmoid())


class Nested(nn.Module):
    """Layers around the same at half the height and width."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.enter = conv(width, width, 3, act=nn.LeakyReLU)
        self.inner = None
        if depth:
            self.down, self.inner = conv(width, 2 * width, 3, 2, act=nn.LeakyReLU), Nested(2 * width, depth - 1)
            self.up, self.join = nn.Upsample(scale_factor=2, mode="bilinear"), conv(3 * width, width, act=nn.LeakyReLU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        return x if self.inner is None else self.join(torch.cat([x, self.up(self.inner(self.down(x)))], 1))


def _classes(width: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)


NETWORKS = {
    "yolo": (Detector, 416),
    "shuffle": (shuffle_classifier, 224),
    "squeeze": (squeeze_classifier, 224),
    "segmenter": (segmenter, 192),
}


if __name__ == "__main__":
    sys.exit(main())

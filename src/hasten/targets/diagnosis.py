"""What the engine's log knows and its status does not say: a table of patterns that turn a bare failure into a cause.

Each pattern was seen in a log of LiteRT 2.3, its GPU or its NPU libraries. The first that matches wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hasten.core.failure import NOT_INSTALLED, SHAPES
from hasten.engine.accelerators import OPENVINO_RELEASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.failure import Failure

# LiteRT's own prefix of a line: severity and source position.
_PREFIX: Final = re.compile(r"^(?:ERROR|WARNING|INFO|<Unknown severity>): (?:\[[\w./]+:\d+\] )?")
_OPENVINO_HINT: Final = f"Install it: pip install openvino=={OPENVINO_RELEASE}"
_CONVERT_HINT: Final = "Convert the model again with a current converter."
_DAMAGED_HINT: Final = "Download or convert the model again."


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over the log, and the failure that it stands for. Named groups fill the message."""

    pattern: str
    kind: str
    message: str
    hint: str = ""
    code: str = ""
    explains: tuple[str, ...] = ("engine",)
    """The kinds of failure that it may explain: a line of a log proves nothing about an unrelated failure."""


RULES: Final = (
    Rule(
        r"Encountered unresolved custom op: (?P<op>[^\n]+?)\.(?:\n|$)",
        "model",
        "The model needs the custom operator {op}, which LiteRT does not have.",
        "Use the runtime that the model was made for, or a delegate that has the operator.",
    ),
    Rule(
        r"Select TensorFlow op\(s\)[^\n]*\n(?:[^\n]*Node number \d+ \((?P<op>\w+)\))?",
        "model",
        "The model needs the TensorFlow operator {op}, which LiteRT has only with the Flex delegate.",
        "Convert the model with TFLITE_BUILTINS only, or replace the operator.",
    ),
    Rule(
        r"Didn't find op for builtin opcode '(?P<op>\w+)' version '(?P<version>\d+)'",
        "model",
        "The model uses version {version} of the operator {op}, which this release of LiteRT does not have.",
        "Use a newer LiteRT, or convert the model for this one.",
    ),
    Rule(
        r"(?P<why>[^\n]+)\nTensor (?P<tensor>\d+) has invalid quantization parameters",
        "model",
        "LiteRT rejects the quantization of tensor {tensor}: {why}.",
        _CONVERT_HINT,
    ),
    Rule(
        r"Type (?P<type>\w+) is unsupported by op (?P<op>\w+)",
        "model",
        "LiteRT's operator {op} does not take tensors of type {type}.",
        "Convert the model with another element type for this operator.",
    ),
    Rule(
        r"Couldn't load Vulkan: (?P<why>[^\n]+)",
        "accelerator",
        "The GPU accelerator cannot load Vulkan: {why}.",
        "Install Vulkan's loader and the GPU's driver: apt-get install libvulkan1",
        NOT_INSTALLED,
    ),
    Rule(
        r"No adapters found",
        "accelerator",
        "LiteRT's GPU accelerator found no usable GPU.",
        "Install the GPU's Vulkan driver, or a software device: apt-get install chromium",
        NOT_INSTALLED,
    ),
    Rule(
        r"operations are not supported by GPU delegate:\n(?P<ops>(?:[A-Z][^\n]*: [^\n]+\n)+)No operations will run",
        "accelerator",
        "The GPU takes none of the model's operators: {ops}.",
        "Use the CPU, or a model with types and operators that the GPU supports.",
        explains=("engine", "accelerator"),
    ),
    Rule(
        r"GPU accelerator could not be loaded and registered",
        "accelerator",
        "LiteRT's GPU library does not load.",
        "Install it again: pip install --force-reinstall ai-edge-litert",
        NOT_INSTALLED,
        ("engine", "accelerator"),
    ),
    Rule(
        r"(?P<library>libopenvino[\w.]*): cannot open shared object file",
        "accelerator",
        "The NPU accelerator needs OpenVINO's {library}, which is not installed.",
        _OPENVINO_HINT,
        NOT_INSTALLED,
        ("engine", "accelerator"),
    ),
    Rule(
        r"NPU accelerator could not be loaded and registered: (?P<why>[^\n]+?)\.?(?:\n|$)",
        "accelerator",
        "LiteRT's NPU library does not load: {why}.",
        _OPENVINO_HINT,
        NOT_INSTALLED,
        ("engine", "accelerator"),
    ),
    Rule(
        r"only supports static-sized tensors with a graph that has dynamic-sized tensors",
        "accelerator",
        "The accelerator takes only fixed shapes, and some shapes of this model depend on its data.",
        "Give the inputs a fixed shape, or use the CPU.",
        explains=("engine", "accelerator"),
    ),
    Rule(
        r"XNNPack delegate failed to reshape runtime",
        "model",
        "XNNPACK cannot run the model: the shapes of its tensors contradict each other.",
        "Find the operator with --kernel reference.",
        SHAPES,
    ),
    Rule(
        r"UNIMPLEMENTED: Profile is not implemented",
        "accelerator",
        "LiteRT's GPU accelerator has no profiler.",
        "Time the whole model with hasten bench; see which operators the GPU takes with hasten accelerators.",
    ),
    # The compiler of an accelerator loses what makes a tensor sparse; the file is sound, and the CPU runs it.
    Rule(
        r"Sparsity tensors may not yet be fully supported[\s\S]*Applying plugin[\s\S]*is invalidly specified in schema",
        "accelerator",
        "The accelerator takes no sparse tensors, and the weights of this model are sparse.",
        "Use the CPU, or a model with dense weights.",
    ),
    Rule(
        r"Tensor (?P<tensor>\d+) is invalidly specified in schema",
        "model",
        "The file is damaged: the data of tensor {tensor} does not fit its shape and type.",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Custom allocation is too small for tensor idx: (?P<tensor>\d+)",
        "model",
        "The file is damaged: tensor {tensor} is smaller than its operator needs.",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Signature has incorrect number of input/outputs",
        "model",
        "The file is damaged: a signature does not match the inputs and outputs of its graph.",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Buffer index out of range",
        "model",
        "The file is damaged: a tensor refers to data that the file does not have.",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Model provided is schema version (?P<version>\d+) not equal to supported version (?P<known>\d+)",
        "model",
        "The file has schema version {version}, and LiteRT reads only version {known}.",
        _CONVERT_HINT,
    ),
    Rule(
        r"Invalid per-channel quantization parameters",
        "model",
        "LiteRT rejects the quantization of a tensor: its scales or zero points do not fit its channels.",
        _CONVERT_HINT,
    ),
    Rule(
        r"Restored original execution plan after delegate application failure",
        "engine",
        "LiteRT could not hand the model's operators to its delegate.",
        "On the CPU, run without XNNPACK: --kernel builtin.",
    ),
    Rule(
        r"(?P<why>[^\n]+)\nNode number (?P<node>\d+) \((?P<op>\w+)\) failed to (?P<step>prepare|invoke)",
        "engine",
        "Operator {op} (node {node}) failed to {step}: {why}.",
        code=SHAPES,
    ),
    Rule(
        r"Node number (?P<node>\d+) \((?P<op>\w+)\) failed to (?P<step>prepare|invoke)",
        "engine",
        "Operator {op} (node {node}) failed to {step}.",
        code=SHAPES,
    ),
)


def diagnosed(failure: Failure, log: Sequence[str]) -> Failure:
    """The failure with the cause that the log gives, or as it was."""
    text = "\n".join(_PREFIX.sub("", line) for line in log)
    for rule in RULES:
        if failure.kind in rule.explains and (match := re.search(rule.pattern, text)):
            values = {name: _one_line(value or "unnamed") for name, value in match.groupdict().items()}
            return replace(
                failure,
                kind=rule.kind,
                message=rule.message.format(**values),
                hint=rule.hint or failure.hint,
                code=rule.code,
            )
    return failure


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip()).rstrip(".")

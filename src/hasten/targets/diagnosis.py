"""What the engine's log knows and its status does not say: a table of patterns that turn a bare failure into a cause.

Each pattern was seen in a log of LiteRT 2.3, its GPU or its NPU libraries. The first that matches wins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.failure import Failure

# LiteRT's own prefix of a line: severity and source position.
_PREFIX: Final = re.compile(r"^(?:ERROR|WARNING|INFO|<Unknown severity>): (?:\[[\w./]+:\d+\] )?")
_OPENVINO_HINT: Final = "pip install openvino==2026.3.1"
_CONVERT_HINT: Final = "Convert the model again with a current converter."
_DAMAGED_HINT: Final = "Download or convert the model again."


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over the log, and what to say when it is found. Named groups fill the message."""

    pattern: str
    kind: str
    message: str
    hint: str = ""
    explains: tuple[str, ...] = ("engine",)
    """The kinds of failure that it may explain: a line of a log proves nothing about an unrelated failure."""


RULES: Final = (
    Rule(
        r"Encountered unresolved custom op: (?P<op>[^\n]+?)\.(?:\n|$)",
        "model",
        "the model needs the custom operator {op}, which LiteRT does not have",
        "Use the runtime that the model was made for, or a delegate that brings the operator.",
    ),
    Rule(
        r"Select TensorFlow op\(s\)[^\n]*\n(?:[^\n]*Node number \d+ \((?P<op>\w+)\))?",
        "model",
        "the model needs an operator of TensorFlow itself ({op}), which LiteRT has only with the Flex delegate",
        "Convert it again with TFLITE_BUILTINS alone, or replace the operator.",
    ),
    Rule(
        r"Didn't find op for builtin opcode '(?P<op>\w+)' version '(?P<version>\d+)'",
        "model",
        "the model uses version {version} of the operator {op}, which this LiteRT does not know",
        "A newer LiteRT may, or convert the model for this one.",
    ),
    Rule(
        r"(?P<why>[^\n]+)\nTensor (?P<tensor>\d+) has invalid quantization parameters",
        "model",
        "LiteRT refuses the quantization of tensor {tensor}: {why}",
        _CONVERT_HINT,
    ),
    Rule(
        r"Type (?P<type>\w+) is unsupported by op (?P<op>\w+)",
        "model",
        "LiteRT's operator {op} does not take tensors of type {type}",
        "Another element type is needed here.",
    ),
    Rule(
        r"Couldn't load Vulkan: (?P<why>[^\n]+)",
        "accelerator",
        "the GPU accelerator cannot load Vulkan: {why}",
        "Install Vulkan's loader and the GPU's driver: apt-get install libvulkan1",
    ),
    Rule(
        r"No adapters found",
        "accelerator",
        "LiteRT's GPU accelerator found no GPU that it can use",
        "Install the GPU's Vulkan driver; for a software device: apt-get install chromium",
    ),
    Rule(
        r"operations are not supported by GPU delegate:\n(?P<ops>(?:[A-Z][^\n]*: [^\n]+\n)+)No operations will run",
        "accelerator",
        "the GPU takes none of the model's operators: {ops}",
        "Use the CPU, or a model with types and operators that GPUs take.",
        ("engine", "accelerator"),
    ),
    Rule(
        r"GPU accelerator could not be loaded and registered",
        "accelerator",
        "LiteRT's GPU library could not be loaded",
        "pip install --force-reinstall ai-edge-litert",
        ("engine", "accelerator"),
    ),
    Rule(
        r"(?P<library>libopenvino[\w.]*): cannot open shared object file",
        "accelerator",
        "the NPU accelerator lacks OpenVINO's {library}",
        _OPENVINO_HINT,
        ("engine", "accelerator"),
    ),
    Rule(
        r"NPU accelerator could not be loaded and registered: (?P<why>[^\n]+?)\.?(?:\n|$)",
        "accelerator",
        "LiteRT's NPU library could not be loaded ({why})",
        _OPENVINO_HINT,
        ("engine", "accelerator"),
    ),
    Rule(
        r"only supports static-sized tensors with a graph that has dynamic-sized tensors",
        "accelerator",
        "the accelerator takes fixed shapes only, and this model decides some of its shapes while it runs",
        "Give the inputs a fixed shape, or use the CPU.",
        ("engine", "accelerator"),
    ),
    Rule(
        r"XNNPack delegate failed to reshape runtime",
        "model",
        "XNNPACK cannot lay out the model: the shapes of its tensors contradict each other",
        "With --kernel reference LiteRT names the operator.",
    ),
    Rule(
        r"UNIMPLEMENTED: Profile is not implemented",
        "accelerator",
        "LiteRT's GPU accelerator has no profiler",
        "hasten bench times the model on it as a whole; hasten accelerators shows which operators it takes.",
    ),
    Rule(
        r"Tensor (?P<tensor>\d+) is invalidly specified in schema",
        "model",
        "the file is damaged: the data of tensor {tensor} does not fit its shape and type",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Custom allocation is too small for tensor idx: (?P<tensor>\d+)",
        "model",
        "the file is damaged: tensor {tensor} has another size than its operator needs",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Signature has incorrect number of input/outputs",
        "model",
        "the file is damaged: a signature does not have the inputs and outputs of its graph",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Buffer index out of range",
        "model",
        "the file is damaged: a tensor refers to data that the file does not have",
        _DAMAGED_HINT,
    ),
    Rule(
        r"Model provided is schema version (?P<version>\d+) not equal to supported version (?P<known>\d+)",
        "model",
        "the file is of schema version {version}, and LiteRT reads version {known} only",
        _CONVERT_HINT,
    ),
    Rule(
        r"Invalid per-channel quantization parameters",
        "model",
        "LiteRT refuses the quantization of a tensor: its scales or zero points do not fit its channels",
        _CONVERT_HINT,
    ),
    Rule(
        r"Restored original execution plan after delegate application failure",
        "engine",
        "LiteRT could not hand the model's operators to its delegate",
        "On the CPU that is XNNPACK, and --kernel builtin does without it.",
    ),
    Rule(
        r"(?P<why>[^\n]+)\nNode number (?P<node>\d+) \((?P<op>\w+)\) failed to (?P<step>prepare|invoke)",
        "engine",
        "operator {op} (node {node}) failed to {step}: {why}",
    ),
    Rule(
        r"Node number (?P<node>\d+) \((?P<op>\w+)\) failed to (?P<step>prepare|invoke)",
        "engine",
        "operator {op} (node {node}) failed to {step}",
    ),
)


def diagnosed(failure: Failure, log: Sequence[str]) -> Failure:
    """The failure with the cause that the log gives, or as it was."""
    text = "\n".join(_PREFIX.sub("", line) for line in log)
    for rule in RULES:
        if failure.kind in rule.explains and (match := re.search(rule.pattern, text)):
            values = {name: _one_line(value or "unnamed") for name, value in match.groupdict().items()}
            return replace(
                failure, kind=rule.kind, message=rule.message.format(**values), hint=rule.hint or failure.hint
            )
    return failure


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())

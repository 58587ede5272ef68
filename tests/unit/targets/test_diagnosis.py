"""Recorded logs of LiteRT 2.3 and its accelerators → one sentence that names the cause."""

from __future__ import annotations

import string

import pytest

from hasten.core.failure import KINDS, NOT_INSTALLED, Failure
from hasten.targets.diagnosis import RULES, diagnosed

ENGINE = Failure("load", "engine", "LiteRtRunCompiledModel answered runtime failure (3)")
XNNPACK = "INFO: Created TensorFlow Lite XNNPACK delegate for CPU."
CUSTOM = """\
ERROR: [error_reporter.cc:27] Encountered unresolved custom op: Landmarks2TransformMatrix.
See instructions: https://www.tensorflow.org/lite/guide/ops_custom
ERROR: [error_reporter.cc:27] Node number 192 (Landmarks2TransformMatrix) failed to prepare.
ERROR: [litert_compiled_model.cc:164] Failed to allocate tensors"""
FLEX = """\
ERROR: [error_reporter.cc:27] Select TensorFlow op(s), included in the given model, is(are) not supported by this \
interpreter. Make sure you apply/link the Flex delegate before inference.
ERROR: [error_reporter.cc:27] Node number 1 (FlexErf) failed to prepare."""
VERSION = """\
ERROR: [error_reporter.cc:27] Didn't find op for builtin opcode 'ADD' version '99'. An older version of this builtin \
might be supported. Are you using an old TFLite binary with a newer model?
ERROR: [error_reporter.cc:27] Registration failed."""
QUANTIZATION = """\
ERROR: [error_reporter.cc:27] quantized_dimension must be in range [0, 1). Was 3.
ERROR: [error_reporter.cc:27] Tensor 76 has invalid quantization parameters.
ERROR: [error_reporter.cc:27] quantized_dimension must be in range [0, 1). Was 3.
ERROR: [error_reporter.cc:27] Tensor 80 has invalid quantization parameters."""
TYPE = """\
ERROR: [error_reporter.cc:27] tflite/kernels/cast.cc:542 Type UINT64 is unsupported by op Cast.
ERROR: [error_reporter.cc:27] Node number 0 (CAST) failed to invoke."""
SHAPES = """\
ERROR: [error_reporter.cc:27] XNNPack delegate failed to reshape runtime
ERROR: [error_reporter.cc:27] Node number 1 (TfLiteXNNPackDelegate) failed to prepare."""
NO_VULKAN = """\
Warning: Couldn't load Vulkan: libvulkan.so.1: cannot open shared object file: No such file or directory
    at operator() (third_party/dawn/src/dawn/native/vulkan/BackendVk.cpp:368)
ERROR: [delegate_webgpu.cc:359] Failed to initialize WebGPU environment: INTERNAL: No adapters found"""
NO_ADAPTER = "ERROR: [delegate_webgpu.cc:359] Failed to initialize WebGPU environment: INTERNAL: No adapters found"
GPU_LIST = """\
ERROR: [error_reporter.cc:27] Following operations are not supported by GPU delegate:
RESHAPE: Tensor type(INT64) is not supported. x
CAST: Not supported
No operations will run on the GPU, and all 2 operations will run on the CPU."""
NPU_LIBRARY = """\
ERROR: [shared_library.cc:81] libopenvino.so.2631: cannot open shared object file: No such file or directory
WARNING: [npu_registry.cc:34] NPU accelerator could not be loaded and registered: kLiteRtStatusErrorDynamicLoading."""
NPU = "WARNING: [npu_registry.cc:34] NPU accelerator could not be loaded and registered: kLiteRtStatusErrorNotFound."
NODE = """\
ERROR: [error_reporter.cc:27] tflite/kernels/concatenation.cc:158 t->dims->data[d] != t0->dims->data[d] (3 != 4)
ERROR: [error_reporter.cc:27] Node number 7 (CONCATENATION) failed to prepare."""

DAMAGED = """\
ERROR: [error_reporter.cc:27] tflite/core/subgraph.cc:1965 required_bytes <= bytes was not true.
ERROR: [error_reporter.cc:27] Tensor 3 is invalidly specified in schema."""
SPARSE = f"""\
WARNING: [model_load.cc:329] Sparsity tensors may not yet be fully supported.
WARNING: [compiler_plugin.cc:955] Applying plugin with unknown SDK version
{DAMAGED}"""


@pytest.mark.parametrize(
    ("log", "kind", "beginning", "end"),
    [
        (CUSTOM, "model", "The model needs the custom operator Landmarks2Tran", "which LiteRT does not have."),
        (FLEX, "model", "The model needs the TensorFlow operator FlexErf", "with the Flex delegate."),
        (VERSION, "model", "The model uses version 99 of the operator ADD", "LiteRT does not have."),
        (QUANTIZATION, "model", "LiteRT rejects the quantization of tensor 76: quantized_dimension", "Was 3."),
        (TYPE, "model", "LiteRT's operator Cast does not take", "tensors of type UINT64."),
        (SHAPES, "model", "XNNPACK cannot run the model", "contradict each other."),
        (
            NO_VULKAN,
            "accelerator",
            "The GPU accelerator cannot load Vulkan: libvulkan.so.1",
            "No such file or directory.",
        ),
        (NO_ADAPTER, "accelerator", "LiteRT's GPU accelerator found", "no usable GPU."),
        (GPU_LIST, "accelerator", "The GPU takes none of the model's operators: RESHAPE: T", "x; CAST: Not supported."),
        (NPU_LIBRARY, "accelerator", "The NPU accelerator needs OpenVINO's libopenvino.so.2631", "not installed."),
        (NPU, "accelerator", "LiteRT's NPU library does not load: ", "kLiteRtStatusErrorNotFound."),
        (DAMAGED, "model", "The file is damaged: the data of tensor 3", "its shape and type."),
        (SPARSE, "accelerator", "The accelerator takes no sparse tensors", "this model are sparse."),
        (NODE, "engine", "Operator CONCATENATION (node 7) failed to prepare: tflite/", "(3 != 4)."),
    ],
)
def test_the_log_names_the_cause(log: str, kind: str, beginning: str, end: str) -> None:
    found = diagnosed(ENGINE, (XNNPACK, *log.splitlines(), "and more"))
    assert (found.stage, found.kind) == ("load", kind)
    assert found.message.startswith(beginning)
    assert found.message.endswith(end)
    assert "\n" not in found.message


@pytest.mark.parametrize("log", [(), (XNNPACK,), ("something else went wrong",)])
def test_a_log_that_says_nothing_changes_nothing(log: tuple[str, ...]) -> None:
    assert diagnosed(ENGINE, log) == ENGINE


@pytest.mark.parametrize("kind", ["usage", "crash", "hang", "out of memory", "data"])
def test_a_failure_with_a_cause_of_its_own_keeps_it(kind: str) -> None:
    failure = Failure("load", kind, "the true cause")
    assert diagnosed(failure, CUSTOM.splitlines()) == failure


def test_the_table_is_sound() -> None:
    for rule in RULES:
        fields = {name for _, name, _, _ in string.Formatter().parse(rule.message) if name}
        assert all(f"(?P<{name}>" in rule.pattern for name in fields)
        assert rule.kind in KINDS
        assert set(rule.explains) <= set(KINDS)
        assert (rule.code == NOT_INSTALLED) == ("install" in rule.hint)

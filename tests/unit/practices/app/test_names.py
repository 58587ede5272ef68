"""Names in traces: TFLite's own are told from an application's, and those from what tells nothing."""

from __future__ import annotations

import pytest

from hasten.core.platform_trace import Frame
from hasten.practices.app.recorded.names import Meaning, frame_meaning, is_foreign, plain_name, section_meaning


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("CONV_2D@12/0", Meaning("operator", "CONV_2D", 12)),
        ("Flex Op: MatMul@3/1", Meaning("operator", "Flex Op: MatMul", 3, 1)),
        ("TfLiteGpuDelegateV2@80/0", Meaning("operator", "TfLiteGpuDelegateV2", 80, 0, True)),
        ("Invoke@0/0", Meaning("invoke")),
        ("Invoke@0/2", Meaning("invoke", subgraph=2)),
        ("AllocateTensors@0/0", Meaning("allocate")),
        ("ModifyGraphWithDelegate@0/0", Meaning("delegate")),
        ("CompiledModel Creation", Meaning("load")),
        ("CompiledModel Inference", Meaning("invoke")),
        ("LiteRT::Run[buffer registration]", Meaning("copy_in")),
        ("Background young concurrent copying GC", Meaning("gc")),
        ("preprocessFrame", Meaning("pre")),
        ("drawBoundingBoxes", Meaning("post")),
        ("onMessageReceived", Meaning("")),
        ("user@example.com", Meaning("")),
        ("", Meaning("")),
    ],
)
def test_a_section_means_what_its_writer_meant(name: str, meaning: Meaning) -> None:
    assert section_meaning(name) == meaning


@pytest.mark.parametrize(
    ("frame", "kind", "op"),
    [
        (Frame("Interpreter.invoke", "", "/x/site-packages/ai_edge_litert/interpreter.py", 9), "invoke", ""),
        (Frame("set_tensor", "", "tflite_runtime/interpreter.py", 9), "copy_in", ""),
        (Frame("__init__", "", "/x/tensorflow/lite/python/interpreter.py", 9), "load", ""),
        (Frame("get_input_details", "", "ai_edge_litert/interpreter.py", 9), "", ""),
        (Frame("xnn_f32_gemm_ukernel", "/x/libtensorflowlite_jni.so"), "operator", "xnn_f32_gemm_ukernel"),
        (Frame("tflite::ops::builtin::conv::Eval<1>(TfLiteContext*)", "/x/libtflite.so"), "operator", "CONV"),
        (Frame("tflite::Subgraph::Invoke()", "/x/libtensorflowlite_jni.so"), "invoke", ""),
        (Frame("[unknown]", "/data/app/lib/arm64/libLiteRt.so"), "operator", ""),
        (Frame("org.tensorflow.lite.NativeInterpreterWrapper.run"), "invoke", ""),
        (Frame("Interpreter.invoke()", "Camera"), "invoke", ""),
        (Frame("malloc", "/usr/lib/libc.so.6"), "", ""),
        (Frame("invoke", "", "/home/user/app/callbacks.py", 3), "", ""),
    ],
)
def test_a_function_is_tflites_by_its_name_its_package_or_its_library(frame: Frame, kind: str, op: str) -> None:
    found = frame_meaning(frame)

    assert (found.kind, found.op) == (kind, op)


@pytest.mark.parametrize(
    ("frame", "foreign"),
    [
        (Frame("f", "", "/home/user/app/main.py", 1), False),
        (Frame("f", "", "numpy/lib/io.py", 1), True),
        (Frame("f", "", "typing.py", 1), True),
        (Frame("f", "", "/venv/lib/python3.11/site-packages/PIL/Image.py", 1), True),
        (Frame("convertYuv", "/data/app/camera/libcamera_app.so"), False),
        (Frame("memcpy", "/apex/com.android.runtime/lib64/bionic/libc.so"), True),
        (Frame("[unknown]"), True),
    ],
)
def test_an_applications_own_code_is_told_from_its_packages(frame: Frame, foreign: bool) -> None:
    assert is_foreign(frame) == foreign


def test_a_comprehension_counts_to_its_function() -> None:
    assert plain_name("prepare.<locals>.<listcomp>.<listcomp>") == "prepare"
    assert plain_name("Camera.read") == "Camera.read"

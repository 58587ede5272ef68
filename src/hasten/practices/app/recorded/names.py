"""The meaning of names in a trace: LiteRT's sections, functions and libraries, and words that applications use.

TFLite's profilers for atrace and for signposts name a section `tag@first/second`: an operator with its node and its
subgraph, or `Invoke`, `AllocateTensors`, `ModifyGraphWithDelegate` (tflite/profiling/atrace_profiler.cc and
signpost_profiler.mm). LiteRT's own sections for Perfetto have plain names (litert/runtime/compiled_model.cc).
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hasten.practices.app.rules import FOREIGN_PATHS

if TYPE_CHECKING:
    from hasten.core.platform_trace import Frame

PART_OF_KIND: Final = {
    "load": "load",
    "delegate": "load",
    "allocate": "load",
    "buffer": "load",
    "copy_in": "copy_in",
    "invoke": "inference",
    "operator": "inference",
    "copy_out": "copy_out",
    "start": "start",
    "pre": "pre",
    "post": "post",
    "waiting": "waiting",
    "gc": "other",
}
TFLITE_KINDS: Final = frozenset({"load", "delegate", "allocate", "buffer", "copy_in", "invoke", "operator", "copy_out"})


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a section or a function is; `kind` is empty where the name says nothing."""

    kind: str
    op: str = ""
    node: int = -1
    subgraph: int = 0
    delegate: bool = False

    @property
    def is_tflite(self) -> bool:
        """Whether TFLite itself is at work."""
        return self.kind in TFLITE_KINDS


NOTHING: Final = Meaning("")
_TAGGED: Final = re.compile(r"^(?P<tag>\S.*)@(?P<first>-?\d{1,19})/(?P<second>-?\d{1,19})$")
_TAGS: Final = {
    "Invoke": "invoke",
    "AllocateTensors": "allocate",
    "ModifyGraphWithDelegate": "delegate",
    "LiteRT::Run[buffer registration]": "copy_in",
    "LiteRT::Run[Buffer sync]": "copy_out",
}
_PLAIN: Final = {
    "CompiledModel Creation": "load",
    "CompiledModel Runtime Initialization": "load",
    "CompiledModel Graph Loading": "load",
    "CompiledModel Graph Loading From Cache": "load",
    "CompiledModel Graph Conversion": "load",
    "CompiledModel TFLite Graph Conversion": "load",
    "CompiledModel Delegate Graph Conversion": "delegate",
    "LiteRT Graph Loading From File": "load",
    "LiteRT Graph Loading From Buffer": "load",
    "LiteRT Graph Loading From Fd": "load",
    "CompilerPlugin Partition": "load",
    "CompilerPlugin Compile": "load",
    "Dispatch API Initialization": "load",
    "CompiledModel Inference": "invoke",
    "CompiledModel Invoke": "invoke",
    "CompiledModel Buffer Registration": "copy_in",
    "CompiledModel Buffer Allocation": "buffer",
    "LiteRT TensorBuffer Allocation": "buffer",
    "LiteRT::Run[buffer registration]": "copy_in",
    "LiteRT::Run[Buffer sync]": "copy_out",
}
_DELEGATE: Final = re.compile(r"^TfLite\w*Delegate\w*$|^DELEGATE$|Dispatch API ")
_CATEGORIES: Final = {"run": "invoke", "start-up": "load"}
_GC: Final = re.compile(r"\bGC\b|\bWaitForGc|[Gg]arbage|\bgc_collect|concurrent copying")
_PRE: Final = re.compile(
    r"pre.?proc|preproc|resize|decode|normali[sz]|bitmap|to.?rgb|yuv|crop|letterbox|grayscale|load_?image|read_?image"
    r"|imread|capture|toTensor|to_?tensor|feature|spectrogram|mfcc|tokeni[sz]|convert_?image|image_?to",
    re.IGNORECASE,
)
_POST: Final = re.compile(
    r"post.?proc|postproc|soft_?max|arg_?max|top.?k|non_?max|\bnms\b|draw|render|overlay|label|annotate|decode_?box"
    r"|dequanti[sz]|show_?result|display",
    re.IGNORECASE,
)
# Functions, as perf, Instruments and Perfetto's sampler write them; C++ names may be whole signatures.
_FUNCTIONS: Final = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"InterpreterBuilder|FlatBufferModel|TfLiteModelCreate|TfLiteInterpreterCreate|^cpuinfo_", "load"),
        (r"LiteRtCreateModel", "load"),
        (r"LiteRtCreateCompiledModel|LiteRtCompiledModelT::Create|org\.tensorflow\.lite\.\w+\.<init>", "load"),
        (r"ModifyGraphWithDelegate|ApplyLazyDelegateProviders", "delegate"),
        (r"AllocateTensors|Interpreter\.allocateTensors|ResizeInputTensor", "allocate"),
        (r"LiteRtCreate\w*TensorBuffer", "buffer"),
        (r"TensorImpl\.setTo|Interpreter\.copy\(_:toInputAt:\)|TfLiteTensorCopyFromBuffer", "copy_in"),
        (r"InterpreterWrapper::SetTensor", "copy_in"),
        (r"TensorImpl\.copyTo|Interpreter\.output\(at:\)|TfLiteTensorCopyToBuffer", "copy_out"),
        (r"InterpreterWrapper::GetTensor", "copy_out"),
        (r"Interpreter::Invoke|Subgraph::Invoke|TfLiteInterpreterInvoke|SignatureRunner::Invoke", "invoke"),
        (r"LiteRtRunCompiledModel|LiteRtCompiledModelT::Run|InterpreterWrapper::Invoke", "invoke"),
        (r"(tensorflow\.lite|ai\.edge\.litert)\.\w+\.run|Interpreter\.invoke\(\)|XNNPackDelegate", "invoke"),
    )
)
_KERNEL: Final = re.compile(r"^(xnn_|ynn_|pthreadpool_|ruy::|gemmlowp|tflite::|litert::|TfLite|LiteRt)")
_INNER: Final = re.compile(r"\.<locals>\.<\w+>.*$|^<(listcomp|genexpr|lambda)>$")
_BUILTIN: Final = re.compile(r"tflite::ops::(?:builtin|custom)::(\w+?)::(?:\w+::)*(?:Eval|Prepare|Invoke)")
_LIBRARY: Final = re.compile(
    r"libtensorflowlite|libtflite|TensorFlowLite|libLiteRt|liblitert|libpywrap_litert|_pywrap_\w*litert|XNNPACK"
    r"|_pywrap_tensorflow_interpreter_wrapper|tensorflow_interpreter|ai_edge_litert/.*\.so|tflite_runtime/.*\.so"
)
_PYTHON_PACKAGE: Final = re.compile(r"(ai_edge_litert|tflite_runtime|tensorflow[/.]lite[/.]python)")
_PYTHON: Final = {
    "__init__": "load",
    "from_file": "load",
    "from_buffer": "load",
    "load_delegate": "load",
    "allocate_tensors": "allocate",
    "resize_tensor_input": "allocate",
    "set_tensor": "copy_in",
    "write": "copy_in",
    "get_tensor": "copy_out",
    "read": "copy_out",
    "invoke": "invoke",
    "_invoke": "invoke",
    "run_by_index": "invoke",
    "run_by_name": "invoke",
    "__call__": "invoke",
    "create_input_buffers": "buffer",
    "create_output_buffers": "buffer",
    "create_input_buffer_by_name": "buffer",
    "create_output_buffer_by_name": "buffer",
}
_WAITING: Final = frozenset(
    {
        "wait",
        "_wait_for_tstate_lock",
        "select",
        "poll",
        "epoll_wait",
        "acquire",
        "sleep",
        "join",
        "futex_wait",
        "__futex_abstimed_wait",
        "nanosleep",
        "clock_nanosleep",
        "mach_msg2_trap",
        "__psynch_cvwait",
        "__semwait_signal",
    }
)
_FOREIGN: Final = (*FOREIGN_PATHS, "<__array_function__")
_SYSTEM: Final = re.compile(
    r"libpython|/libc[.-]|libm[.-]|ld-linux|\[kernel|\[unknown\]|vmlinux|\[vdso\]|libstdc|libgcc|libgomp|libpthread|/numpy|"
    r"site-packages|dist-packages|openblas|libart|boot[^/]*\.oat|/apex/|/system/|libsystem|dyld|/System/Library|/usr/lib/"
)
# py-spy's folded stacks name a file from its package on: `numpy/lib/io.py`, `typing.py`.
_PACKAGES: Final = frozenset(
    {*sys.stdlib_module_names, "numpy", "PIL", "cv2", "scipy", "ai_edge_litert", "tflite_runtime", "tensorflow"}
)
_IMPORTING: Final = frozenset({"_find_and_load", "_call_with_frames_removed", "exec_module"})


@lru_cache(maxsize=65536)
def section_meaning(name: str, category: str = "", node: int | None = None) -> Meaning:
    """What a section is, by its name; by its category and arguments too where hasten itself wrote the trace."""
    if (tagged := _TAGGED.match(name)) is not None:
        tag, first, second = tagged["tag"], int(tagged["first"]), int(tagged["second"])
        kind = _TAGS.get(tag, "operator")
        if kind != "operator":
            return Meaning(kind, subgraph=second)
        return Meaning(kind, tag, first, second, _DELEGATE.search(tag) is not None)
    if name in _PLAIN:
        return Meaning(_PLAIN[name])
    if name.startswith("Dispatch API "):
        return Meaning("operator", name, delegate=True)
    if node is not None:
        return Meaning("operator", name, node)
    if category in _CATEGORIES:
        return Meaning("invoke" if name == "first run" else _CATEGORIES[category])
    return Meaning(app_kind(name))


def app_kind(name: str) -> str:
    """What an application's own section or function seems to be for, by its words; empty where they say nothing."""
    if _GC.search(name):
        return "gc"
    return "post" if _POST.search(name) else "pre" if _PRE.search(name) else ""


@lru_cache(maxsize=65536)
def frame_meaning(frame: Frame) -> Meaning:
    """What a function is, if it is TFLite's: by its name, its package, or the library that it lies in."""
    if _PYTHON_PACKAGE.search(frame.file) and not frame.file.endswith(".so"):
        return Meaning(_PYTHON.get(frame.function.rpartition(".")[2], ""))
    for pattern, kind in _FUNCTIONS:
        if pattern.search(frame.function):
            return Meaning(kind)
    if _KERNEL.match(frame.function) or _LIBRARY.search(frame.module):
        return Meaning("operator", _operator_of(frame))
    return NOTHING


def is_waiting(frame: Frame) -> bool:
    """Whether an innermost function only waits."""
    return frame.function.rpartition(".")[2] in _WAITING


def plain_name(function: str) -> str:
    """A function's name; what it does in a comprehension or a lambda is its own."""
    return _INNER.sub("", function) or function


def is_foreign(frame: Frame) -> bool:
    """Whether a frame is Python's, a package's or the system's rather than the application's own."""
    if not frame.file:
        return frame.function.startswith("[") or _SYSTEM.search(frame.module) is not None
    first = frame.file.partition("/")[0].removesuffix(".py")
    return first in _PACKAGES or any(mark in frame.file for mark in _FOREIGN)


def is_importing(frame: Frame) -> bool:
    """Whether Python is importing a module."""
    return frame.function in _IMPORTING and "importlib" in frame.file


def _operator_of(frame: Frame) -> str:
    """The operator that a kernel's name tells, or the kernel; nothing where symbols are missing."""
    if (builtin := _BUILTIN.search(frame.function)) is not None:
        return builtin[1].upper()
    return frame.function.partition("(")[0] if _KERNEL.match(frame.function) else ""

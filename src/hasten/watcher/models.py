"""The model of an interpreter, and the options that it runs with."""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .recorder import Recorder

_NAMES: Final = ("model_path", "model_content", "experimental_delegates", "num_threads")
_LARGEST_KEPT: Final = 256 * 2**20


def describe_model(
    interpreter: Any, arguments: tuple[Any, ...], options: dict[str, Any], recorder: Recorder
) -> dict[str, Any]:
    """What the constructor of an Interpreter was given."""
    given = {**dict(zip(_NAMES, arguments, strict=False)), **options}
    content = given.get("model_content")
    resolver = given.get("experimental_op_resolver_type")
    return {
        "type": "Interpreter",
        "package": type(interpreter).__module__,
        "threads": given.get("num_threads"),
        "delegates": len(given.get("experimental_delegates") or ()),
        "resolver": getattr(resolver, "name", "") or "",
        **(model_in_memory(content, recorder) if content else model_in_file(given.get("model_path"))),
    }


def model_in_file(path: Any) -> dict[str, Any]:
    """A model by its path. What has the same path and age is the same model."""
    full = os.path.abspath(os.fsdecode(path)) if path else ""  # noqa: PTH100 (pathlib is slow to import)
    age = 0
    with contextlib.suppress(OSError):
        age = os.stat(full).st_mtime_ns  # noqa: PTH116
    return {"model": full, "key": f"{full}:{age}"}


def model_in_memory(content: Any, recorder: Recorder) -> dict[str, Any]:
    """A model given as bytes; kept in a file, so that it can be measured once the program has ended."""
    with memoryview(content) as view:
        key = f"{view.nbytes}-{zlib.adler32(view[: 1 << 20]):08x}{zlib.adler32(view[-(1 << 20) :]):08x}"
        path = os.path.join(recorder.folder, f"model-{key}.tflite")  # noqa: PTH118
        if not os.path.exists(path) and view.nbytes <= _LARGEST_KEPT:  # noqa: PTH110
            with contextlib.suppress(OSError):
                _write(path, view)
    return {"model": path if os.path.exists(path) else "", "key": key, "in_memory": True}  # noqa: PTH110


def _write(path: str, view: memoryview) -> None:
    part = f"{path}.{os.getpid()}"
    with open(part, "wb") as stream:  # noqa: PTH123
        stream.write(view)
    os.replace(part, path)  # noqa: PTH105

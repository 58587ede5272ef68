"""Programs that run LiteRT without its Python classes: what is seen of it is said, and what is not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from hasten import api
from hasten.demo import MODEL
from hasten.practices.app.rules import finding_of
from hasten.watcher.native import runtime_libraries

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.practices.app.facts import WatchedFound

BY_CTYPES = f"""
import hasten  # its Runner calls LiteRT's C interface by ctypes

with hasten.Runner({str(MODEL)!r}, hasten.Plan(threads=2)) as runner:
    for _ in range(100):
        runner.run()
"""
IMPORTED_ONLY = "import ai_edge_litert.interpreter, ai_edge_litert.compiled_model"


def watched(tmp_path: Path, text: str) -> WatchedFound:
    program = tmp_path / "program.py"
    program.write_text(text)
    with (tmp_path / "output").open("w") as nowhere:
        return api.app([sys.executable, str(program)], output=nowhere.fileno(), replay=False)


def test_a_library_that_is_loaded_by_ctypes_is_named(tmp_path: Path) -> None:
    found = watched(tmp_path, BY_CTYPES)
    assert finding_of(found).remark.code == "app.native-litert"
    headline = api.markdown(found)
    assert "libLiteRt.so" in headline
    assert "does not see models, runs and copies" in headline
    assert "hasten app --from" in headline
    data = api.document(found)["native"]
    assert data["libraries"][0].endswith("libLiteRt.so")


def test_an_import_alone_is_no_use_of_it(tmp_path: Path) -> None:
    found = watched(tmp_path, IMPORTED_ONLY)
    assert found.native is None
    assert finding_of(found).remark.code == "app.no-litert"


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        ({"/usr/lib/libc.so.6", "[heap]", "/x/model.tflite"}, []),
        ({"/x/libtensorflowlite_c.so"}, ["/x/libtensorflowlite_c.so"]),
        ({"/x/libtensorflow-lite.so.2.16"}, ["/x/libtensorflow-lite.so.2.16"]),
        ({"/x/libLiteRt.so", "/x/_pywrap_litert_interpreter_wrapper.so"}, []),
        ({"/y/libLiteRt.so", "/x/_pywrap_litert_interpreter_wrapper.so"}, ["/y/libLiteRt.so"]),
    ],
)
def test_libraries_behind_the_python_classes_do_not_count(paths: set[str], named: list[str]) -> None:
    assert runtime_libraries(paths) == named

"""The generated Kotlin passes kotlinc's type check against declarations of LiteRT's interfaces for Android."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hasten.bundle.code import snippet_in
from hasten.bundle.code_kotlin import kotlin_follows
from hasten.bundle.record import Bundle, BundleTensor
from hasten.core.plan import Plan, Workload

_DECLARATIONS = Path(__file__).parents[2] / "data" / "litert_kotlin"
_X = BundleTensor("x", "float32", (1, 32, 32, 3))
_ODD = BundleTensor('a"b\\c$d\n*/é', "int8", (1, 4), 0.5, -1)
_TOKENS = BundleTensor("tokens", "int64", (1, 128))
_GPU = Plan(accelerator="gpu", precision="fp16", threads=2)

_USE_OF_BUFFERS = """
fun use(model: FastModel): Byte {
  model.input0.asFloatBuffer().put(FloatArray(3072))
  model.run()
  return model.output0.get(0).also { model.close() }
}
"""
_USE_OF_ARRAYS = """
fun use(model: FastModel): Byte {
  model.input0.writeFloat(FloatArray(3072))
  model.run()
  return model.output0.readInt8()[0].also { model.close() }
}
"""


def _cases(folder: Path) -> list[Bundle]:
    plans = [
        (Plan(threads=3), Workload()),
        (Plan(kernel="builtin", cores=(0,), cache="c"), Workload(shapes=(("x", (1, 16, 16, 3)),))),
        (Plan(options=(("cpu.flags", "1"),)), Workload(signature="serve $x")),
        (_GPU, Workload()),
        (Plan(accelerator="gpu"), Workload(signature="serve")),
    ]
    return [
        Bundle(folder, plan=plan, workload=workload, inputs=(_X, _TOKENS), outputs=(_ODD, _X))
        for plan, workload in plans
    ]


@pytest.mark.skipif(shutil.which("kotlinc") is None, reason="kotlinc is not installed (make kotlin)")
def test_the_compiler_takes_it(tmp_path: Path) -> None:
    sources = []
    for number, bundle in enumerate(_cases(tmp_path)):
        use = _USE_OF_BUFFERS if bundle.plan.accelerator == "cpu" else _USE_OF_ARRAYS
        path = tmp_path / f"case{number}.kt"
        path.write_text(f"package case{number}\n{snippet_in('kotlin', bundle)}{use}")
        sources.append(path)
    paths = [*sources, *sorted(_DECLARATIONS.iterdir()), "-d", tmp_path / "classes"]
    command = ["kotlinc", "-Werror", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "classes" / "case4" / "FastModel.class").exists()


def test_the_code_has_the_plan_and_names_what_it_cannot_set(tmp_path: Path) -> None:
    threads, resized, option, gpu, _ = (snippet_in("kotlin", bundle) for bundle in _cases(tmp_path))
    assert "setNumThreads(3).setUseXNNPACK(true)" in threads
    assert "does not set" not in threads
    assert "setUseXNNPACK(false)" in resized
    assert "resizeInput(0, intArrayOf(1, 16, 16, 3))" in resized
    assert "does not set the cores 0" in resized
    assert "does not set a cache" in resized
    assert "does not set the engine option cpu.flags = 1" in option
    assert '"a\\u0022b\\u005cc\\u0024d\\u000a*/\\u00e9" to output0' in option
    assert "Precision.FP16" in gpu
    assert "numThreads = 2" in gpu


def test_what_the_interfaces_cannot_do_is_not_written(tmp_path: Path) -> None:
    half = BundleTensor("h", "float16", (1, 4))
    assert kotlin_follows(Bundle(tmp_path, inputs=(half,)))
    assert not kotlin_follows(Bundle(tmp_path, plan=_GPU, inputs=(half,)))
    assert not kotlin_follows(Bundle(tmp_path, plan=_GPU, workload=Workload(shapes=(("x", (1,)),))))
    assert not kotlin_follows(Bundle(tmp_path, plan=Plan(accelerator="npu")))

"""Kotlin for a bundle's model. On the CPU LiteRT's Interpreter with direct ByteBuffers, the nearest to the engine's
memory that its interfaces for Android come; elsewhere CompiledModel, whose buffers take and give arrays only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.report.code_words import byte_count, headline, kotlin_string, tensor_comment, types_of

if TYPE_CHECKING:
    from hasten.core.bundle import Bundle, BundleTensor

_HEAD: Final = """// Runs {headline}. Written by hasten.
// UNTESTED: no compiler has seen it yet.
//
// {about}
// One thread at a time, and not the main thread.
"""

_INTERPRETER: Final = """
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.tensorflow.lite.Interpreter

class FastModel(model: File) : AutoCloseable {{
  private val interpreter = Interpreter(model, Interpreter.Options().apply {{
    setNumThreads({threads})
    setUseXNNPACK({xnnpack})
  }})
{buffers}
  private val inputs: Map<String, Any> = mapOf({inputs})
  private val outputs: MutableMap<String, Any> = mutableMapOf({outputs})
{resizes}
  /** One inference on what stands in the input buffers. */
  fun run() {{
    (inputs.values + outputs.values).forEach {{ (it as ByteBuffer).rewind() }}
    {run}
  }}

  override fun close() = interpreter.close()

  private fun direct(bytes: Int): ByteBuffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())
}}
"""

_COMPILED: Final = """
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.TensorBuffer

class FastModel(path: String) : AutoCloseable {{
  private val options = CompiledModel.Options(Accelerator.{accelerator}, Accelerator.CPU).apply {{
    cpuOptions = CompiledModel.CpuOptions(numThreads = {threads}){gpu}
  }}
  private val model = CompiledModel.create(path, options)
{buffers}

  /** One inference on what was written. */
  fun run() = model.run(listOf({inputs}), listOf({outputs}){signature})

  override fun close() {{
    listOf({all}).forEach {{ it.close() }}
    model.close()
  }}
}}
"""


def kotlin_code(bundle: Bundle) -> str:
    """A class whose properties are the model's inputs and outputs."""
    plan = bundle.plan
    on_cpu = plan.accelerator == "cpu" and not plan.delegate
    about = (
        "Direct buffers are filled and read in place; LiteRT copies each once in native code, and nothing in Java."
        if on_cpu
        else "This interface copies arrays in and out: fill and keep one array for each input, and no lists."
    )
    notes = [f"// Plan option not written here: {key} = {value}".replace("\n", " ") for key, value in plan.options]
    head = _HEAD.format(headline=headline(bundle), about=about) + "".join(f"{note}\n" for note in notes)
    return head + (_interpreter(bundle) if on_cpu else _compiled(bundle))


def _interpreter(bundle: Bundle) -> str:
    key = bundle.workload.signature
    run = f"interpreter.runSignature(inputs, outputs{f', {kotlin_string(key)}' if key else ''})"
    return _INTERPRETER.format(
        threads=bundle.plan.threads,
        xnnpack=str(bundle.plan.kernel == "delegate").lower(),
        buffers="\n".join(_direct(tensor, name) for tensor, name in _named(bundle)),
        inputs=_pairs(bundle.inputs, "input"),
        outputs=_pairs(bundle.outputs, "output"),
        resizes=_resizes(bundle),
        run=run,
    )


def _compiled(bundle: Bundle) -> str:
    plan, key = bundle.plan, bundle.workload.signature
    gpu = "CompiledModel.GpuOptions"
    precision = f"\n    gpuOptions = {gpu}(precision = {gpu}.Precision.{plan.precision.upper()})"
    signature = f", {kotlin_string(key)}" if key else ""
    names = [name for _, name in _named(bundle)]
    buffers = [
        f"  /** {tensor_comment(tensor)} */\n"
        f"  val {name}: TensorBuffer ="
        f" model.create{name.rstrip('0123456789').capitalize()}Buffer({kotlin_string(tensor.name)}{signature})"
        for tensor, name in _named(bundle)
    ]
    return _COMPILED.format(
        accelerator=plan.accelerator.upper(),
        threads=plan.threads,
        gpu=precision if plan.accelerator == "gpu" and plan.precision != "default" else "",
        buffers="\n".join(buffers),
        inputs=", ".join(name for name in names if name.startswith("input")),
        outputs=", ".join(name for name in names if name.startswith("output")),
        all=", ".join(names),
        signature=signature,
    )


def _named(bundle: Bundle) -> list[tuple[BundleTensor, str]]:
    inputs = [(tensor, f"input{i}") for i, tensor in enumerate(bundle.inputs)]
    return inputs + [(tensor, f"output{i}") for i, tensor in enumerate(bundle.outputs)]


def _direct(tensor: BundleTensor, name: str) -> str:
    view = types_of(tensor)[2]
    hint = f"; {name}.{view} has its elements" if view else ""
    return f"  /** {tensor_comment(tensor)}{hint} */\n  val {name}: ByteBuffer = direct({byte_count(tensor)})"


def _pairs(tensors: tuple[BundleTensor, ...], side: str) -> str:
    return ", ".join(f"{kotlin_string(tensor.name)} to {side}{i}" for i, tensor in enumerate(tensors))


def _resizes(bundle: Bundle) -> str:
    positions = {tensor.name: i for i, tensor in enumerate(bundle.inputs)}
    lines = [
        f"    interpreter.resizeInput({positions[name]}, intArrayOf({', '.join(map(str, shape))}))"
        for name, shape in bundle.workload.shapes
        if name in positions
    ]
    return "\n".join(("\n  init {", *lines, "  }\n")) if lines else ""

"""Swift for a bundle's model, on LiteRT's compiled-model interface: buffers are locked and worked on in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.report.code_words import headline, swift_string, tensor_comment, types_of

if TYPE_CHECKING:
    from hasten.core.bundle import Bundle, BundleTensor

_ACCELERATORS: Final = {"cpu": "[.cpu]", "gpu": "[.gpu, .cpu]", "npu": "[.npu, .cpu]"}

_TEMPLATE: Final = """// Runs {headline}. Written by hasten for LiteRT's Swift package.
// UNTESTED: no compiler has seen it yet.
//
// Inputs are written into the model's own buffers and outputs are read from them: no copies of ours.
// One thread at a time.

import Foundation
import LiteRT

final class FastModel {{
  private let environment: Environment
  private let model: CompiledModel
  private let inputs: [TensorBuffer]
  private let outputs: [TensorBuffer]
  private let inputNames: [String: Int]
  private let outputNames: [String: Int]
  private static let signature = {signature}

  init(path: String) throws {{
    environment = try Environment()
    let options = try Options()
    try options.setHardwareAccelerators({accelerator})
    // The CPU's options are TOML text; LiteRT frees it with the function that it is given.
    guard let text = strdup({cpu_options}) else {{ throw LiteRtError.runtimeFailure }}
    try options.addOpaqueOptions(OpaqueOptions(identifier: "xnnpack", payload: text) {{ free($0) }})
{more}    model = try CompiledModel(filePath: path, environment: environment, options: options)
    let index = Self.signature.isEmpty ? 0 : try model.signatureKeys().firstIndex(of: Self.signature) ?? 0
    signatureIndex = index
    inputs = try model.createInputBuffers(signatureIndex: index)
    outputs = try model.createOutputBuffers(signatureIndex: index)
    let found = model
    inputNames = try Dictionary(uniqueKeysWithValues: (0..<inputs.count).map {{
      (try found.inputName(inputIndex: $0, signatureIndex: index), $0)
    }})
    outputNames = try Dictionary(uniqueKeysWithValues: (0..<outputs.count).map {{
      (try found.outputName(outputIndex: $0, signatureIndex: index), $0)
    }})
  }}

  private let signatureIndex: Int

{accessors}
  /// One inference on what stands in the inputs.
  func run() throws {{
    try model.run(inputs: inputs, outputs: outputs, signatureIndex: signatureIndex)
  }}

  private func withMemory<T, R>(
    _ buffer: TensorBuffer, _ mode: TensorBufferLockMode, _ kind: T.Type,
    _ body: (UnsafeMutableBufferPointer<T>) throws -> R
  ) throws -> R {{
    let memory = try buffer.lock(mode: mode)
    defer {{ try? buffer.unlock() }}
    let count = buffer.size / MemoryLayout<T>.stride
    return try body(UnsafeMutableBufferPointer(start: memory.assumingMemoryBound(to: T.self), count: count))
  }}
}}

// Example:
//   let model = try FastModel(path: Bundle.main.path(forResource: "model", ofType: "tflite")!)
{example}
"""


def swift_code(bundle: Bundle) -> str:
    """A class, and an example in a comment."""
    plan = bundle.plan
    options = f'"num_threads = {plan.threads}\\nkernel_mode = \\"{plan.kernel}\\"\\n"'
    notes = [f"Plan option not written here: {key} = {value}".replace("\n", " ") for key, value in plan.options]
    if plan.delegate:
        notes.append("The plan has an external delegate, which the Swift interface loads in another way.")
    return _TEMPLATE.format(
        headline=headline(bundle),
        signature=swift_string(bundle.workload.signature),
        accelerator=_ACCELERATORS[plan.accelerator],
        cpu_options=options,
        more="".join(f"    // {note}\n" for note in notes),
        accessors="\n".join(
            (
                *(_accessor(tensor, i, "input") for i, tensor in enumerate(bundle.inputs)),
                *(_accessor(tensor, i, "output") for i, tensor in enumerate(bundle.outputs)),
            )
        ),
        example="\n".join(_example(bundle)),
    )


def _accessor(tensor: BundleTensor, number: int, side: str) -> str:
    kind, mode = types_of(tensor)[1], ".write" if side == "input" else ".read"
    name = swift_string(tensor.name)
    return (
        f"  /// {tensor_comment(tensor)}; the pointer is good inside the closure only.\n"
        f"  func {side}{number}<R>(_ body: (UnsafeMutableBufferPointer<{kind}>) throws -> R) throws -> R {{\n"
        f"    try withMemory({side}s[{side}Names[{name}]!], {mode}, {kind}.self, body)\n"
        "  }\n"
    )


def _example(bundle: Bundle) -> list[str]:
    lines = [
        f"//   try model.input{i} {{ $0.initialize(repeating: {'false' if tensor.dtype == 'bool' else '0'}) }}"
        for i, tensor in enumerate(bundle.inputs)
    ]
    lines.append("//   try model.run()")
    return lines + [f"//   try model.output{i} {{ print($0.prefix(5)) }}" for i, _ in enumerate(bundle.outputs)]

"""C++ for a bundle's model, on LiteRT's compiled-model interface: buffers are locked and worked on in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.report.code_words import c_string, headline, tensor_comment, types_of

if TYPE_CHECKING:
    from hasten.core.bundle import Bundle

_ACCELERATORS: Final = {
    "cpu": "litert::HwAccelerators::kCpu",
    "gpu": "litert::HwAcceleratorSet(litert::HwAccelerators::kGpu | litert::HwAccelerators::kCpu)",
    "npu": "litert::HwAcceleratorSet(litert::HwAccelerators::kNpu | litert::HwAccelerators::kCpu)",
}
_KERNELS: Final = {"builtin": "kLiteRtCpuKernelModeBuiltin", "reference": "kLiteRtCpuKernelModeReference"}
_PRECISIONS: Final = {"fp16": "kFp16", "fp32": "kFp32"}

_TEMPLATE: Final = """// Runs {headline}. Written by hasten for LiteRT's C++ SDK.
// UNTESTED: hasten has checked its syntax at most, and has not run it.
//
// Inputs are written into the model's own buffers and outputs are read from them: no copies of ours.
// One thread at a time.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "litert/cc/litert_common.h"
#include "litert/cc/litert_compiled_model.h"
#include "litert/cc/litert_environment.h"
#include "litert/cc/litert_expected.h"
#include "litert/cc/litert_macros.h"
#include "litert/cc/litert_options.h"
#include "litert/cc/litert_tensor_buffer.h"

class FastModel {{
 public:
  static litert::Expected<FastModel> Load(const std::string& path) {{
    LITERT_ASSIGN_OR_RETURN(auto environment, litert::Environment::Create({{}}));
    LITERT_ASSIGN_OR_RETURN(auto options, litert::Options::Create());
    LITERT_RETURN_IF_ERROR(options.SetHardwareAccelerators({accelerator}));
    LITERT_ASSIGN_OR_RETURN(auto& cpu, options.GetCpuOptions());
    LITERT_RETURN_IF_ERROR(cpu.SetNumThreads({threads}));
{more}    LITERT_ASSIGN_OR_RETURN(auto model, litert::CompiledModel::Create(environment, path, options));
    std::vector<litert::TensorBuffer> inputs, outputs;
{buffers}    return FastModel(std::move(environment), std::move(model), std::move(inputs), std::move(outputs));
  }}

{accessors}
  // One inference on what stands in the inputs. Unlock them first.
  litert::Expected<void> Run() {{ return model_.Run({signature}inputs_, outputs_); }}

 private:
  FastModel(litert::Environment&& environment, litert::CompiledModel&& model,
            std::vector<litert::TensorBuffer>&& inputs, std::vector<litert::TensorBuffer>&& outputs)
      : environment_(std::move(environment)),
        model_(std::move(model)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {{}}

  litert::Environment environment_;
  litert::CompiledModel model_;
  std::vector<litert::TensorBuffer> inputs_, outputs_;
}};

// Example: zeros in, the first output out.
litert::Expected<void> Example(const std::string& path) {{
  LITERT_ASSIGN_OR_RETURN(auto model, FastModel::Load(path));
{example}  LITERT_RETURN_IF_ERROR(model.Run());
{result}  return {{}};
}}
"""


def cpp_code(bundle: Bundle) -> str:
    """A class, and a function that shows its use."""
    signature = f"{c_string(bundle.workload.signature)}, " if bundle.workload.signature else ""
    return _TEMPLATE.format(
        headline=headline(bundle),
        accelerator=_ACCELERATORS[bundle.plan.accelerator],
        threads=bundle.plan.threads,
        more=_more_options(bundle),
        buffers=_buffers(bundle, signature),
        accessors="\n".join((*_accessors(bundle, "Input"), *_accessors(bundle, "Output"))),
        signature=signature,
        example=_example(bundle),
        result=_result(bundle),
    )


def _more_options(bundle: Bundle) -> str:
    plan, lines = bundle.plan, []
    if plan.kernel in _KERNELS:
        lines.append(f"LITERT_RETURN_IF_ERROR(cpu.SetKernelMode({_KERNELS[plan.kernel]}));")
    if plan.accelerator == "gpu" and plan.precision in _PRECISIONS:
        lines.append("LITERT_ASSIGN_OR_RETURN(auto& gpu, options.GetGpuOptions());")
        precision = f"litert::GpuOptions::Precision::{_PRECISIONS[plan.precision]}"
        lines.append(f"LITERT_RETURN_IF_ERROR(gpu.SetPrecision({precision}));")
    if plan.accelerator == "npu":
        lines.append("// The environment above must name the vendor's dispatch library, see litert_environment.h.")
    lines += [f"// Plan option not written here: {key} = {value}".replace("\n", " ") for key, value in plan.options]
    if plan.delegate:
        lines.append("// The plan has an external delegate, which the C++ interface loads in another way.")
    return "".join(f"    {line}\n" for line in lines)


def _buffers(bundle: Bundle, signature: str) -> str:
    lines = []
    for side, tensors in (("Input", bundle.inputs), ("Output", bundle.outputs)):
        for i, tensor in enumerate(tensors):
            name, low = c_string(tensor.name), side.lower()
            lines.append(f"LITERT_ASSIGN_OR_RETURN(auto {low}_{i}, model.Create{side}Buffer({signature}{name}));")
            lines.append(f"{low}s.push_back(std::move({low}_{i}));")
    return "".join(f"    {line}\n" for line in lines)


def _accessors(bundle: Bundle, side: str) -> list[str]:
    mode = "kWrite" if side == "Input" else "kRead"
    lines = []
    for i, tensor in enumerate(bundle.inputs if side == "Input" else bundle.outputs):
        lines.append(f"  // {tensor_comment(tensor)}; unlocked when the pair goes out of scope.")
        lines.append(f"  auto {side}{i}() {{")
        lines.append(f"    return litert::TensorBufferScopedLock::Create<{types_of(tensor)[0]}>(")
        lines.append(f"        {side.lower()}s_[{i}], litert::TensorBuffer::LockMode::{mode});")
        lines.append("  }")
    return lines


def _example(bundle: Bundle) -> str:
    lines = []
    for i, tensor in enumerate(bundle.inputs):
        count = " * ".join(str(max(size, 1)) for size in tensor.shape) or "1"
        lines.append("{")
        lines.append(f"  LITERT_ASSIGN_OR_RETURN(auto locked, model.Input{i}());")
        lines.append(f"  std::memset(locked.second, 0, sizeof({types_of(tensor)[0]}) * {count});")
        lines.append("}")
    return "".join(f"  {line}\n" for line in lines)


def _result(bundle: Bundle) -> str:
    if not bundle.outputs:
        return ""
    return (
        "  LITERT_ASSIGN_OR_RETURN(auto locked, model.Output0());\n"
        "  (void)locked.second[0];  // the first value of the first output\n"
    )

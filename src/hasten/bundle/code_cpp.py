"""C++ for a bundle's model, on the C interface of libLiteRt.so: its buffers are locked and used in place.

The few declarations that it needs stand in the file itself. They hold for the releases of LiteRT that
`engine.library` accepts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from hasten.bundle.code_shared import byte_count, headline, numbered, plain, tensor_comment
from hasten.bundle.kernels import inner_path
from hasten.engine import abi
from hasten.engine.cache import folder_for
from hasten.engine.library import KNOWN_RELEASES
from hasten.engine.options import accelerator_folders, hardware_bits, option_texts

if TYPE_CHECKING:
    from hasten.bundle.record import Bundle, BundleTensor
    from hasten.core.plan import Plan

_TYPES: Final = {
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "bool",
}
_CODES: Final = {name: code for code, (name, _) in abi.ELEMENT_TYPES.items()}

_TEMPLATE: Final = Path(__file__).with_name("fast_model.cpp.template")

# On a GPU or NPU: what LiteRT loads lies beside libLiteRt.so, and without it everything would run on the CPU.
_PLACES: Final = Template(r"""    Dl_info library{};
    dladdr(dlsym(RTLD_DEFAULT, "LiteRtCreateEnvironment"), &library);
    const std::string file = library.dli_fname ? library.dli_fname : "";
    const std::string folder = file.substr(0, file.rfind('/') + 1);
    const std::string places[] = {$places};
""")
_REGISTERED: Final = Template(r"""    size_t accelerators = 0;
    int kinds = 0;
    Check("Listing accelerators", LiteRtGetNumAccelerators(environment_.get(), &accelerators));
    for (size_t i = 0; i < accelerators && !(kinds & $bit); ++i) {
      void* accelerator = nullptr;
      Check("Listing accelerators", LiteRtGetAccelerator(environment_.get(), i, &accelerator));
      Check("Listing accelerators", LiteRtGetAcceleratorHardwareSupport(accelerator, &kinds));
    }
    if (!(kinds & $bit)) throw std::runtime_error("LiteRT could not load the $name accelerator from " + folder + ".");
""")

# With custom kernels: each library registers its own for the model's custom operators.
_KERNEL_FUNCTIONS: Final = Template(r"""
  void RegisterKernels(void* options) {
    using Register = int (*)(void*, void*, void* (*)(void*, const char*), void*);
    const std::string folder = path_.substr(0, path_.rfind('/') + 1);
    const std::string names[] = {$libraries};
    for (const std::string& name : names) {
      const std::string file = name[0] == '/' ? name : folder + name;
      void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) throw std::runtime_error("The kernel library " + file + " cannot be loaded: " + dlerror() + ".");
      const auto add = reinterpret_cast<Register>(dlsym(library, "hasten_register_kernels"));
      const auto failure = reinterpret_cast<const char* (*)()>(dlsym(library, "hasten_kernel_failure"));
      if (!add || !failure) throw std::runtime_error(file + " is not a library of kernels.");
      kernel_failures_.push_back(failure);
      if (add(options, model_.get(), dlsym, RTLD_DEFAULT) < 0) {
        CheckKernels();
        throw std::runtime_error("LiteRT does not take the kernels of " + file + ".");
      }
    }
  }

  // LiteRT ignores what kernels answer.
  void CheckKernels() const {
    for (const auto failure : kernel_failures_) {
      if (const char* reason = failure()) throw std::runtime_error(std::string("A kernel failed: ") + reason + ".");
    }
  }
""")


def cpp_follows(bundle: Bundle) -> bool:
    """Whether the compiled-model interface can do what the plan asks for: reference kernels and delegates it cannot."""
    return bundle.plan.kernel != "reference" and not bundle.plan.delegate


def cpp_code(bundle: Bundle) -> str:
    """A class, and a program that uses it."""
    if bundle.plan.cache:
        bundle = replace(bundle, plan=replace(bundle.plan, cache=folder_for(bundle.plan.cache, bundle.sha256)))
    plan, inputs, outputs = bundle.plan, bundle.inputs, bundle.outputs
    names = [name for name, _ in (*numbered("INPUT", inputs), *numbered("OUTPUT", outputs))]
    resized = {name for name, _ in bundle.workload.shapes}
    types = [abi.ELEMENT_TYPES.get(code, ("an unknown type", 0))[0] for code in range(max(abi.ELEMENT_TYPES) + 1)]
    on_device = plan.accelerator != "cpu"
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        headline=headline(bundle),
        releases=" and ".join(KNOWN_RELEASES),
        libraries=" -ldl" if on_device or plan.kernels else "",
        files="".join(f" {name}" for name in names),
        includes=("#include <sched.h>\n" if plan.cores else "")
        + ("#include <dlfcn.h>\n" if on_device or plan.kernels else ""),
        before=_before(bundle),
        int_type=abi.ANY_INT,
        text_type=abi.ANY_STRING,
        **_environment(plan),
        **_kernels(bundle),
        inputs=", ".join(_expected(tensor, tensor.name in resized) for tensor in inputs),
        outputs=", ".join(_expected(tensor, False) for tensor in outputs),
        accessors="\n".join([*_accessors("Input", inputs), *_accessors("Output", outputs)]),
        signature=_string(bundle.workload.signature),
        accelerators=hardware_bits(plan),
        options=_options(plan),
        type_names=", ".join(f'"{name}"' for name in types),
        arguments=2 + len(names),
        main="".join(f"    {line}\n" for line in _main(bundle)),
    )


def _before(bundle: Bundle) -> str:
    """What must happen before LiteRT starts."""
    plan, text = bundle.plan, ""
    if plan.cores:
        sets = "".join(f" CPU_SET({core}, &cores);" for core in plan.cores)
        text += "    // This thread, and those that LiteRT starts, stay on these cores.\n"
        text += f"    cpu_set_t cores;\n    CPU_ZERO(&cores);\n   {sets}\n"
        text += "    if (sched_setaffinity(0, sizeof(cores), &cores)) {\n"
        text += '      throw std::runtime_error("This machine does not have the cores of the plan.");\n    }\n'
    if plan.cache:
        text += f"    std::filesystem::create_directories({_string(plan.cache)});\n"
    return text


def _environment(plan: Plan) -> dict[str, str]:
    """Parts of the template: what LiteRT logs, and which accelerators it registers from which folders."""
    bits = hardware_bits(plan)
    folders = accelerator_folders(plan, Path())
    places = [
        _string(plan.cache) if tag == abi.TAG_COMPILER_CACHE_FOLDER else f"folder + {_string(str(place))}"
        for tag, place in folders.items()
    ]
    settings = [f"Option({abi.TAG_LOG_SEVERITY}, {abi.LOG_WARNINGS})", f"Option({abi.TAG_AUTO_REGISTER}, {bits})"]
    settings += [f"Option({tag}, places[{i}])" for i, tag in enumerate(folders)]
    name, bit = plan.accelerator.upper(), bits & ~abi.CPU
    return {
        "settings": ", ".join(settings),
        "places": _PLACES.substitute(places=", ".join(places)) if folders else "",
        "registered": _REGISTERED.substitute(name=name, bit=bit) if folders else "",
    }


def _kernels(bundle: Bundle) -> dict[str, str]:
    """Parts of the template: the libraries of custom kernels, which lie beside the model."""
    if not bundle.plan.kernels:
        parts = ("check_kernels", "register_kernels", "keep_options", "kernel_functions", "kernel_members")
        return dict.fromkeys(parts, "")
    libraries = ", ".join(_string(inner_path(bundle.folder, kernel)) for kernel in bundle.plan.kernels)
    return {
        "check_kernels": "    CheckKernels();\n",
        "register_kernels": "    RegisterKernels(options.get());\n",
        "keep_options": "    options_ = std::move(options);  // LiteRT goes on reading the kernels' names in them\n",
        "kernel_functions": _KERNEL_FUNCTIONS.substitute(libraries=libraries).removeprefix("\n") + "\n",
        "kernel_members": "  std::vector<const char* (*)()> kernel_failures_;\n"
        "  Handle options_{nullptr, {LiteRtDestroyOptions}};\n",
    }


def _options(plan: Plan) -> str:
    """The TOML text for each back end, a literal a line."""
    entries = []
    for group, text in option_texts(plan, profiling=False).items():
        lines = "".join(f"\n         {_string(line)}" for line in text.splitlines(keepends=True))
        entries.append(f"        {{{_string(group)},{lines}}},\n")
    return "".join(entries)


def _expected(tensor: BundleTensor, is_resized: bool) -> str:
    shape = ", ".join(map(str, tensor.shape))
    code = _CODES.get(tensor.dtype, 0)
    return f"{{{_string(tensor.name)}, {code}, {{{shape}}}, {byte_count(tensor)}, {str(is_resized).lower()}}}"


def _accessors(side: str, tensors: tuple[BundleTensor, ...]) -> list[str]:
    mode = abi.LOCK_WRITE if side == "Input" else abi.LOCK_READ
    lines = []
    for i, tensor in enumerate(tensors):
        kind, handles = _type(tensor), f"{side.lower()}s_.handles"
        lines.append(f"  // {tensor_comment(tensor)}")
        lines.append(f"  View<{kind}> {side}{i}() {{ return {{{handles}[{i}], {mode}, {byte_count(tensor)}}}; }}")
    return lines


def _main(bundle: Bundle) -> list[str]:
    inputs, outputs = len(bundle.inputs), len(bundle.outputs)
    lines = [f"Load(model.Input{i}(), arguments[{2 + i}]);" for i in range(inputs)]
    return [*lines, "model.Run();", *(f"Save(model.Output{i}(), arguments[{2 + inputs + i}]);" for i in range(outputs))]


def _type(tensor: BundleTensor) -> str:
    """The element's type; bytes for what C++ has no word for."""
    return _TYPES.get(tensor.dtype, "uint8_t")


def _string(text: str) -> str:
    """A C++ literal. An octal escape of three digits cannot run into the next letter."""
    return '"' + "".join(plain(letter) or _escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    return "\\n" if letter == "\n" else "".join(f"\\{byte:03o}" for byte in letter.encode())

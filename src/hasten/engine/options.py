"""A Plan in the engine's own words: the environment's options and the TOML texts that configure each back end."""

from __future__ import annotations

import ctypes as c
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError
from hasten.core.plan import OPTION_KEY
from hasten.engine import abi, accelerators
from hasten.engine.cache import WEIGHTS

if TYPE_CHECKING:
    from hasten.core.plan import Plan
    from hasten.engine.library import Library

_RUNTIME: Final = "runtime_options_string"
_CPU: Final = "xnnpack"
_GPU: Final = "gpu_options"
_NPU: Final = "intel_openvino"
IDENTIFIERS: Final = {"runtime": _RUNTIME, "cpu": _CPU, "gpu": _GPU, "npu": _NPU}
"""The first part of an option's dotted key in a Plan → the engine's identifier."""

# What the release's own option classes write; `configs_map` and `graph` have keys of their own below them.
OPTION_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "runtime": ("compress_quantization_zero_points", "disable_delegate_clustering", "selected_signature_keys"),
    "cpu": ("enable_ynnpack", "flags", "hint_fully_delegated_to_single_delegate", "weight_cache_file_path"),
    "gpu": (
        "allow_src_quantized_fc_conv_ops",
        "backend",
        "benchmark_mode",
        "buffer_storage_type",
        "convert_weights_on_gpu",
        "cache_only_compiled_programs",
        "disable_shader_optimization",
        "enable_constant_tensors_sharing",
        "enable_infinite_float_capping",
        "external_tensors_mode",
        "hint_fully_delegated_to_single_delegate",
        "hint_waiting_for_completion",
        "kernel_batch_size",
        "madvise_original_shared_tensors",
        "model_cache_key",
        "num_steps_of_command_buffer_preparations",
        "num_threads_to_compile",
        "num_threads_to_upload",
        "precision",
        "prefer_texture_weights",
        "preferred_device_substr",
        "priority",
        "serialization_dir",
        "serialize_external_tensors",
        "serialize_program_cache",
        "wait_for_weights_conversion_complete",
        "wait_type",
    ),
    "npu": ("performance_mode", "configs_map", "graph"),
}

_GPU_PRECISION: Final = {"default": "0", "fp16": "1", "fp32": "2"}
_ERRORS_TO_STDERR: Final = "1"

_libc = c.CDLL(None)
_libc.strdup.restype = c.c_void_p
_libc.strdup.argtypes = (c.c_char_p,)


def option_texts(plan: Plan, *, profiling: bool) -> dict[str, str]:
    """Each back end's options as TOML text, by the engine's identifier."""
    tables: dict[str, dict[str, str]] = {
        _RUNTIME: {"enable_profiling": str(profiling).lower(), "error_reporter_mode": _ERRORS_TO_STDERR},
        _CPU: {"num_threads": str(plan.threads), "kernel_mode": f'"{plan.kernel}"'},
    }
    if plan.accelerator == "gpu":
        tables[_GPU] = {"precision": _GPU_PRECISION[plan.precision]}
    if plan.accelerator == "npu":
        tables[_NPU] = accelerators.npu_options()
    for identifier, table in _cache_tables(plan).items():
        tables.setdefault(identifier, {}).update(table)
    for dotted, value in plan.options:
        room, _, key = dotted.partition(".")
        _check_option(room, key, dotted)
        if not value.isprintable():  # a line break would begin another option
            raise UsageError(f"The engine option {dotted!r} is not one line of text: {value!r}.", "Correct its value.")
        tables.setdefault(IDENTIFIERS[room], {})[key] = value
    return {name: "".join(f"{key} = {value}\n" for key, value in table.items()) for name, table in tables.items()}


def _check_option(room: str, key: str, dotted: str) -> None:
    """The engine silently ignores keys that it does not know, and a user would take them for being in effect."""
    if room not in IDENTIFIERS or not key:
        known = ", ".join(f"{name}.…" for name in IDENTIFIERS)
        raise UsageError(f"LiteRT has no option group for {dotted!r}.", f"Start the option with one of: {known}.")
    if key.split(".")[0] not in OPTION_KEYS[room] or not OPTION_KEY.fullmatch(key):
        raise UsageError(f"LiteRT has no option {dotted!r}.", f"Choose one of: {', '.join(OPTION_KEYS[room])}.")


def _cache_tables(plan: Plan) -> dict[str, dict[str, str]]:
    """Where each back end keeps its work: packed weights, compiled shaders. The NPU's place is in the environment."""
    if not plan.cache:
        return {}
    folder = json.dumps(plan.cache)  # TOML's basic strings are quoted as JSON's are
    weights = json.dumps(f"{plan.cache}/{WEIGHTS}")
    programs = {"serialization_dir": folder, "model_cache_key": '"hasten"', "serialize_program_cache": "true"}
    return {_CPU: {"weight_cache_file_path": weights}, **({_GPU: programs} if plan.accelerator == "gpu" else {})}


def hardware_bits(plan: Plan) -> int:
    """The accelerators that the engine may use. The CPU is always among them: what nothing else takes must run."""
    return abi.CPU | _accelerator_bit(plan)


def create_options(library: Library, plan: Plan, *, profiling: bool) -> c.c_void_p:
    """The engine's compilation options for a plan."""
    options = library.create("LiteRtCreateOptions")
    library.call("LiteRtSetOptionsHardwareAccelerators", options, hardware_bits(plan))
    release_text = c.cast(_libc.free, c.c_void_p)
    for identifier, text in option_texts(plan, profiling=profiling).items():
        # The engine frees the text with the deleter that it is given, so it must come from malloc.
        copy = _libc.strdup(text.encode())
        opaque = library.create("LiteRtCreateOpaqueOptions", identifier.encode(), copy, release_text)
        library.call("LiteRtAddOpaqueOptions", options, opaque)
    return options


def create_environment(library: Library, plan: Plan) -> c.c_void_p:
    """An environment that knows where the plan's libraries are, and looks for no others.

    The CPU's accelerator is not among those that it registers by itself: see `registry`.
    """
    numbers = {abi.TAG_LOG_SEVERITY: abi.LOG_WARNINGS, abi.TAG_AUTO_REGISTER: _accelerator_bit(plan)}
    texts = {tag: str(folder).encode() for tag, folder in accelerator_folders(plan, library.folder).items()}
    entries = (abi.EnvironmentOption * (len(numbers) + len(texts)))()
    for entry, (tag, number) in zip(entries, numbers.items(), strict=False):
        entry.tag, entry.value.type = tag, abi.ANY_INT
        entry.value.value.int_value = number
    for entry, (tag, text) in zip(entries[len(numbers) :], texts.items(), strict=True):
        entry.tag, entry.value.type = tag, abi.ANY_STRING
        entry.value.value.string_value = text
    return library.create("LiteRtCreateEnvironment", len(entries), entries)


def _accelerator_bit(plan: Plan) -> int:
    return 0 if plan.delegate else {"cpu": 0, "gpu": abi.GPU, "npu": abi.NPU}[plan.accelerator]


def accelerator_folders(plan: Plan, engine_folder: Path) -> dict[int, Path]:
    """The folders that the environment needs to know, by the tags of its options."""
    if plan.delegate:
        return {}
    if plan.accelerator == "gpu":
        return {abi.TAG_RUNTIME_FOLDER: engine_folder}
    if plan.accelerator == "npu":
        vendor = accelerators.npu_folder(engine_folder)
        folders = {abi.TAG_COMPILER_PLUGIN_FOLDER: vendor / "compiler", abi.TAG_DISPATCH_FOLDER: vendor / "dispatch"}
        return {**folders, abi.TAG_COMPILER_CACHE_FOLDER: Path(plan.cache)} if plan.cache else folders
    return {}

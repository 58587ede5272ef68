"""Builds kernel libraries with a C compiler: into a folder named by what goes in, whole or not at all.

Beside the library lie its sources, the command (`build.json`) and build lines for other systems (`BUILD.md`): a bundle
carries them all.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.cache_folder import cache_folder
from hasten.core.codec import checked_from_data, record, to_data
from hasten.core.errors import UsageError
from hasten.core.failure import NOT_INSTALLED, Failure
from hasten.targets.local import local_program
from hasten.targets.tool import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.targets.base import Target

GLUE: Final = "hasten_glue.c"
HEADER: Final = "hasten_kernel.h"
BUILD_FILE: Final = "build.json"
# What tells one processor from another for a compiler, as Linux lists it.
_TELLING_LINES: Final = ("flags", "Features", "vendor_id", "model")
_OWN_SOURCES: Final = (
    *("kernels.c", "strided_slice.c", "mirror_pad.c", "cumsum.c", "arg_max.c", "gather.c", "floor.c", "layer_norm.c"),
    *("kernels.h", "movement.h"),
)
_DELEGATE: Final = "hasten_delegate.c"
# What every external delegate is written against.
_DELEGATE_INTERFACE: Final = "delegate_interface.h"
LINES_FILE: Final = "BUILD.md"
# Neither flag changes a result: kernels read no errno and no exception flags.
FLAGS: Final = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-fvisibility=hidden")
_COMPILERS: Final = ("cc", "gcc", "clang")
_NATIVE: Final = "-march=native"
_MATHEMATICS: Final = "-lm"
_NO_COMPILER: Final = Failure(
    "make",
    "target",
    "Custom kernels need a C compiler, and none was found.",
    "Install one (for example apt-get install gcc), or set CC to the command of yours.",
    code=NOT_INSTALLED,
)
_NO_CROSS_COMPILER: Final = Failure(
    "make",
    "target",
    "Kernels for a device of another kind need zig's C compiler, which was not found.",
    "Run pip install ziglang.",
    code=NOT_INSTALLED,
)
# A library without kernels of its own: those of a Python file are added when it is loaded.
_EMPTY_TABLE: Final = (
    f'#include "{HEADER}"\n\nconst HastenKernel hasten_kernel_table[] = {{{{NULL, NULL, NULL, NULL, NULL}}}};\n'
)


@record
class BuiltLibrary:
    """A library of kernels and how it was made."""

    path: Path
    sources: tuple[str, ...]
    """The files beside it that it was made of."""
    command: tuple[str, ...]
    compiler: str
    """What the compiler says of itself."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler and what it builds for."""

    command: tuple[str, ...]
    is_native: bool = True
    """For this machine's own processor; not for another machine, which may lack its instructions."""


def native_toolchain() -> Toolchain | Failure:
    """The compiler that CC names, or the system's own."""
    if given := shlex.split(os.environ.get("CC", "")):
        return Toolchain(tuple(given))
    found = next((name for name in _COMPILERS if shutil.which(name)), None)
    return _NO_COMPILER if found is None else Toolchain((found,))


def cross_toolchain(triple: str) -> Toolchain:
    """zig's C compiler, which has the headers of other systems with it: `aarch64-linux-gnu`, `aarch64-linux-musl`, …"""
    zig = ("zig",) if shutil.which("zig") else (sys.executable, "-m", "ziglang")
    return Toolchain((*zig, "cc", "-target", triple), is_native=False)


def toolchain_for(target: Target) -> Toolchain | None:
    """The compiler for a device of another kind; None for this machine's own."""
    return None if target.capabilities.host_paths else cross_toolchain(f"{target.machine().architecture}-linux-gnu")


def build_own(folder: Path, toolchain: Toolchain | None = None) -> BuiltLibrary | Failure:
    """hasten's own kernels, built unless the folder has them."""
    return build("hasten_kernels", _shipped(*_OWN_SOURCES), folder, toolchain)


def build_delegate(folder: Path, toolchain: Toolchain | None = None) -> BuiltLibrary | Failure:
    """hasten's own kernels as an external delegate, which leaves model files as they are: for `Plan(delegate=…)`."""
    template = resources.files("hasten") / "practices" / "accelerators" / "delegate_template"
    interface = {_DELEGATE_INTERFACE: (template / _DELEGATE_INTERFACE).read_bytes()}
    return build("hasten_delegate", {**_shipped(*_OWN_SOURCES, _DELEGATE), **interface}, folder, toolchain)


def build_file(source: Path, folder: Path, toolchain: Toolchain | None = None) -> BuiltLibrary | Failure:
    """The kernels of a user's C file; headers beside it are found there."""
    if source.suffix != ".c":
        raise UsageError(f"{source} is not a C file.", "Give a file that ends in .c, or .py for numba.")
    try:
        texts = {path.name: path.read_bytes() for path in sorted(source.parent.glob("*.h"))}
        texts[source.name] = source.read_bytes()
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.", "Check the path.") from error
    return build(source.stem, texts, folder, toolchain)


def build_python(source: Path, folder: Path) -> str | Failure:
    """What a plan names for kernels in a Python file: an empty library with the file behind it."""
    if not source.is_file():
        raise UsageError(f"There is no Python file at {source}.", "Give a file with @hasten.kernel functions.")
    built = build("hasten_numba", {"empty.c": _EMPTY_TABLE.encode()}, folder)
    return built if isinstance(built, Failure) else f"{built.path}:{source.resolve()}"


def build(
    name: str, texts: Mapping[str, bytes], folder: Path, toolchain: Toolchain | None = None
) -> BuiltLibrary | Failure:
    """A library of these sources and the glue; texts that end in .h are headers. Built once for what goes in."""
    chosen = toolchain or native_toolchain()
    if isinstance(chosen, Failure):
        return chosen
    asked = run_tool((*chosen.command, "--version"), seconds=30)
    if isinstance(asked, Failure):
        return asked if chosen.is_native else _NO_CROSS_COMPILER
    compiler = asked.partition("\n")[0].strip()
    files = {**texts, **shipped_files()}
    place = folder / f"{name}-{_digest(files, chosen, compiler)}"
    try:
        return read_built(place) if (place / BUILD_FILE).is_file() else _built(name, files, place, chosen, compiler)
    except OSError as error:
        message = f"The kernels {name} cannot be written to {folder}: {error.strerror}."
        own = folder.is_relative_to(cache_folder())
        hint = "Set XDG_CACHE_HOME to a folder that you may write to." if own else "Choose another folder."
        return Failure("make", "target", message, hint)


def _built(
    name: str, files: Mapping[str, bytes], place: Path, toolchain: Toolchain, compiler: str
) -> BuiltLibrary | Failure:
    """Build beside the place and take its name at the end: what a crash leaves is no library."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=place.parent) as temporary:
        made = _compiled(name, files, Path(temporary), toolchain, compiler)
        if isinstance(made, Failure):
            return made
        finished = Path(temporary) / "finished"
        finished.mkdir()
        for path in [path for path in Path(temporary).iterdir() if path.is_file()]:
            path.rename(finished / path.name)
        try:
            finished.rename(place)
        except OSError:
            if not (place / BUILD_FILE).is_file():  # else another process was faster, with the same library
                raise
    return read_built(place)


def kernel_names(library: Path) -> tuple[str, ...] | Failure:
    """The kernels of a library. It is loaded in a process of its own, as any code of a user's is."""
    told = run_tool(local_program("hasten.custom_kernels.kernel_names", str(library)).command, seconds=60)
    return told if isinstance(told, Failure) else tuple(told.split())


def read_built(folder: Path) -> BuiltLibrary:
    """A library that was built into this folder."""
    data = json.loads((folder / BUILD_FILE).read_text(encoding="utf-8"))
    return checked_from_data(BuiltLibrary, {**data, "path": str(folder / data["path"])})


def shipped_files() -> dict[str, bytes]:
    """The header and the glue that every library is built with."""
    return _shipped(HEADER, GLUE)


def _shipped(*names: str) -> dict[str, bytes]:
    library = resources.files("hasten.custom_kernels") / "library"
    return {name: (library / name).read_bytes() for name in names}


def default_folder() -> Path:
    """Where libraries are kept for the next time."""
    return cache_folder() / "kernels"


def _compiled(
    name: str, files: Mapping[str, bytes], folder: Path, toolchain: Toolchain, compiler: str
) -> BuiltLibrary | Failure:
    for file, text in files.items():
        (folder / file).write_bytes(text)
    sources = sorted(file for file in files if file.endswith(".c"))
    library = f"lib{name}.so"
    done: str | Failure = ""
    command: tuple[str, ...] = ()
    attempts: tuple[tuple[str, ...], ...] = ((_NATIVE,), ()) if toolchain.is_native else ((),)
    for native in attempts:  # not every compiler knows every processor
        command = (*toolchain.command, *FLAGS, *native, "-o", library, *sources, _MATHEMATICS)
        done = run_tool(command, folder=folder)
        if not isinstance(done, Failure):
            break
    if isinstance(done, Failure):
        hint = done.hint or "Correct the source, and build it by the same command to see all messages."
        return Failure(
            done.stage, done.kind, f"The kernels {name} were not built: {done.message}", hint, done.log, done.code
        )
    built = BuiltLibrary(Path(library), tuple(sorted(files)), command, compiler)
    lines = "".join(f"{where}:\n\n    {line}\n\n" for where, line in build_lines(name, sources).items())
    (folder / LINES_FILE).write_text(f"# How to build {library}\n\n{lines}", encoding="utf-8")
    (folder / BUILD_FILE).write_text(json.dumps(to_data(built), indent=2) + "\n", encoding="utf-8")
    return built


def _digest(files: Mapping[str, bytes], toolchain: Toolchain, compiler: str) -> str:
    """Of all that decides what comes out; of the processor too, where a library is made for it alone."""
    digest = hashlib.sha256()
    parts = [*toolchain.command, *FLAGS, compiler, *(_processor() if toolchain.is_native else ())]
    for part in parts:
        digest.update(part.encode() + b"\0")
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()[:16]


def _processor() -> tuple[str, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    features = {line for line in lines if line.split(":")[0].strip() in _TELLING_LINES}
    return (platform.machine(), *sorted(features))


def build_lines(name: str, sources: Sequence[str]) -> dict[str, str]:
    """Commands that build a library from its sources on this machine, for Android and for another Linux."""
    flags = " ".join(FLAGS)
    rest = f"-o lib{name}.so {shlex.join(sorted(source for source in sources if source.endswith('.c')))} {_MATHEMATICS}"
    ndk = "$ANDROID_NDK/toolchains/llvm/prebuilt/linux-x86_64/bin/aarch64-linux-android26-clang"
    return {
        "this machine": f"cc {flags} {_NATIVE} {rest}",
        "Android (NDK)": f"{ndk} {flags} {rest}",
        "64-bit ARM Linux (pip install ziglang)": f"python3 -m ziglang cc -target aarch64-linux-gnu {flags} {rest}",
    }

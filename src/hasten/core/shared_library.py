"""What the header of a shared library tells before it is loaded: whether it is whole, as one that was cut off ends the
process, and which processor it is for, as the system says "no such file" of another one's."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Final

from hasten.core.errors import TargetError

ENGINE_LIBRARY: Final = "libLiteRt.so"
REINSTALL: Final = "Install it again: pip install --force-reinstall ai-edge-litert"
_ELF_64: Final = b"\x7fELF\x02\x01"
# Where the table of sections is, which is the end of the file, the size of an entry, and how many there are.
_SECTIONS: Final = struct.Struct("<40xQ10xHH")

_PROCESSOR: Final = struct.Struct("<18xH")
_PROCESSORS: Final = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


def processor_of(path: Path) -> str:
    """The processor that a library for Linux is built for; empty where that is not known."""
    try:
        with path.open("rb") as stream:
            header = stream.read(_PROCESSOR.size)
    except OSError:
        return ""
    if len(header) < _PROCESSOR.size or not header.startswith(_ELF_64[:4]):
        return ""
    return _PROCESSORS.get(_PROCESSOR.unpack(header)[0], "")


def is_cut_off(path: Path) -> bool:
    """Whether a library for 64-bit Linux is shorter than its header says."""
    try:
        with path.open("rb") as stream:
            header = stream.read(_SECTIONS.size)
        size = path.stat().st_size
    except OSError:
        return False
    if len(header) < _SECTIONS.size or not header.startswith(_ELF_64):
        return False
    start, entry, count = _SECTIONS.unpack(header)
    return bool(start + entry * count > size)


def refuse_cut_off_engine() -> None:
    """Raise where LiteRT's library is not whole: even to import its package would end the process."""
    spec = importlib.util.find_spec("ai_edge_litert")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        if is_cut_off(Path(folder) / ENGINE_LIBRARY):
            raise TargetError("LiteRT's library is damaged: it ends too early.", REINSTALL)

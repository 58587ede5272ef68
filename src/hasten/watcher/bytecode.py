"""The fate of a call's result, read from the bytecode that follows the call.

`dropped`: nobody takes it. `unread:NAME`: it is put into a local name that the function never reads. `local:NAME`: into
one that is not read between the next run and the next assignment, so that a view of LiteRT's own memory would do.
`kept`: anything else.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import CodeType, FrameType

_SKIPPED: Final = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME"})
_LOCAL_STORES: Final = frozenset({"STORE_FAST", "STORE_NAME"})
_DYNAMIC: Final = frozenset({"locals", "globals", "vars", "eval", "exec"})
_MODULE: Final = "<module>"
_DEEPEST: Final = 5


def fate_of_result(frame: FrameType) -> str:
    """What the frame does with the value of the call that it is in; through functions that only hand it on."""
    try:
        for _ in range(_DEEPEST):
            found = _fate(frame.f_code, frame.f_lasti)
            if found != "returned":
                return found
            if frame.f_back is None:
                return "kept"
            frame = frame.f_back
    except (ValueError, IndexError, AttributeError):  # bytecode of a Python that this reader does not know
        pass
    return "kept"


def _fate(code: CodeType, offset: int) -> str:
    following = _next(code, offset)
    if following is None:
        return "kept"
    if following.opname == "POP_TOP":
        return "dropped"
    if following.opname == "RETURN_VALUE":
        return "returned"
    if following.opname in _LOCAL_STORES:
        return _fate_of_name(code, str(following.argval))
    return "kept"


def _next(code: CodeType, offset: int) -> dis.Instruction | None:
    """The instruction after a call. The offset is that of the call or, from Python 3.11 on, of a cache behind it."""
    following = (entry for entry in dis.get_instructions(code) if entry.offset > offset)
    return next((entry for entry in following if entry.opname not in _SKIPPED), None)


def _fate_of_name(code: CodeType, name: str) -> str:
    """A name that is stored: whether it is ever read. Code that could look up names at run time reads all."""
    if _DYNAMIC & set(code.co_names) or name in code.co_cellvars:
        return "kept"
    if not any(_reads(entry, name) for entry in dis.get_instructions(code)) and not (
        code.co_name == _MODULE and _read_within(code, name)
    ):
        return f"unread:{name}"
    return f"local:{name}" if code.co_name != _MODULE or not _read_within(code, name) else "kept"


def _reads(instruction: dis.Instruction, name: str) -> bool:
    """Python 3.13 has instructions that store one name and load another."""
    if "LOAD_" not in instruction.opname:
        return False
    argument = instruction.argval
    return argument == name or (isinstance(argument, tuple) and name in argument)


def _read_within(code: CodeType, name: str) -> bool:
    """Whether a function inside this code reads the name as a global one."""
    inner = [entry for entry in code.co_consts if hasattr(entry, "co_names")]
    return any(name in entry.co_names or _read_within(entry, name) for entry in inner)


def is_read_between(code: CodeType, name: str, first: int, last: int) -> bool:
    """Whether a name is read by instructions between two offsets."""
    return any(first < entry.offset < last and _reads(entry, name) for entry in dis.get_instructions(code))

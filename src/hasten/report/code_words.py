"""What generated code has in common in every language: literals, types, and the words of its first lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hasten.core.bundle import Bundle, BundleTensor

# type in the model → in C++, in Swift, and the view of a direct ByteBuffer in Kotlin ("" where that is the buffer)
TYPES: Final[dict[str, tuple[str, str, str]]] = {
    "float32": ("float", "Float", "asFloatBuffer()"),
    "float64": ("double", "Double", "asDoubleBuffer()"),
    "int8": ("int8_t", "Int8", ""),
    "uint8": ("uint8_t", "UInt8", ""),
    "int16": ("int16_t", "Int16", "asShortBuffer()"),
    "uint16": ("uint16_t", "UInt16", "asShortBuffer()"),
    "int32": ("int32_t", "Int32", "asIntBuffer()"),
    "uint32": ("uint32_t", "UInt32", "asIntBuffer()"),
    "int64": ("int64_t", "Int64", "asLongBuffer()"),
    "uint64": ("uint64_t", "UInt64", "asLongBuffer()"),
    "bool": ("bool", "Bool", ""),
}
_RAW: Final = ("uint8_t", "UInt8", "")
_SIZES: Final = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4}


def types_of(tensor: BundleTensor) -> tuple[str, str, str]:
    """The element's type in C++, Swift and Kotlin; bytes for what these languages have no word for."""
    return TYPES.get(tensor.dtype, _RAW)


def byte_count(tensor: BundleTensor) -> int:
    """The tensor's size."""
    size = _SIZES.get(tensor.dtype, 2 if "16" in tensor.dtype else 1)
    for length in tensor.shape:
        size *= max(length, 1)
    return size


def headline(bundle: Bundle) -> str:
    """The model and its plan on one line that can stand in any comment."""
    text = f"{bundle.model_file} on {bundle.plan.describe()}"
    return "".join(letter if letter.isprintable() and letter not in '\\"*' else "_" for letter in text)


def tensor_comment(tensor: BundleTensor) -> str:
    """What a tensor holds, for a comment."""
    shape = "x".join(str(size) for size in tensor.shape) or "scalar"
    quantized = f"; real = (stored - {tensor.zero_point}) * {tensor.scale!r}" if tensor.scale else ""
    return f"{tensor.dtype} {shape}{quantized}"


def c_string(text: str) -> str:
    """A C++ literal. Three octal digits end by themselves, whatever follows."""
    return '"' + "".join(_plain(letter) or _octal(letter) for letter in text) + '"'


def swift_string(text: str) -> str:
    """A Swift literal."""
    return '"' + "".join(_plain(letter) or f"\\u{{{ord(letter):x}}}" for letter in text) + '"'


def kotlin_string(text: str) -> str:
    """A Kotlin literal, in which a dollar sign would begin an expression."""
    return (
        '"' + "".join(_plain(letter) if letter != "$" and _plain(letter) else _utf16(letter) for letter in text) + '"'
    )


def _plain(letter: str) -> str:
    return letter if letter.isascii() and letter.isprintable() and letter not in '"\\?' else ""


def _octal(letter: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in letter.encode())


def _utf16(letter: str) -> str:
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

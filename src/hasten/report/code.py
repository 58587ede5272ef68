"""Code that runs a bundle's model with the right options and without needless copies, in four languages.

The Python is run by tests. What no compiler has seen says so in its first lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError
from hasten.report.code_cpp import cpp_code
from hasten.report.code_kotlin import kotlin_code
from hasten.report.code_python import python_code
from hasten.report.code_swift import swift_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.core.bundle import Bundle

FOLDER: Final = "code"
LANGUAGES: Final = ("python", "kotlin", "cpp", "swift")
_FILES: Final = {
    "python": "run_model.py",
    "kotlin": "FastModel.kt",
    "cpp": "fast_model.cpp",
    "swift": "FastModel.swift",
}
_WRITERS: Final[dict[str, Callable[[Bundle], str]]] = {
    "python": python_code,
    "kotlin": kotlin_code,
    "cpp": cpp_code,
    "swift": swift_code,
}


def code_files(bundle: Bundle) -> dict[str, str]:
    """Each file's path inside the bundle, and its text."""
    return {f"{FOLDER}/{_FILES[language]}": code_in(language, bundle) for language in LANGUAGES}


def code_in(language: str, bundle: Bundle) -> str:
    """The code in one language."""
    if language not in _WRITERS:
        raise UsageError(f"hasten writes no code in {language!r}", f"Use one of: {', '.join(LANGUAGES)}.")
    return _WRITERS[language](bundle)


def snippet_in(language: str, bundle: Bundle, path: str, *, runner: bool = False) -> str:
    """The code for a model that lies elsewhere than in a bundle; `runner`: through hasten.Runner at any rate."""
    return python_code(bundle, path, runner=runner) if language == "python" else code_in(language, bundle)

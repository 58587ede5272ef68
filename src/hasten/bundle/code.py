"""Code that runs a bundle's model on its plan and without needless copies, in three languages.

Tests run the Python, compile and run the C++, and type-check the Kotlin against LiteRT's interfaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.bundle.code_cpp import cpp_code, cpp_follows
from hasten.bundle.code_kotlin import kotlin_code, kotlin_follows
from hasten.bundle.code_python import python_code
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.bundle.record import Bundle


@dataclass(frozen=True, slots=True)
class Language:
    """A language that hasten writes."""

    file: str
    """Where the code lies in a bundle."""
    write: Callable[[Bundle], str]
    follows: Callable[[Bundle], bool]
    """Whether code in it can do what a bundle's plan and workload ask for."""


LANGUAGES: Final = {
    "python": Language("code/run_model.py", python_code, lambda bundle: True),
    "kotlin": Language("code/FastModel.kt", kotlin_code, kotlin_follows),
    "cpp": Language("code/fast_model.cpp", cpp_code, cpp_follows),
}


def code_files(bundle: Bundle) -> dict[str, str]:
    """Each file's path inside the bundle, and its text, in the languages that can follow the plan."""
    return {language.file: language.write(bundle) for language in LANGUAGES.values() if language.follows(bundle)}


def snippet_in(name: str, bundle: Bundle, path: str = "", *, runner: bool = False) -> str:
    """The code in one language, for a model at a path; `runner`: through hasten.Runner where there is a choice."""
    refuse_language(name, bundle)
    return python_code(bundle, path, runner=runner) if name == "python" else LANGUAGES[name].write(bundle)


def refuse_language(name: str, bundle: Bundle) -> None:
    """Raise an error where hasten has no code in a language for a bundle; its tensors need not be known yet."""
    if name not in LANGUAGES:
        raise UsageError(f"hasten writes no code in {name!r}.", f"Use one of: {', '.join(LANGUAGES)}.")
    if not LANGUAGES[name].follows(bundle):
        raise UsageError(
            f"hasten writes no {name} code for the plan {bundle.plan.describe()}.", "Use --language python."
        )

"""Code that runs a bundle's model on its plan and without needless copies, in three languages.

Tests run the Python, compile and run the C++, and type-check the Kotlin against LiteRT's interfaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.bundle.code_cpp import cpp_code
from hasten.bundle.code_kotlin import kotlin_code
from hasten.bundle.code_python import python_code
from hasten.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hasten.bundle.record import Bundle
    from hasten.core.plan import Plan

LANGUAGES: Final[dict[str, tuple[str, Callable[[Bundle], str]]]] = {
    "python": ("code/run_model.py", python_code),
    "kotlin": ("code/FastModel.kt", kotlin_code),
    "cpp": ("code/fast_model.cpp", cpp_code),
}
"""Each language's file in a bundle, and what writes it."""


def code_files(bundle: Bundle) -> dict[str, str]:
    """Each file's path inside the bundle, and its text; only Python can follow every plan."""
    return {path: write(bundle) for language, (path, write) in LANGUAGES.items() if can_follow(language, bundle.plan)}


def snippet_in(language: str, bundle: Bundle, path: str = "", *, runner: bool = False) -> str:
    """The code in one language, for a model at a path; `runner`: through hasten.Runner where there is a choice."""
    if language not in LANGUAGES:
        raise UsageError(f"hasten writes no code in {language!r}.", f"Use one of: {', '.join(LANGUAGES)}.")
    if language == "python":
        return python_code(bundle, path, runner=runner)
    if not can_follow(language, bundle.plan):
        raise UsageError(
            f"hasten writes no {language} code for the plan {bundle.plan.describe()}.", "Use --language python."
        )
    return LANGUAGES[language][1](bundle)


def can_follow(language: str, plan: Plan) -> bool:
    """Whether code in a language can do what the plan asks for.

    LiteRT's other interfaces have no reference kernels, and load external delegates in ways that hasten does not test.
    """
    return language == "python" or (plan.kernel != "reference" and not plan.delegate)

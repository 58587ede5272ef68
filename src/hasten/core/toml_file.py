"""Files that users write in TOML."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hasten.core.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The content of a file; `what` it is called in an error."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"The {what} {path} cannot be read: {error.strerror}.", "Check the path.") from None
    except (ValueError, RecursionError) as error:  # also what is no UTF-8, or nested too deeply
        raise UsageError(f"The {what} {path} is not TOML: {error}.", "Correct the file.") from None


def refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """A misspelt name must not pass for a setting that holds."""
    unknown = next((key for key in given if key not in known), None)
    if unknown is not None:
        raise UsageError(f"There is no {unknown!r} in {where}.", f"Known names: {', '.join(known)}.")

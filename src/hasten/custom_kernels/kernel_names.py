"""Program that tells the names of a library's kernels, one a line."""

from __future__ import annotations

import sys

from hasten.core.errors import HastenError
from hasten.engine.kernel_libraries import KernelLibrary


def main() -> None:
    """Load the library that the first argument names."""
    try:
        names = KernelLibrary(sys.argv[1]).kernel_names
    except HastenError as error:
        sys.exit(error.message)
    sys.stdout.write("".join(f"{name}\n" for name in names))

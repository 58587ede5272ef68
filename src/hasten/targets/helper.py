"""Programs of hasten's own beside it, for native code that may crash: a link to one, always on this machine."""

from __future__ import annotations

import sys

from hasten.targets.link import ProcessLink
from hasten.targets.local import default_memory_mb

# As for a runner: `-m` would look for modules in the working directory first.
_CODE = "import sys; sys.path[:] = [p for p in sys.path if p]; from {module} import main; main()"


def start_helper(module: str) -> ProcessLink:
    """Start the `main` of a module, which serves requests; its one argument is the memory that it may take, in MB."""
    return ProcessLink([sys.executable, "-c", _CODE.format(module=module), str(default_memory_mb())])

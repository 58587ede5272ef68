"""For users' tests: a fixture that watches a test and fails it for faults around the model.

Switched on in a conftest.py: `pytest_plugins = ("hasten.pytest_plugin",)`. A test that takes the fixture
`hasten_watch` is watched while it runs, and fails where it would else pass if a fault is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.library import watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.practices.app_watch import Watching


@pytest.fixture
def hasten_watch() -> Iterator[Watching]:
    """The watch over the test; `hasten_watch.allow` may name rules that are let pass."""
    watching = watch()
    with watching as seen:
        yield seen
    seen.check()

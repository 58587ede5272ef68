"""A folder for models that many examples of a test share, and libraries of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.core.failure import Failure
from hasten.custom_kernels.build import build_file, native_toolchain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hasten.custom_kernels.build import BuiltLibrary


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all examples of a property test write into."""
    if isinstance(native_toolchain(), Failure):
        pytest.skip("there is no C compiler to build kernels with")
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="session")
def build_kernel(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], BuiltLibrary]:
    """A library from the text of a kernel."""

    def build(name: str, text: str) -> BuiltLibrary:
        source = tmp_path_factory.mktemp(name) / f"{name}.c"
        source.write_text(text)
        built = build_file(source, shared)
        assert not isinstance(built, Failure), built
        return built

    return build

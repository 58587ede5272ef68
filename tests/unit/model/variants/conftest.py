"""Files of small models for the tests of variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from variant_models import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def model_file(tmp_path: Path) -> Callable[[str], Path]:
    def write(name: str) -> Path:
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(MODELS[name]())
        return path

    return write

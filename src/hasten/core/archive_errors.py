"""What reading a damaged archive raises: one list for models, data and downloads."""

from __future__ import annotations

import struct
import tarfile
import zipfile
import zlib
from typing import Final

try:
    from lzma import LZMAError
except ImportError:  # a Python that was built without it cannot raise it
    LZMAError = zipfile.BadZipFile  # type: ignore[misc, assignment]

# The modules check little before they compute. An encrypted member is a RuntimeError, as is an unknown compression.
ARCHIVE_ERRORS: Final = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    LZMAError,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    IndexError,
    RuntimeError,
)

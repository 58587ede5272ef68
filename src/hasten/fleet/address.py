"""How to reach a cluster: the scheduler's address, certificates for the way there, and Dask itself."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from hasten.core.errors import UsageError

SCHEMES: Final = ("tcp", "tls")
INSTALL: Final = "Run pip install 'hasten[cluster]'."


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form: who is trusted, who we are, and the key to it. Only their names are kept, never a key."""

    ca: str = ""
    certificate: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        for name in (self.ca, self.certificate, self.key):
            if name and not Path(name).is_file():
                raise UsageError(f"There is no file {name}.", "Give a file in PEM form.")

    @property
    def is_given(self) -> bool:
        """Whether any of it is given."""
        return bool(self.ca or self.certificate or self.key)


def check_address(address: str, tls: Tls) -> str:
    """The address of a scheduler; refuses what is none, and certificates that are incomplete or would not be used."""
    parts = urlsplit(address)
    try:
        is_whole = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port is not None
    except ValueError:  # a port that is no number
        is_whole = False
    if not is_whole:
        raise UsageError(
            f"The address {address!r} is not that of a scheduler.", "Give an address such as tcp://127.0.0.1:8786."
        )
    if parts.scheme == "tls" and not (tls.ca and tls.certificate and tls.key):
        raise UsageError(
            f"The connection to {address} is encrypted, which needs certificates.",
            "Give --tls-ca, --tls-cert and --tls-key.",
        )
    if parts.scheme != "tls" and tls.is_given:
        raise UsageError(
            f"The connection to {address} is not encrypted, so the certificates would not be used.",
            f"Give the address as tls://{parts.netloc}.",
        )
    return address


def security_of(tls: Tls) -> Any:
    """Dask's record of certificates; None without any. With them, nothing is sent in the clear."""
    if not tls.is_given:
        return None
    from distributed import Security

    roles = ("client", "worker", "scheduler")
    own = {f"tls_{role}_cert": tls.certificate for role in roles} | {f"tls_{role}_key": tls.key for role in roles}
    return Security(tls_ca_file=tls.ca, require_encryption=True, **own)


def require_dask() -> None:
    """Say at once where the extra is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise UsageError("A cluster needs Dask distributed, which is not installed.", INSTALL) from None


def quiet_dask() -> None:
    """Keep Dask from logging what is told in a sentence here; HASTEN_DEBUG=1 shows it."""
    if not os.environ.get("HASTEN_DEBUG"):
        for name in ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

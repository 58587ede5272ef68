"""Which samples a device has kept, and whether it reads them quicker than this machine sends them again.

Both rates are measured with each request. Until both are known, samples are kept and read: a search evaluates many
models on the same ones.
"""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    Sample = Sequence[bytes | memoryview]

# A request with less is sent as it is.
FEWEST_BYTES: Final = 64 * 1024


class SentSamples:
    """What one device has. Safe to use from several threads."""

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._lock = threading.Lock()
        self._sending, self._reading = Rate(), Rate()

    @property
    def pays(self) -> bool:
        """Whether the device shall keep samples and read them again."""
        sending, reading = self._sending.bytes_a_second, self._reading.bytes_a_second
        return sending is None or reading is None or reading >= sending

    def there(self, keys: Sequence[str]) -> set[str]:
        """Those that the device has."""
        with self._lock:
            return self._there.intersection(keys)

    def forget(self, keys: Sequence[str]) -> None:
        """The device has lost these."""
        with self._lock:
            self._there.difference_update(keys)

    def learn(self, answer: dict[str, Any], sent_bytes: int, seconds: float) -> None:
        """What a device's answer tells: what it kept, and how long it took over what."""
        with self._lock:
            self._there.update(answer["kept"])
            self._reading.add(answer["read_bytes"], answer["read_s"])
            if not answer["read_bytes"]:
                self._sending.add(sent_bytes, seconds - answer["run_s"] - answer["keep_s"])


class Rate:
    """Bytes a second, over all that was seen."""

    def __init__(self) -> None:
        self._bytes, self._seconds = 0, 0.0

    @property
    def bytes_a_second(self) -> float | None:
        """None before anything was seen."""
        return self._bytes / self._seconds if self._bytes and self._seconds > 0 else None

    def add(self, byte_count: int, seconds: float) -> None:
        """Another transfer."""
        if byte_count and seconds > 0:
            self._bytes += byte_count
            self._seconds += seconds


def sample_key(sample: Sample) -> str:
    """The name of a sample's content: equal samples of other models have the same."""
    digest = hashlib.sha256()
    for frame in sample:
        view = memoryview(frame)
        digest.update(f"{view.nbytes};".encode())
        digest.update(view.cast("B") if view.nbytes else b"")
    return digest.hexdigest()


def byte_count(samples: Sequence[Sample]) -> int:
    """The size of several samples."""
    return sum(memoryview(frame).nbytes for sample in samples for frame in sample)

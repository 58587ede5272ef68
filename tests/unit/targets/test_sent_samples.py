"""Which samples a device has, and whether it pays that it keeps them: by rates that were measured."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hasten.targets.sent_samples import SentSamples, byte_count, sample_key

SAMPLES = st.lists(st.binary(max_size=50), max_size=4)


def answer(kept: list[str], *, read_bytes: int = 0, read_s: float = 0.0) -> dict[str, object]:
    return {"kept": kept, "read_bytes": read_bytes, "read_s": read_s, "run_s": 1.0, "keep_s": 0.5}


def test_what_a_device_kept_is_there_until_it_is_lost() -> None:
    sent = SentSamples()
    sent.learn(answer(["a", "b"]), 100, 2.0)
    assert sent.there(["a", "c", "b"]) == {"a", "b"}
    sent.forget(["a"])
    assert sent.there(["a", "b"]) == {"b"}


def test_a_slow_link_makes_reading_pay() -> None:
    sent = SentSamples()
    assert sent.pays
    sent.learn(answer([]), 1_000_000, 1.0 + 0.5 + 1.0)
    assert sent.pays, "nothing is known of reading yet"
    sent.learn(answer([], read_bytes=1_000_000, read_s=0.1), 0, 1.1)
    assert sent.pays


def test_a_slow_card_does_not() -> None:
    sent = SentSamples()
    sent.learn(answer([]), 1_000_000, 1.0 + 0.5 + 0.01)
    sent.learn(answer([], read_bytes=1_000_000, read_s=0.5), 0, 1.5)
    assert not sent.pays


def test_a_clock_that_runs_backwards_tells_nothing() -> None:
    sent = SentSamples()
    sent.learn(answer([]), 1_000_000, 1.0)
    sent.learn(answer([], read_bytes=1000, read_s=9.0), 0, 10.0)
    assert sent.pays


@given(SAMPLES, SAMPLES)
def test_only_equal_samples_have_the_same_key(first: list[bytes], second: list[bytes]) -> None:
    assert (sample_key(first) == sample_key(second)) == (first == second)


def test_arrays_of_any_shape_are_samples() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert sample_key([array.data]) == sample_key([array.tobytes()])
    assert byte_count([[array.data], [b"12"]]) == array.nbytes + 2

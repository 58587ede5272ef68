"""Limits as people write them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.errors import UsageError
from hasten.gate.facts import DEFAULT_DROP, DEFAULT_SLOWDOWN, Limits
from hasten.gate.request import LIMIT_NAMES, limits_from_mapping


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("latency", "5 ms", "latency_ms", 5.0),
        ("latency", "350us", "latency_ms", 0.35),
        ("latency", "350 µs", "latency_ms", 0.35),
        ("p95", "1.5 s", "p95_ms", 1500.0),
        ("init", "2e2 ms", "init_ms", 200.0),
        ("size", "2 MB", "size_bytes", 2e6),
        ("size", "1 MiB", "size_bytes", 2**20),
        ("size", "900 B", "size_bytes", 900),
        ("memory", "100 MB", "memory_mb", 100),
        ("memory", "2 GB", "memory_mb", 2048),
        ("accuracy", "95 %", "accuracy", 0.95),
        ("accuracy", 0.95, "accuracy", 0.95),
        ("accuracy", "0.95", "accuracy", 0.95),
        ("max_slowdown", "5%", "max_slowdown", 0.05),
        ("max_drop", 0, "max_drop", 0),
        ("max_slowdown", "900 %", "max_slowdown", 9.0),
    ],
)
def test_a_limit_in_a_users_words(name: str, text: Any, field: str, value: float) -> None:
    assert getattr(limits_from_mapping({name: text}), field) == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latency", 5),
        ("latency", "5"),
        ("latency", "5 MB"),
        ("latency", "0 ms"),
        ("latency", "-1 ms"),
        ("latency", "fast"),
        ("latency", ""),
        ("latency", True),
        ("latency", ["5 ms"]),
        ("size", "2"),
        ("size", "2 ms"),
        ("accuracy", "95 ms"),
        ("accuracy", "nan"),
        ("accuracy", -0.1),
    ],
)
def test_what_is_not_understood_is_said_with_an_example(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        limits_from_mapping({name: value})
    assert f'{name} = "' in caught.value.hint


@pytest.mark.parametrize(("name", "value"), [("max_slowdown", 3), ("max_slowdown", "3"), ("max_drop", 1.5)])
def test_a_number_that_is_meant_in_percent_does_not_allow_everything(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match="would allow") as caught:
        limits_from_mapping({name: value})
    assert f'{name} = "{float(value):g} %"' in caught.value.hint


def test_a_misspelt_limit_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="latncy") as caught:
        limits_from_mapping({"latncy": "5 ms"})
    assert all(name in caught.value.hint for name in LIMIT_NAMES)


def test_without_limits_only_a_baseline_can_say_something() -> None:
    assert Limits() == limits_from_mapping({})
    assert Limits().is_empty
    assert not Limits().is_timed
    assert (Limits().max_slowdown, Limits().max_drop) == (DEFAULT_SLOWDOWN, DEFAULT_DROP)
    assert not limits_from_mapping({"size": "1 MB"}).is_empty
    assert not limits_from_mapping({"size": "1 MB"}).is_timed
    assert limits_from_mapping({"memory": "1 MB"}).is_timed


@given(st.floats(1e-3, 1e6, allow_nan=False))
def test_a_time_is_the_same_in_every_unit(milliseconds: float) -> None:
    texts = (f"{milliseconds!r} ms", f"{milliseconds / 1e3!r} s", f"{milliseconds * 1e3!r}us")
    limits = [limits_from_mapping({"latency": text}).latency_ms for text in texts]
    assert limits == pytest.approx([milliseconds] * 3)


@given(st.text(max_size=12))
def test_any_text_is_a_limit_or_a_sentence(text: str) -> None:
    with contextlib.suppress(UsageError):
        found = limits_from_mapping({"latency": text}).latency_ms
        assert found is not None
        assert found > 0

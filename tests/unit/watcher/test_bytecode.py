"""What becomes of a result, read from bytecode: on functions as users write them, by this Python's own compiler."""

from __future__ import annotations

import sys
from typing import Any

from hasten.watcher.bytecode import fate_of_result

fates: list[str] = []


def read(value: Any = 0) -> Any:
    fates.append(fate_of_result(sys._getframe(1)))
    return value


def handed_on() -> Any:
    return read()


def fate(function: Any) -> str:
    fates.clear()
    function()
    return fates[0]


def test_a_result_that_nobody_takes_is_dropped() -> None:
    def function() -> None:
        read()

    assert fate(function) == "dropped"


def test_a_name_that_is_never_read() -> None:
    def function() -> int:
        mask = read()  # noqa: F841
        return 3

    assert fate(function) == "unread:mask"


def test_a_name_that_is_read_is_local() -> None:
    def function() -> Any:
        scores = read()
        return scores + 1

    assert fate(function) == "local:scores"


def test_a_function_that_only_hands_on_is_looked_through() -> None:
    def function() -> None:
        handed_on()

    def user() -> Any:
        result = handed_on()
        return result + 1

    assert fate(function) == "dropped"
    assert fate(user) == "local:result"


def test_what_is_used_at_once_or_read_by_an_inner_function_is_kept() -> None:
    def at_once() -> Any:
        return read() + 1

    def inner() -> Any:
        result = read()

        def use() -> Any:
            return result

        return use()

    def dynamic() -> Any:
        result = read()
        return locals()

    assert fate(at_once) == "kept"
    assert fate(inner) == "kept"
    assert fate(dynamic) == "kept"


def test_names_of_a_module_may_be_read_by_its_functions() -> None:
    scope: dict[str, Any] = {"read": read}
    fates.clear()
    exec(compile("result = read()\ndef use():\n    return result\n", "module", "exec"), scope)
    exec(compile("mask = read()\n", "module", "exec"), scope)
    exec(compile("read()\n", "module", "exec"), scope)
    assert fates == ["kept", "unread:mask", "dropped"]

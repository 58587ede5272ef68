"""The arguments of public functions, checked by name before any work begins."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from hasten.core.checks import ABOVE_ZERO, FROM_ZERO, SHARE, THREADS, check_kind, check_number, path_text
from hasten.core.errors import UsageError
from hasten.core.plan import Plan, Workload
from hasten.data.request import Data
from hasten.measure.effort import Effort

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with each argument that has a known name checked; None passes where it is the default."""

    @functools.wraps(function)
    def call(*values: P.args, **named: P.kwargs) -> R:
        given = inspect.signature(function)
        for name, value in given.bind(*values, **named).arguments.items():
            if name == "options":
                _like_default(name, value, given.parameters[name].default)
            elif name in _CHECKS and not (value is None and given.parameters[name].default is None):
                _CHECKS[name](name, value)
        return function(*values, **named)

    return call


def _pair(name: str, value: Any) -> None:
    if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Plan)):
        raise UsageError(
            f"The value of {name} must be a model with a plan, not {value!r}.",
            f'Pass {name}=("model.tflite", hasten.Plan(threads=2)).',
        )
    path_text(name, value[0])


def _counts(name: str, value: Any) -> None:
    check_kind(name, value, (tuple, list, range), f"numbers of threads, such as {name}=(1, 2, 4)")
    for count in value:
        check_number(name, count, THREADS)


def _command(name: str, value: Any) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise UsageError(
            f"The value of {name} must be a list of words, not {value!r}.", f'Pass {name}=["python", "app.py"].'
        )
    for word in value:
        path_text(name, word)


def _limits(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) and not hasattr(value, "with_limits"):
        path_text(name, value)


def _settings(name: str, value: Any) -> None:
    if not hasattr(value, "recipes"):  # a room above this one has the class
        raise UsageError(
            f"The value of {name} cannot be {value!r}.", f"Pass {name}=hasten.SearchSettings(max_drop=0.01)."
        )


def _like_default(name: str, value: Any, default: Any) -> None:
    """Options have a class of their own for each function, which a room above this one has."""
    if not isinstance(value, type(default)):
        usual = f"hasten.api.{type(default).__name__}()"
        raise UsageError(f"The value of {name} cannot be {value!r}.", f"Pass {name}={usual}.")


def _request(name: str, value: Any) -> None:
    if not hasattr(value, "candidates"):  # a room above this one has the class
        raise UsageError(
            f"The value of {name} cannot be {value!r}.",
            f'Pass {name}=hasten.api.ChooseRequest("image-classification").',
        )


def _session(name: str, value: Any) -> None:
    if not hasattr(value, "lines"):
        path_text(name, value)


_CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    **dict.fromkeys(("model", "folder", "path", "out"), path_text),
    **dict.fromkeys(("first", "second", "original", "changed"), _pair),
    **dict.fromkeys(
        ("language", "kind", "form", "load", "source"),
        lambda name, value: check_kind(name, value, str, f'a text, such as {name}="…"'),
    ),
    "plan": lambda name, value: check_kind(name, value, Plan, "plan=hasten.Plan(threads=2)"),
    "workload": lambda name, value: check_kind(name, value, Workload, 'workload=hasten.Workload(signature="…")'),
    "effort": lambda name, value: check_kind(name, value, Effort, "effort=hasten.Effort(seconds=10)"),
    "data": lambda name, value: check_kind(name, value, Data, 'data=hasten.Data("folder")'),
    "seconds": lambda name, value: check_number(name, value, FROM_ZERO),
    "minutes": lambda name, value: check_number(name, value, ABOVE_ZERO),
    "margin": lambda name, value: check_number(name, value, SHARE),
    "threads": lambda name, value: check_number(name, value, THREADS),
    "counts": _counts,
    "command": _command,
    "limits": _limits,
    "session": _session,
    "settings": _settings,
    "request": _request,
}

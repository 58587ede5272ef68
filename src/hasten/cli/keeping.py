"""What a session file gets from a command: the result, the failure, or what was known when the user pressed Ctrl-C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hasten.core.errors import HastenError

if TYPE_CHECKING:
    from types import TracebackType

    from hasten.core.session import SessionWriter


class Keeper:
    """Keeps the latest state of a trial, and saves it when the `with` ends, however it ends."""

    def __init__(self, session: SessionWriter | None, kind: str, label: str) -> None:
        self._session, self._kind, self._label = session, kind, label
        self._latest: dict[str, Any] | None = None

    def keep(self, data: dict[str, Any]) -> None:
        """This is what there is so far."""
        self._latest = data

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is None:
            return
        if isinstance(error, HastenError):
            self._session.add("failure", self._label, {"message": error.message, "hint": error.hint})
        elif self._latest is not None:
            interrupted = {"interrupted": True} if error is not None else {}
            self._session.add(self._kind, self._label, {**self._latest, **interrupted})

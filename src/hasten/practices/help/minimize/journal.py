"""What earlier tests of a minimization showed, kept in the cache folder: an interrupted search goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import HastenError
from hasten.core.remark import remark_from_data
from hasten.core.session import SessionWriter, read_session
from hasten.practices.help.minimize.problems import Shown

if TYPE_CHECKING:
    from hasten.practices.help.minimize.reduction import Nodes

_KIND: Final = "minimize"
_FORMAT: Final = 1


@dataclass(slots=True)
class Journal:
    """Results by nodes, in memory and in a file. A cache that cannot be written costs time, nothing else."""

    path: Path
    known: dict[Nodes, Shown] = field(default_factory=dict)
    _writer: SessionWriter | None = None

    def remember(self) -> None:
        """Read what there is; a damaged file is begun anew."""
        try:
            lines = read_session(self.path).lines if self.path.exists() else ()
        except (OSError, HastenError):
            with contextlib.suppress(OSError):
                self.path.unlink()
            return
        for line in lines:
            with contextlib.suppress(KeyError, TypeError, ValueError):
                nodes = tuple(int(index) for index in line.data["nodes"])
                self.known[nodes] = Shown(line.data["shows"] is True, remark_from_data(line.data["evidence"]))

    def add(self, nodes: Nodes, shown: Shown) -> None:
        """Keep a result; it is on the disk when this returns."""
        self.known[nodes] = shown
        evidence = {"code": shown.evidence.code, "facts": dict(shown.evidence.facts)}
        data = {"nodes": list(nodes), "shows": shown.yes, "evidence": evidence}
        with contextlib.suppress(OSError, HastenError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._writer is None:
                self._writer = SessionWriter(self.path, {"command": "doctor --minimize"})
            self._writer.add(_KIND, str(len(nodes)), data)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


def journal_for(*settings: Any) -> Journal:
    """The journal of a search with these settings: model, problem, plans, release, machine."""
    key = hashlib.sha256(json.dumps([_FORMAT, *settings], default=str).encode()).hexdigest()[:24]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Journal(folder / "hasten" / "minimize" / f"{key}.jsonl")

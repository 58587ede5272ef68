"""Takes home paths, user and host names out of texts, and the names of a private model with them."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# An absolute path up to its last part, but not the slashes of an address on the web or inside of a name.
_FOLDERS: Final = re.compile(r"(?<![\w:/.~…])(?:[A-Za-z]:)?/(?:[^\s/:'\"`|(),;<>]+/)+")
_ELLIPSIS: Final = "…/"
_USER, _HOST = "USER", "HOST"
# Names that half of all machines have say nothing about anybody, and stand in many sentences.
_COMMON: Final = frozenset(
    {"ssh", "local", "root", "user", "localhost", "model", "runner", "nobody", "docker", "ubuntu"}
)
_SHORTEST_NAME: Final = 3
_BETWEEN: Final = re.compile(r"[/@:]+")
# Values of these keys are codes and field's words; a tensor that is called alike changes nothing about them.
_CODES: Final = frozenset(
    {
        *("code", "status", "stage", "kind", "op", "ops", "operators", "kernels", "dtype", "types", "problem"),
        *("accelerator", "precision", "kernel", "mapped", "bound", "verdict", "practice", "release", "sha256", "api"),
        *("parameter", "option", "allowed", "format", "inputs", "cpu", "instructions", "system", "architecture"),
    }
)


@dataclass(frozen=True, slots=True)
class Scrubber:
    """Replaces what must not leave this machine. The longest match wins."""

    names: tuple[tuple[str, str], ...]
    """Texts and what stands for them."""
    exact: tuple[tuple[str, str], ...] = ()
    """Codes that are names themselves (custom operators), and what stands for them."""

    def text(self, text: str) -> str:
        """The text without them, and with file names in place of paths."""
        words = dict(self.names) | {name.lower(): word for name, word in self.names if word in (_USER, _HOST)}

        def stand_in(found: re.Match[str]) -> str:
            return words.get(found.group()) or words.get(found.group().lower(), "")

        return _FOLDERS.sub(_ELLIPSIS, _pattern(self.names).sub(stand_in, text))

    def data(self, value: Any, key: str = "") -> Any:
        """Plain data with every text in it scrubbed; keys and codes stay."""
        if isinstance(value, str):
            return dict(self.exact).get(value, value) if key in _CODES else self.text(value)
        if isinstance(value, dict):
            return {name: self.data(entry, str(name)) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(entry, key) for entry in value]
        return value

    def finds(self, texts: Iterable[str]) -> bool:
        """Whether any of these texts holds one of the names."""
        return any(_pattern(self.names).search(text) for text in texts)


@functools.lru_cache(maxsize=8)
def _pattern(names: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    """Finds any of the names; the first of them that fits at a place is taken."""
    return re.compile("|".join(_whole_word(*name) for name in names) or r"(?!)")


def _whole_word(name: str, stand_in: str) -> str:
    """A name where it is not a part of a longer word; users and hosts are written in any case."""
    before = r"(?<![A-Za-z0-9])" if name[:1].isalnum() else ""
    after = r"(?![A-Za-z0-9])" if name[-1:].isalnum() else ""
    case = "i" if stand_in in (_USER, _HOST) else ""
    return f"(?{case}:{before}{re.escape(name)}{after})"


def identity_scrubber(*folders: Path, device: str = "") -> Scrubber:
    """One for this user and machine; `folders` are further paths that say where files are.

    `device` is a target as it was asked for, such as ssh://user@host.
    """
    found: dict[str, str] = {}
    for folder in (*folders, Path.home(), Path.cwd()):
        for path in {str(folder), str(folder.resolve())}:
            if len(path) > 1:
                found[f"{path.rstrip('/')}/"] = ""
                found[path.rstrip("/")] = "~"
    found |= dict.fromkeys(_users(), _USER)
    found |= dict.fromkeys(_hosts(), _HOST)
    found |= dict.fromkeys(_telling(_BETWEEN.split(device)), _HOST)
    return Scrubber(_longest_first(found))


def with_names(scrubber: Scrubber, names: Mapping[str, str], codes: Mapping[str, str]) -> Scrubber:
    """The same, which also replaces these names; very short ones would be everywhere and say nothing.

    `codes` are names that stand where codes do.
    """
    usable = {name: stand_in for name, stand_in in {**names, **codes}.items() if len(name) >= _SHORTEST_NAME}
    return Scrubber(_longest_first({**usable, **dict(scrubber.names)}), tuple(codes.items()))


def _longest_first(found: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(found.items(), key=lambda item: (-len(item[0]), item[0])))


def _users() -> set[str]:
    names = {os.environ.get(key, "") for key in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    names.add(Path.home().name)
    with contextlib.suppress(KeyError, OSError):  # a container may run as a user without a name
        names.add(getpass.getuser())
    return _telling(names)


def _hosts() -> set[str]:
    whole = {platform.node(), os.environ.get("HOSTNAME", "")}
    return _telling(whole | {name.split(".")[0] for name in whole})


def _telling(names: Iterable[str]) -> set[str]:
    """Names that say something about somebody."""
    return {name for name in names if len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON}

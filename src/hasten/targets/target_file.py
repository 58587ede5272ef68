"""Targets by name: this machine, an address, or a device that the user's file of targets names.

# ~/.config/hasten/targets.toml
[kitchen-pi]
address = "ssh://pi@192.168.1.20"   # user and port may be left to the configuration of ssh
python = "~/venv/bin/python"        # optional: the Python that has LiteRT
folder = "/data/hasten"             # optional: where hasten keeps its files there (default: ~/.cache/hasten/device)
config = "~/lab/ssh_config"         # optional: a configuration file for ssh, in place of your own
patience = 5                        # optional: seconds without a sign of life until the device ends its runners
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.checks import ABOVE_ZERO
from hasten.core.errors import UsageError
from hasten.core.toml_file import read_toml, refuse_unknown
from hasten.targets.base import LOCAL, SSH
from hasten.targets.local import LocalTarget
from hasten.targets.ssh import SCHEME, SshDevice, SshTarget, device_from_url

if TYPE_CHECKING:
    from hasten.targets.base import Limits, Target

_WHAT: Final = "file of targets"
_KEYS: Final = ("address", "python", "folder", "config", "patience")
_EXAMPLE: Final = 'address = "ssh://pi@raspberrypi.local"'


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A device as a user names it, before anything is asked of it."""

    name: str
    ssh: SshDevice | None = None
    """None for this machine."""

    @property
    def kind(self) -> str:
        """How it is reached."""
        return LOCAL if self.ssh is None else SSH

    def target(self, limits: Limits | None = None) -> Target:
        """The target, which connects when it is first used."""
        return LocalTarget(limits) if self.ssh is None else SshTarget(self.name, self.ssh, limits)


def target_named(name: str, limits: Limits | None = None) -> Target:
    """The target that a user names with --target."""
    return device_named(name).target(limits)


def device_named(name: str) -> KnownDevice:
    """`local`, an address that begins with ssh://, or a name of the file of targets."""
    if name == LocalTarget.name:
        return KnownDevice(name)
    if name.startswith(SCHEME):
        return KnownDevice(name, device_from_url(name))
    known = _devices_of_file()
    if name not in known:
        raise UsageError(f"There is no target {name!r}.", _meant(name, known))
    return KnownDevice(name, known[name])


def known_devices() -> tuple[KnownDevice, ...]:
    """This machine, and every device of the file of targets."""
    return (KnownDevice(LOCAL), *(KnownDevice(name, device) for name, device in _devices_of_file().items()))


def targets_file() -> Path:
    """Where the user's file of targets is."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "hasten" / "targets.toml"


def _devices_of_file() -> dict[str, SshDevice]:
    path = targets_file()
    if not path.is_file():
        return {}
    return {name: _device(path, name, section) for name, section in read_toml(path, _WHAT).items()}


def _device(path: Path, name: str, section: Any) -> SshDevice:
    if not isinstance(section, dict):
        raise UsageError(f"{path}: {name} must be a section.", f"Write it like this: [{name}]")
    where = f"[{name}] in {path}"
    refuse_unknown(section, _KEYS, where)
    if name == LOCAL or name.startswith(SCHEME):
        raise UsageError(f"{path}: no device can have the name {name!r}.", "Give it another name.")
    address = section.get("address", "")
    if not isinstance(address, str) or not address.startswith(SCHEME):
        raise UsageError(f"{where}: the address must begin with {SCHEME}.", f"Write it like this: {_EXAMPLE}")
    texts = {key: section.get(key, "") for key in ("python", "folder", "config")}
    if wrong := next((key for key, value in texts.items() if not isinstance(value, str)), ""):
        raise UsageError(f"{where}: {wrong} must be a text.", f'Write it like this: {wrong} = "…"')
    patience = section.get("patience", SshDevice("example").patience_s)
    if not ABOVE_ZERO.fits(patience):
        raise UsageError(f"{where}: patience must be {ABOVE_ZERO.words}.", "Write it like this: patience = 5")
    return replace(device_from_url(address), **texts, patience_s=float(patience))


def _meant(name: str, known: dict[str, SshDevice]) -> str:
    import difflib

    close = difflib.get_close_matches(name, (LOCAL, *known), 1)
    if close:
        return f"Did you mean {close[0]}?"
    path = targets_file()
    shown = f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
    return f"Name it in {shown}, or give its address, for example ssh://pi@raspberrypi.local."

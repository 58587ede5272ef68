"""What the ssh client says when it cannot connect, and when a connection breaks: a table of patterns, with the cause.

The texts are those of OpenSSH 7 to 10 and of the system's resolver. The first that matches wins.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.failure import CONNECTION_LOST, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_PYTHON_STATUS: Final = 97
SSH_STATUS: Final = 255
"""The exit status of the client when the trouble is its own, and not that of the command on the device."""
UNKNOWN_HOST: Final = "unknown_host"
REFUSED: Final = "refused"
UNREACHABLE: Final = "unreachable"
HOST_KEY_CHANGED: Final = "host_key_changed"
HOST_KEY_UNKNOWN: Final = "host_key_unknown"
LOGIN_REFUSED: Final = "login_refused"
BAD_CONFIGURATION: Final = "ssh_configuration"
NO_PYTHON: Final = "no_python"
NO_PROGRAM: Final = "no_program"


@dataclass(frozen=True, slots=True)
class SshRule:
    """A pattern over what the client wrote, and the failure that it stands for."""

    pattern: str
    code: str
    message: str
    hint: str


RULES: Final = (
    SshRule(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        HOST_KEY_CHANGED,
        "{name} shows another host key than before: it was installed anew, or another machine answers.",
        "If you expected this, remove the old key with ssh-keygen -R {host}, then log in once: {login}",
    ),
    SshRule(
        r"Host key verification failed|No \S+ host key is known",
        HOST_KEY_UNKNOWN,
        "This machine does not know the host key of {name} yet.",
        "Log in once and accept the key: {login}",
    ),
    SshRule(
        r"Could not resolve hostname",
        UNKNOWN_HOST,
        "There is no host {host} in the network's directory or in the configuration of ssh.",
        "Check the name, or use the device's address.",
    ),
    SshRule(
        r"Permission denied|Too many authentication failures|No supported authentication methods",
        LOGIN_REFUSED,
        "{name} refuses the login.",
        "Install your key there with ssh-copy-id, or load it with ssh-add; this must work without a password: {login}",
    ),
    SshRule(
        r"Connection refused",
        REFUSED,
        "{name} refuses connections: no ssh server listens there.",
        "Start sshd on the device, or check the port.",
    ),
    SshRule(
        r"(?:Connection|Operation) timed out|No route to host|Network is unreachable|Host is down",
        UNREACHABLE,
        "{name} does not answer.",
        "Check that the device is on and in the same network.",
    ),
    SshRule(
        r"Bad configuration option|Can't open user config file|terminating, \d+ bad configuration|keyword \S+ extra",
        BAD_CONFIGURATION,
        "ssh cannot use its configuration.",
        "Read the lines above, and correct the file that they name.",
    ),
    SshRule(
        r"Timeout, server \S+ not responding|Broken pipe|Connection reset|closed by remote host|send disconnect"
        r"|Connection closed|kex_exchange_identification|Read from socket failed|mux_client",
        CONNECTION_LOST,
        "{name} closed the connection.",
        "Check the network and the device, then run the command again.",
    ),
)


def connection_failure(name: str, host: str, login: Sequence[str], status: int, log: tuple[str, ...]) -> Failure:
    """Why no program of ours runs on a device: the client's exit status, and what it and the login wrote."""
    facts = {"name": name, "host": host, "login": shlex.join(login)}
    if status == NO_PYTHON_STATUS:
        message = f"{name} has no Python."
        hint = "Install Python 3.10 or newer there, or name one with python = … in targets.toml."
        return Failure("start", "target", message, hint, code=NO_PYTHON)
    if status != SSH_STATUS:
        message = f"The login on {name} starts no program: it ended with status {status}."
        hint = f"Check what its shell prints and runs at the start: {shlex.join(login)} true"
        return Failure("start", "target", message, hint, log, NO_PROGRAM)
    text = "\n".join(log)
    for rule in RULES:
        if re.search(rule.pattern, text):
            told = rule.message.format(**facts), rule.hint.format(**facts)
            return Failure("start", "target", *told, _telling(rule.code, log), rule.code)
    return Failure("start", "target", f"ssh cannot connect to {name}.", f"Try it by hand: {facts['login']}", log)


def _telling(code: str, log: tuple[str, ...]) -> tuple[str, ...]:
    """The client's lines, where they say more than the sentence does."""
    return log if code == BAD_CONFIGURATION else ()

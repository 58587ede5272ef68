"""What OpenSSH writes, as recorded, and the cause that is told."""

from __future__ import annotations

import pytest

from hasten.core.failure import CONNECTION_LOST
from hasten.targets.ssh_diagnosis import (
    BAD_CONFIGURATION,
    HOST_KEY_CHANGED,
    HOST_KEY_UNKNOWN,
    LOGIN_REFUSED,
    NO_PROGRAM,
    NO_PYTHON,
    NO_PYTHON_STATUS,
    REFUSED,
    SSH_STATUS,
    UNKNOWN_HOST,
    UNREACHABLE,
    connection_failure,
)

LOGIN = ("ssh", "-p", "2222", "pi@board")
TEXTS = {
    "ssh: Could not resolve hostname nowhere.invalid: Name or service not known": UNKNOWN_HOST,
    "ssh: Could not resolve hostname board.local: Temporary failure in name resolution": UNKNOWN_HOST,
    "ssh: connect to host 127.0.0.1 port 1: Connection refused": REFUSED,
    "ssh: connect to host 192.0.2.1 port 22: Connection timed out": UNREACHABLE,
    "ssh: connect to host 192.0.2.1 port 22: Operation timed out": UNREACHABLE,
    "ssh: connect to host 10.0.0.9 port 22: No route to host": UNREACHABLE,
    "ssh: connect to host 10.0.0.9 port 22: Network is unreachable": UNREACHABLE,
    "pi@board: Permission denied (publickey).": LOGIN_REFUSED,
    "pi@board: Permission denied (publickey,password).": LOGIN_REFUSED,
    "Received disconnect from 10.0.0.9 port 22:2: Too many authentication failures": LOGIN_REFUSED,
    "No ED25519 host key is known for board and you have requested strict checking.\n"
    "Host key verification failed.": HOST_KEY_UNKNOWN,
    "Host key verification failed.": HOST_KEY_UNKNOWN,
    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n"
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
    "Host key for board has changed and you have requested strict checking.\n"
    "Host key verification failed.": HOST_KEY_CHANGED,
    "kex_exchange_identification: Connection closed by remote host": CONNECTION_LOST,
    "Connection closed by 10.0.0.9 port 22": CONNECTION_LOST,
    "Timeout, server board not responding.": CONNECTION_LOST,
    "client_loop: send disconnect: Broken pipe": CONNECTION_LOST,
    "Connection to board closed by remote host.": CONNECTION_LOST,
    "/home/me/.ssh/config: line 3: Bad configuration option: frobnicate\n"
    "/home/me/.ssh/config: terminating, 1 bad configuration options": BAD_CONFIGURATION,
    "Can't open user config file nowhere: No such file or directory": BAD_CONFIGURATION,
}


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_each_text_has_its_cause(text: str) -> None:
    failure = connection_failure("kitchen", "board", LOGIN, SSH_STATUS, tuple(text.splitlines()))
    assert (failure.stage, failure.kind, failure.code) == ("start", "target", TEXTS[text])
    assert failure.message.endswith(".")
    assert failure.hint


def test_what_nobody_foresaw_is_shown() -> None:
    failure = connection_failure("kitchen", "board", LOGIN, SSH_STATUS, ("the moon is in the way",))
    assert failure.code == ""
    assert failure.log == ("the moon is in the way",)
    assert "ssh -p 2222 pi@board" in failure.hint


def test_trouble_on_the_other_side() -> None:
    assert connection_failure("kitchen", "board", LOGIN, NO_PYTHON_STATUS, ()).code == NO_PYTHON
    closed = connection_failure("kitchen", "board", LOGIN, 1, ("This account is not available.",))
    assert (closed.code, closed.log) == (NO_PROGRAM, ("This account is not available.",))


def test_a_name_of_the_user_may_have_braces() -> None:
    text = ("ssh: connect to host 127.0.0.1 port 1: Connection refused",)
    assert connection_failure("{0} {name!r:>99}", "board", LOGIN, SSH_STATUS, text).message.startswith("{0} {name!r")

"""Ends a runner whose parent is gone, even while it is in the middle of a native call.

The system can kill a child when its parent dies (PR_SET_PDEATHSIG), but on Linux that means the *thread* which started
it, so runners would die with the worker thread of a living parent. The closed pipe is what tells the truth.
"""

from __future__ import annotations

import os
import select
import threading


def end_with_parent(requests: int) -> None:
    """Leave the process as soon as the other side of the pipe of requests is closed."""
    threading.Thread(target=_wait_for_hang_up, args=(requests,), daemon=True, name="parent watch").start()


def _wait_for_hang_up(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # no events but those that cannot be masked: hang-up and error
    poll.poll()
    os._exit(0)

"""Which calls keep an event loop from going on: real loops of asyncio and Tcl; Qt's is not installed here."""

from __future__ import annotations

import asyncio
import sys

import pytest

from hasten.watcher import rows
from hasten.watcher.event_loops import in_event_loop, loops_are_loaded
from hasten.watcher.recorder import Place


def _flag() -> int:
    frame = sys._getframe(1)
    return in_event_loop(Place(0, frame.f_code, frame.f_lasti, "kept"), frame)


async def _alone() -> int:
    return _flag()


async def _beside_others() -> int:
    other = asyncio.create_task(asyncio.sleep(60))
    try:
        return _flag()
    finally:
        other.cancel()


async def _in_executor() -> int:
    other = asyncio.create_task(asyncio.sleep(60))
    try:
        return await asyncio.get_running_loop().run_in_executor(None, _flag)
    finally:
        other.cancel()


def test_a_task_that_others_wait_for() -> None:
    assert loops_are_loaded()
    assert asyncio.run(_beside_others()) == rows.ON_LOOP


def test_no_loop_one_with_nothing_else_to_do_and_an_executor() -> None:
    assert _flag() == 0
    assert asyncio.run(_alone()) == 0
    assert asyncio.run(_in_executor()) == 0


def test_a_user_interface_of_tk() -> None:
    tkinter = pytest.importorskip("tkinter", reason="this Python has no tkinter")
    found = []
    interface = tkinter.Tcl()  # the same main loop, without a screen

    def work() -> None:
        found.append(_flag())
        interface.quit()

    interface.after(0, work)
    interface.mainloop(-1)
    assert found == [rows.ON_LOOP]

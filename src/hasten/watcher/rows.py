"""The rows in which a watched program writes what happened: four integers each, in the machine's byte order.

An event: code, thread, start, end (nanoseconds of the monotonic clock). A sample: code, thread, time, how long the
thread has been running or ready to run so far (-1 if unknown). The code holds the kind in its lowest 4 bits, flags in
the next 4, then the number of the interpreter (16 bits) and that of the place in the program; a sample has the number
of its stack in place of both.
"""

from __future__ import annotations

from typing import Final

LOAD, ALLOCATE, RESIZE, SET, INVOKE, GET, SIGNATURE, SAMPLE, BUFFER, FREE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
KIND_MASK: Final = 0xF
FLAG_SHIFT: Final = 4
FLAG_MASK: Final = 0xF
OBJECT_SHIFT: Final = 8
OBJECT_MASK: Final = 0xFFFF
PLACE_SHIFT: Final = 24
STACK_SHIFT: Final = 8

# Flags of a copy in (bit 0: the value has to be made fit first), of a resize (the shape is another one) and of a run
# (bit 0: on the thread of an event loop; bit 1: the C calls since the last one were looked at, which takes time).
ODD: Final = 1
CHANGED: Final = 1
ON_LOOP: Final = 1
LOOKED_AT: Final = 2

INTEGERS_A_ROW: Final = 4
ROWS_SUFFIX: Final = ".rows"
LINES_SUFFIX: Final = ".jsonl"

FOLDER_VARIABLE: Final = "HASTEN_APP_FOLDER"
"""The environment variable that tells a program where to write what is seen."""

"""A training program without TensorFlow, for tests: it answers as the real one does, by a script of accuracies.

`script.json` in its folder has the accuracy after each epoch; -1 ends the process there. What it was asked is written
to `asked.jsonl`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from hasten.runner.protocol import Message
from hasten.runner.serving import serve


def main() -> None:
    serve(lambda: FakeTraining().answer, memory_mb=0)


class FakeTraining:
    def __init__(self) -> None:
        self._folder, self._epoch = Path(), 0

    def answer(self, request: Message) -> Message:
        body: dict[str, Any] = request.body
        kind = body["request"]
        if kind == "begin":
            self._folder = Path(body["folder"])
        with (self._folder / "asked.jsonl").open("a") as log:
            log.write(json.dumps(body) + "\n")
        if kind == "epoch":
            return Message({"ok": True, "accuracy": self._next()})
        if kind == "save":
            np.savez(body["path"], epoch=self._epoch)
        elif kind == "load":
            with np.load(body["path"]) as known:
                self._epoch = int(known["epoch"])
        elif kind == "convert":
            Path(body["path"]).write_bytes((self._folder / "converted").read_bytes())
            return Message({"ok": True, "same": 1.0})
        return Message({"ok": True})

    def _next(self) -> float:
        script = json.loads((self._folder / "script.json").read_text())
        done = (self._folder / "done").read_text() if (self._folder / "done").exists() else ""
        accuracy = float(script[len(done)])
        (self._folder / "done").write_text(done + ".")
        self._epoch = len(done) + 1
        if accuracy < 0:
            os._exit(1)
        return accuracy

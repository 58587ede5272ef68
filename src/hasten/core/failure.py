"""A failure as a value: it is recorded like any other result, and the search continues with the next trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hasten.core.errors import AcceleratorError, DataError, HastenError, ModelError, TargetError, UsageError

if TYPE_CHECKING:
    from hasten.core.plan import Plan

STAGES: Final = ("start", "load", "run", "profile", "evaluate", "make")
# What a runner can say of itself (the first five), and what only its parent can see.
OUT_OF_MEMORY: Final = "out of memory"
KINDS: Final = ("usage", "model", "data", "accelerator", "target", "engine", "bug", "crash", "hang", OUT_OF_MEMORY)
# What callers decide by: something that could be installed or given is not there; the engine cannot do what was asked;
# a process wanted more memory than it may have (and was not killed for what others have).
NOT_INSTALLED: Final = "not_installed"
UNSUPPORTED: Final = "unsupported"
MEMORY_LIMIT: Final = "memory_limit"
# The operators do not work with the shapes of the inputs, or that may be why they fail.
SHAPES: Final = "shapes"
# The device was there, and its connection broke: the same may work once more. Another session has the device.
CONNECTION_LOST: Final = "connection_lost"
IN_USE: Final = "in_use"
NO_ROOM: Final = "no_room"
_ERRORS: Final[dict[str, type[HastenError]]] = {
    "usage": UsageError,
    "model": ModelError,
    "data": DataError,
    "accelerator": AcceleratorError,
    "target": TargetError,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, at which stage, and the last lines that the runner wrote before."""

    stage: str
    kind: str
    message: str = ""
    hint: str = ""
    log: tuple[str, ...] = ()
    code: str = ""
    """The cause where callers tell it apart from others of its kind (such as `NOT_INSTALLED`), else empty."""

    def __post_init__(self) -> None:
        if self.stage not in STAGES or self.kind not in KINDS:
            raise ValueError(f"no such failure: {self.stage}/{self.kind}")

    def error(self, plan: Plan) -> HastenError:
        """The failure as an error. Trouble of the engine is the model's on the plain CPU, else the accelerator's."""
        kind = _ERRORS.get(self.kind)
        if kind is None:
            kind = ModelError if plan.runs_on_cpu and self.stage != "start" else AcceleratorError
        if self.kind == "bug" or (self.stage == "start" and self.kind in ("crash", OUT_OF_MEMORY)):
            kind = TargetError
        # Where memory ran out, the last lines say no more than that.
        log = () if self.kind == OUT_OF_MEMORY else self.log
        telling = [line for line in log if not line.startswith("INFO:")]
        return kind(self.message, self.hint, code=self.code, log=telling[-6:])


class RunnerFailed(Exception):
    """Carries a Failure out of a runner's request, up to whoever records it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_from_error(error: HastenError, stage: str) -> Failure:
    """The same trouble as a value. An error of no kind in particular is nobody's fault but ours."""
    kind = next((name for name, cls in _ERRORS.items() if isinstance(error, cls)), "bug")
    return Failure(stage, kind, error.sentence, error.hint, error.log, error.code)

"""`python -m hasten.variants`: makes variants on request, in a process of its own.

Calibration runs models and the quantizer is native code in part: what crashes here costs one variant. Samples for
calibration are sent once; the ranges found with them serve every recipe that takes them the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.codec import to_data
from hasten.core.errors import HastenError
from hasten.core.failure import Failure, failure_from_error
from hasten.runner.protocol import Message
from hasten.runner.serving import failed, serve
from hasten.variants.io_types import IoTypes
from hasten.variants.make import calibrate, make_variant
from hasten.variants.pruning import prune_variant
from hasten.variants.recipes import Recipe, recipe_from_name
from hasten.variants.selection import NodeChoice
from hasten.variants.variant import NothingToChangeError

if TYPE_CHECKING:
    from hasten.variants.calibration import Calibration

_STAGE = "make"


def main() -> None:
    """Serve until the other side closes."""
    serve(lambda: VariantServer().answer, memory_mb=0)


class VariantServer:
    """Makes variants of whatever models it is asked for."""

    def __init__(self) -> None:
        self._samples: list[dict[str, Any]] = []
        self._calibrations: dict[tuple[str, str, str], Calibration] = {}

    def answer(self, request: Message) -> Message:
        """The answer to one request. Whatever goes wrong is an answer, too."""
        try:
            return Message({"ok": True, **self._handle(request)})
        except NothingToChangeError as error:  # no trouble: it is told apart from what cannot be made
            return Message({"ok": True, "nothing_to_change": error.message, "hint": error.hint})
        except HastenError as error:
            return failed(failure_from_error(error, _STAGE))
        except MemoryError:
            return failed(Failure(_STAGE, "out of memory", "There was not enough memory to make this variant."))
        except Exception as error:  # noqa: BLE001 - the parent must get an answer whatever happened here
            message = f"{type(error).__name__}: {error}"
            return failed(Failure(_STAGE, "bug", message, "Report this with the model."))

    def _handle(self, request: Message) -> dict[str, Any]:
        body = request.body
        if body["request"] == "samples":
            self._take_samples(body["samples"], request.frames)
            return {}
        if body["request"] == "prune":
            return to_data(prune_variant(body["model"], body["sparsity"], body["out"], encode=body["encode"]))
        recipe = recipe_from_name(body["recipe"])
        calibration = self._calibration(body, recipe) if recipe.needs_calibration else None
        variant = make_variant(
            body["model"],
            recipe,
            body["out"],
            calibration,
            choice=NodeChoice(body["only"], body["but"]),
            signature=body["signature"],
            io_types=IoTypes(body["input_type"], body["output_type"]),
        )
        return to_data(variant)

    def _take_samples(self, descriptions: list[list[Any]], frames: tuple[bytes | memoryview, ...]) -> None:
        self._samples, self._calibrations = [], {}
        arrays = iter(frames)
        for entries in descriptions:
            # The frames are good until the answer is given.
            self._samples.append(
                {name: np.frombuffer(next(arrays), dtype).reshape(shape).copy() for name, dtype, shape in entries}
            )

    def _calibration(self, body: dict[str, Any], recipe: Recipe) -> Calibration:
        key = (body["model"], body["signature"] or "", recipe.ranges.name)
        if key not in self._calibrations:
            self._calibrations[key] = calibrate(body["model"], recipe, self._samples, signature=body["signature"])
        return self._calibrations[key]


if __name__ == "__main__":
    main()

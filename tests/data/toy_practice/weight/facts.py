"""What was found out about the weight of a model."""

from __future__ import annotations

from hasten.core.codec import record
from hasten.core.measurement import Model


@record
class WeightFound:
    """A model and the number of bytes that is still light."""

    model: Model
    limit: int

"""A profile as node data for Google's Model Explorer, so that times lie over the graph there.

The file is one graph's node data: values under the names of the nodes' output tensors, which is how Model Explorer
finds the nodes of a .tflite file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hasten.core.profile import Profile

_GRADIENT: Final = [
    {"stop": 0, "bgColor": "#ffffff"},
    {"stop": 0.5, "bgColor": "#ffd9a0"},
    {"stop": 1, "bgColor": "#e4572e", "textColor": "#ffffff"},
]


def node_data(profile: Profile) -> str:
    """Milliseconds of each operator. Operators without a time of their own (fused ones) are left uncoloured."""
    results = {
        operator.location: {"value": round(operator.ms, 6)} for operator in profile.operators if operator.index >= 0
    }
    name = f"hasten: ms on {profile.plan.describe()}"
    return json.dumps({"name": name, "results": results, "gradient": _GRADIENT}, indent=2)

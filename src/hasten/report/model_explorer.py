"""A profile as node data for Google's Model Explorer, so that times lie over the graph there.

The file is one graph's node data: values under the names of the nodes' output tensors, which is how Model Explorer
finds the nodes of a .tflite file. Where several nodes share a name, or have none, each stands under its own identifier
there, which is its index in the graph.
"""

from __future__ import annotations

import json
from collections import Counter
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
    operators = [operator for operator in profile.operators if operator.index >= 0]
    uses = Counter(operator.location for operator in operators)
    results = {}
    for operator in operators:
        is_name = operator.location and uses[operator.location] == 1
        results[operator.location if is_name else str(operator.index)] = {"value": round(operator.ms, 6)}
    name = f"hasten: ms on {profile.plan.describe()}"
    return json.dumps({"name": name, "results": results, "gradient": _GRADIENT}, indent=2)

"""Node data for Google's Model Explorer: a value for each node, to lay over the graph of a .tflite file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_GRADIENT: Final = [
    {"stop": 0, "bgColor": "#ffffff"},
    {"stop": 0.5, "bgColor": "#ffd9a0"},
    {"stop": 1, "bgColor": "#e4572e", "textColor": "#ffffff"},
]


@dataclass(frozen=True, slots=True)
class NodeValue:
    """A value of one node; `location` is the name of its first output tensor."""

    index: int
    location: str
    value: float


def node_data(name: str, values: Sequence[NodeValue], locations: Iterable[str] = ()) -> str:
    """One graph's node data. The largest value gets the strongest color; nodes that are not listed stay uncolored.

    Values stand under the names of the nodes' output tensors, which is how Model Explorer finds the nodes of a .tflite
    file. Where several nodes share a name, or have none, each stands under its own identifier there, which is its index
    in the graph. `locations` are the names of all nodes, where some have no value.
    """
    uses = Counter(locations) or Counter(entry.location for entry in values)
    results = {
        entry.location if entry.location and uses[entry.location] == 1 else str(entry.index): {
            "value": round(entry.value, 6)
        }
        for entry in values
    }
    return json.dumps({"name": name, "results": results, "gradient": _GRADIENT}, indent=2)

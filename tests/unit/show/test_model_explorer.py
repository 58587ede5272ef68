"""Node data for Model Explorer: under the nodes' names where these are unique, else under their numbers."""

from __future__ import annotations

import json

from hasten.show.model_explorer import NodeValue, node_data


def test_values_stand_under_names() -> None:
    data = json.loads(node_data("time", [NodeValue(0, "first", 1.5), NodeValue(1, "second", 1 / 3)]))
    assert data["name"] == "time"
    assert data["results"] == {"first": {"value": 1.5}, "second": {"value": 0.333333}}


def test_names_that_are_empty_or_shared_are_numbers() -> None:
    values = [NodeValue(0, "", 1.0), NodeValue(1, "same", 2.0), NodeValue(2, "same", 3.0)]
    assert set(json.loads(node_data("x", values))["results"]) == {"0", "1", "2"}


def test_a_name_that_a_node_without_a_value_shares_is_a_number_too() -> None:
    assert set(json.loads(node_data("x", [NodeValue(4, "same", 2.0)], ["same", "same"]))["results"]) == {"4"}

"""A profile on a terminal, as JSON and in a report: it fits, it reads old sessions, and names are shown as they are."""

from __future__ import annotations

from typing import Any

import pytest

from hasten.core.codec import from_data, to_data
from hasten.core.profile import PartitionTime, Profile
from hasten.core.session import Line
from hasten.practices.profile.rules import placement, remarks_on_mapping, where_time_goes
from hasten.practices.profile.view import document, sections, session_lines, view
from hasten.show.blocks import Chart, Headline, Table, flat
from hasten.show.terminal import cells_of, terminal_text
from tests.unit.practices.profile.examples import built_in, odd, operator, profile, typical, unseen
from tests.unit.show.hostile import HOSTILE

MANY = [operator(i, ms=0.01 * i, location=f"a/long/path/of/layers/{i}" * 3) for i in range(60)]


def text_of(found: Profile, most: int = 15, **how: Any) -> str:
    return terminal_text(view(found, most), **how)


def operators_of(found: Profile) -> Table:
    return next(block.table for block in view(found) if isinstance(block, Chart) and "tree" in block.name)


def test_a_terminal_shows_the_most_expensive_first_and_says_how_many_are_left() -> None:
    text = text_of(profile(MANY), 3)
    assert [line.split()[0] for line in text.splitlines() if "compute" in line] == ["59", "58", "57"]
    assert "57 more" in text
    assert text_of(profile(MANY), verbose=True).count("compute") >= 60


def test_kernels_and_locations_are_details() -> None:
    assert "IGEMM" not in text_of(profile(MANY))
    assert "IGEMM" in text_of(profile(MANY), verbose=True)


@pytest.mark.parametrize("ms", [0.0, 0.0003, 99.9996, 1234.5, 123456.0])
def test_extreme_numbers_stay_in_one_line(ms: float) -> None:
    text = text_of(profile([operator(0, ms=ms, headroom_ms=ms, gflops=12345.6, macs=10**12)]))
    assert max(map(len, text.splitlines())) <= 80
    assert "e+" not in text


def test_what_is_unknown_is_empty() -> None:
    unknown = operator(0, macs=None, flops=None, gflops=None, bound=None, headroom_ms=None)
    (row,) = operators_of(profile([unknown])).rows
    assert [cell.text for cell in row[5:9]] == [""] * 4


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_not_markup_and_steer_no_terminal(name: str) -> None:
    partitions = (PartitionTime(0, True, (0,), (name,), 1.0), PartitionTime(1, False, (1,), (name,), 1.0))
    text = text_of(profile([operator(0, op=name, location=name, kernels=(name,))], partitions=partitions), verbose=True)
    assert all(line.isprintable() for line in text.splitlines())
    for line in text_of(profile([operator(0, op=name[:60])])).splitlines():
        assert cells_of(line) <= 80 or max(map(cells_of, line.split())) > 28


def test_remarks_follow_from_the_mapping() -> None:
    assert remarks_on_mapping(typical()) == []
    codes = [remark.code for remark in remarks_on_mapping(odd())]
    assert codes == ["profile.ambiguous", "profile.guess", "profile.opaque"]
    assert [remark.code for remark in remarks_on_mapping(unseen())] == ["profile.rewritten"]


def test_where_the_time_goes_is_said_only_if_most_of_it_is_seen() -> None:
    assert where_time_goes(typical()).code == "profile.kinds"
    assert where_time_goes(unseen()).code == "profile.unseen"


def test_what_the_profiler_did_not_see_is_unknown_and_not_nothing() -> None:
    text = text_of(profile([operator(0, ms=0.0, headroom_ms=0.0), operator(1, "RELU", ms=0.0, headroom_ms=0.0)]))
    assert "unknown, as the profiler sees no operator's time" in text
    assert "0.000" not in text
    little = text_of(profile([operator(0, ms=0.4), operator(1, "RELU", ms=0.0)]))
    assert "at least 0.200 ms per run" in little
    assert "RELU" not in little
    seen = text_of(profile([operator(0, ms=1.9), operator(1, "RELU", ms=0.0)]))
    assert "0.200 ms per run" in seen
    assert "RELU" in seen


def test_placement_counts_what_is_left_to_built_in_kernels() -> None:
    assert placement(odd()).facts == {"delegated": 4, "total": 7, "partitions": 2, "left": {"WHILE": 1, "ADD": 2}}
    assert placement(built_in()).facts["partitions"] == 0


@pytest.mark.parametrize("found", [typical(), odd(), unseen(), built_in()])
def test_a_session_gives_the_profile_back(found: Profile) -> None:
    ((kind, label, data),) = session_lines(found)
    assert (kind, label) == ("profile", found.model.path)
    assert from_data(Profile, data) == found


def test_json_has_the_promised_keys() -> None:
    data = document(odd())
    assert {"model", "plan", "invoke_ms", "latency_ms", "coverage", "ops", "partitions", "peaks", "doubts"} <= set(data)
    assert data["ops"][1]["kernel"] is None
    assert data["ops"][3]["kernel"] == "Convolution (NHWC, F32) IGEMM"
    assert {"reason", "evidence", "hint", "code", "facts", "text"} == set(data["doubts"][0])


def test_a_session_of_an_older_release_is_shown() -> None:
    """It had neither model nor plan, one text for all kernels, and sentences in the place of codes."""
    data = to_data(profile([operator(0, ms=1.5), operator(1, "ADD", 0.4)]))
    for operator_data in data["ops"]:
        operator_data["kernel"] = " + ".join(operator_data.pop("kernels"))
        del operator_data["events"], operator_data["kernel_ms"]
    for key in ("model", "plan", "interrupted", "profiler_ms"):
        del data[key]
    data["doubts"] = [{"reason": "unseen", "evidence": "the operators add up to 93% of the run", "hint": "."}]
    blocks = sections([Line("profile", "folder/old.tflite", "", data)])[0].blocks
    text = terminal_text(blocks, verbose=True)
    for part in ("CONV_2D 73 %", "IGEMM", "the operators add up to 93% of the run"):
        assert part in text


def test_profiles_before_and_after_stand_side_by_side() -> None:
    after = profile([operator(0, ms=1.5)], latency_ms=1.6, plain_ms=1.6, invoke_ms=1.6)
    lines = [Line("profile", "after", "", to_data(after)), Line("profile", "before", "", to_data(typical()))]
    (section,) = sections(lines)
    assert [block.text[:6] for block in section.blocks if isinstance(block, Headline)] == ["Before", "After:"]
    charts = [block for block in flat(section.blocks) if isinstance(block, Chart)]
    assert [chart.name for chart in charts] == ["profile-kinds", "profile-tree-0", "profile-tree-1", "profile-roofline"]
    assert {row[0].text for row in charts[0].table.rows} == {"before", "after"}


def test_a_session_without_profiles_has_no_section() -> None:
    assert sections([Line("measurement", "m", "", {})]) == []

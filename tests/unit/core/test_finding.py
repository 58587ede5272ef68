"""Findings, and sets of cores as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.core.codec import to_data
from hasten.core.cores import cores_from_text, cores_text
from hasten.core.errors import UsageError
from hasten.core.finding import Finding, Standing, finding_from_data
from hasten.core.plan import Plan, plan_from_mapping, plan_with
from hasten.core.remark import remark, said


def test_a_finding_survives_json() -> None:
    finding = Finding("threads", Standing.TO_DO, remark("threads.use", threads=2))
    assert finding_from_data(to_data(finding)) == finding
    assert to_data(finding)["verdict"] == "to do"


def test_a_finding_without_evidence_is_none() -> None:
    with pytest.raises(ValueError, match="evidence"):
        Finding("threads", Standing.GOOD, said(""))


@given(st.sets(st.integers(0, 300)))
def test_cores_survive_being_written(cores: set[int]) -> None:
    assert cores_from_text(cores_text(cores)) == tuple(sorted(cores))


def test_cores_as_people_write_them() -> None:
    assert cores_from_text("0-3+6") == (0, 1, 2, 3, 6)
    assert cores_text((6, 0, 1, 2, 3)) == "0-3+6"


@pytest.mark.parametrize("text", ["3-1", "a", "1-", "-1", "0,1", "99999", "1.5"])
def test_cores_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        cores_from_text(text)


def test_a_plan_takes_cores_as_text_and_as_data() -> None:
    plan = plan_with(Plan(), {"threads": "2", "cores": "4-5"})
    assert plan.cores == (4, 5)
    assert plan.describe() == "cpu, 2 threads on cores 4-5"
    assert plan_from_mapping({"cores": [5, 4, 4]}) == Plan(cores=(4, 5))
    assert plan_with(plan, {"cores": ""}).cores == ()
    with pytest.raises(UsageError, match="value of cores"):
        Plan(cores=(-1,))

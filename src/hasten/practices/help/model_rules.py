"""What the checks of a model come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hasten.core.finding import Finding, Standing
from hasten.core.remark import remark
from hasten.practices.help.facts import Status
from hasten.practices.help.rules import NAME

if TYPE_CHECKING:
    from hasten.practices.help.facts import ModelFound


def model_finding(found: ModelFound) -> Finding:
    """Broken checks first; then those that could be better."""
    for status, code in ((Status.BROKEN, "help.model-broken"), (Status.BETTER, "help.model-better")):
        names = [check.name for check in found.checks if check.status is status]
        if names:
            return Finding(NAME, Standing.TO_DO, remark(code, count=len(names), names=names))
    return Finding(NAME, Standing.GOOD, remark("help.model-good", count=len(found.checks)))

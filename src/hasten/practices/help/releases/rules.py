"""Since which release a problem exists, from what each release shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hasten.core.remark import Remark, remark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.practices.help.releases.facts import ReleaseRow


def in_order(releases: Iterable[str]) -> list[str]:
    """Releases from old to new, each once."""
    return sorted(dict.fromkeys(releases), key=_age)


def _age(release: str) -> tuple[tuple[int, ...], int, str]:
    """A pre-release such as 2.3.0rc1 comes before 2.3.0."""
    whole = re.match(r"[\d.]*", release)
    numbers = tuple(int(part) for part in (whole.group() if whole else "").split(".") if part)
    rest = release[whole.end() :] if whole else release
    return numbers, 0 if rest else 1, rest


def finding(rows: Sequence[ReleaseRow], problem: str) -> Remark:
    """What the rows come to; releases that could not tell are left out, and named."""
    told = [row for row in rows if row.shows is not None]
    unknown = [row.release for row in rows if row.shows is None]
    facts = {"problem": problem, "unknown": unknown}
    if not told:
        return remark("releases.unknown", **facts)
    if not any(row.shows for row in told):
        return remark("releases.none", releases=[row.release for row in told], **facts)
    if all(row.shows for row in told):
        return remark("releases.all", releases=[row.release for row in told], **facts)
    changes = [place for place in range(1, len(told)) if told[place].shows != told[place - 1].shows]
    if len(changes) > 1:
        return remark("releases.mixed", releases=[row.release for row in told if row.shows], **facts)
    before, after = told[changes[0] - 1].release, told[changes[0]].release
    code = "releases.since" if told[-1].shows else "releases.fixed"
    return remark(code, release=after, before=before, **facts)

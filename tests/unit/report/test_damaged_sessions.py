"""Sessions that no release has written: each is shown as far as it can be read, or ends in a sentence."""

from __future__ import annotations

import json
import random
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hasten import api
from hasten.core.errors import DataError, HastenError
from hasten.core.measurement import Model
from hasten.core.session import read_session
from hasten.core.trial import ORIGINAL, Trial
from hasten.demo import MODEL
from hasten.gate.baseline import baseline_runs, session_row
from hasten.gate.words import BOOK
from hasten.measure.rounds import Candidate
from hasten.report.live import LiveReport
from hasten.search.candidates import Candidates
from hasten.search.facts import front_of
from hasten.search.folder import TUNE, SearchFolder
from hasten.targets.local import LocalTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSIONS = Path(__file__).parents[2] / "data" / "sessions"
# JSON that stands where a release has written something else.
ABSURD = (
    *("1e999", "-1e999", "NaN", "Infinity", "-1", "0", "2.5", "1e308", "1e-320", "9" * 20, "1" + "0" * 400),
    *("null", "true", "[]", "{}", "[null]", '{"a": 1}', "[" * 3000 + "]" * 3000),
    *('""', '"x"', r'"\u001b[31mred\n"', '"<script>alert(1)</script>"', r'"\ud800"', '"2026-99-99T99:99:99"'),
)
IMPOSSIBLE = ("1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 400, "[" * 3000 + "]" * 3000)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to everything in a document; of a long list, to its first entries."""
    if way:
        yield way
    entries = value.items() if isinstance(value, dict) else enumerate(value[:5]) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places(entry, (*way, key))


def mutated(content: str, chance: random.Random) -> str:
    """The session with something absurd, or nothing, in a place or two of one of its lines."""
    lines = content.splitlines()
    number = chance.randrange(len(lines))
    document = json.loads(lines[number])
    for way in chance.sample(list(places(document)), chance.choice((1, 1, 2))):
        holder: Any = document
        for key in way[:-1]:
            holder = holder[key] if isinstance(holder, list | dict) else None
        if isinstance(holder, dict) and chance.random() < 0.2:
            holder.pop(way[-1], None)
        elif isinstance(holder, list | dict):
            holder[way[-1]] = f"@{chance.randrange(len(ABSURD))}@"
    lines[number] = re.sub(r'"@(\d+)@"', lambda found: ABSURD[int(found[1])], json.dumps(document))
    return "\n".join(lines) + "\n"


def shown_or_sentence(path: Path, form: str) -> str:
    try:
        return api.session_report(path, form)
    except HastenError as error:
        return f"{error.message} {error.hint}"


@pytest.mark.parametrize("path", sorted(SESSIONS.iterdir()), ids=lambda path: path.stem)
@pytest.mark.parametrize("form", ["html", "md", "json"])
def test_mutations_are_shown_or_end_in_a_sentence(path: Path, form: str, tmp_path: Path) -> None:
    content, file = path.read_text(), tmp_path / "session.jsonl"
    for seed in range(12):
        file.write_text(mutated(content, random.Random(f"{path.stem} {form} {seed}")))
        shown = shown_or_sentence(file, form)
        shown.encode()
        assert "<script>alert(1)" not in shown or "<html" not in shown
        LiveReport(file).now()


def test_mutations_serve_as_a_baseline_or_do_not(tmp_path: Path) -> None:
    file, served = tmp_path / "session.jsonl", 0
    for name in ("bench", "check", "threads"):
        content = (SESSIONS / f"{name}.jsonl").read_text()
        (now, *_) = baseline_runs(SESSIONS / f"{name}.jsonl")
        for seed in range(100):
            file.write_text(mutated(content, random.Random(f"{name} {seed}")))
            try:
                runs = baseline_runs(file)
            except HastenError:
                continue
            BOOK.text(session_row("session.jsonl", runs, now, 0.03).why)
            served += bool(runs)
    assert 50 < served < 250, "otherwise the mutations test nothing"


@pytest.mark.parametrize(
    "rounds", [[{"round": "2"}], [{"round": 1}, {"round": 2}], [{"round": 1}, {"round": 2, "samples": {"blocks": 3}}]]
)
def test_damaged_rounds_of_a_baseline_end_in_a_sentence(tmp_path: Path, rounds: list[dict[str, Any]]) -> None:
    file = tmp_path / "session.jsonl"
    lines = [json.dumps({"kind": "measurement", "label": "m", "at": "", "data": data}) for data in rounds]
    file.write_text("\n".join(['{"hasten_session": 1}', *lines]))
    with pytest.raises(DataError, match=r"session\.jsonl is damaged"):
        api.check(MODEL, replace(api.check_request({}), baseline_session=str(file)))


@pytest.mark.parametrize(("key", "value"), [("path", 3), ("sha256", [])])
def test_a_baseline_whose_model_has_no_name_is_none(tmp_path: Path, key: str, value: Any) -> None:
    first, line = (SESSIONS / "bench.jsonl").read_text().splitlines()[:2]
    entry = {name: part for name, part in json.loads(line).items() if name != "crc32"}
    entry["data"]["model"][key] = value
    file = tmp_path / "session.jsonl"
    file.write_text(f"{first}\n{json.dumps(entry)}\n")
    assert baseline_runs(file) == []


def go_on(folder: SearchFolder) -> None:
    """Use every trial as a search that goes on does: in the race, next to the original, and saved again."""
    entries = list(folder.trials.values())
    first = next((trial for trial in entries if trial.variant == ORIGINAL), Trial(ORIGINAL))
    candidate = Candidate(ORIGINAL, Path(__file__), Model("m", 1, "aa"))
    candidates = Candidates(LocalTarget(), folder, (first, candidate), 0.0)
    for trial in entries:
        entrant = candidates.enter(trial, candidate)
        candidates.order(entrant)
        candidates.is_timed(entrant)
        candidates.compared(candidates.base, entrant)
        assert trial.against is None or trial.against.leaning
    candidates.refresh()
    assert all(found.cost >= 0 for found in folder.sensitivities)
    front_of(list(folder.trials.values()))


LEVELS: tuple[Any, ...] = ({"1": 800}, {"1": -1e300}, {"1": "x"}, {"1": None}, {"x": 1}, {"1": []}, [], "x")


@pytest.mark.parametrize("levels", LEVELS, ids=str)
@pytest.mark.parametrize("place", ["levels", "costs"])
def test_an_absurd_level_is_damage(tmp_path: Path, place: str, levels: Any) -> None:
    session = read_session(SESSIONS / "tune.jsonl")
    settings = next(line.data for line in session.lines if line.kind == "settings")
    trial = next(line for line in session.lines if line.kind == "trial")
    damage = {"energy": levels} if place == "costs" else levels
    line = {"kind": "trial", "label": trial.label, "at": trial.at, "data": {**trial.data, place: damage}}
    file = tmp_path / "session.jsonl"
    file.write_text((SESSIONS / "tune.jsonl").read_text() + json.dumps(line) + "\n")
    with pytest.raises(DataError, match="is damaged"):
        SearchFolder(tmp_path, TUNE, settings, resume=True)


def test_a_search_goes_on_with_mutations_or_refuses(tmp_path: Path) -> None:
    content, file = (SESSIONS / "tune.jsonl").read_text(), tmp_path / "session.jsonl"
    settings = next(line.data for line in read_session(SESSIONS / "tune.jsonl").lines if line.kind == "settings")
    went_on = 0
    for seed in range(100):
        file.write_text(mutated(content, random.Random(seed)))
        try:
            folder = SearchFolder(tmp_path, TUNE, settings, resume=True)
        except HastenError:
            continue
        with closing(folder):
            go_on(folder)
        went_on += 1
    assert 10 < went_on < 90, "otherwise the mutations test nothing"


@pytest.mark.parametrize("number", IMPOSSIBLE, ids=lambda text: text[:8])
def test_an_impossible_number_is_named_with_its_line(tmp_path: Path, number: str) -> None:
    path = tmp_path / "session.jsonl"
    lines = (SESSIONS / "bench.jsonl").read_text().splitlines()
    lines[1] = lines[1].replace('"data":{', f'"data":{{"absurd":{number},', 1)
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"Line 2 of .*session\.jsonl"):
        api.session_report(path)


@pytest.mark.parametrize("line", ["[]", "3", '{"kind": 1, "label": "x", "at": "", "data": {}}', '{"kind": "x"', "{}"])
def test_a_line_of_another_form_is_counted_as_lost(tmp_path: Path, line: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text((SESSIONS / "bench.jsonl").read_text().rstrip() + f"\n{line}\n")
    assert read_session(path).lost_lines == 1

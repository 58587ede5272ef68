"""The folder of a tuning: what is there is never lost, nothing foreign is touched, and only the same tuning goes on."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasten.core.codec import to_data
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.finding import Finding, Standing
from hasten.core.measurement import Model
from hasten.core.plan import Plan
from hasten.core.profile import Profile
from hasten.core.remark import remark
from hasten.core.session import SessionWriter, read_session
from hasten.core.trial import Purpose, Trial, trial_data, trial_from_data
from hasten.engine.model_file import file_hash
from hasten.measure.rounds import Candidate
from hasten.search.candidates import Candidates
from hasten.search.folder import QUANTIZE, SESSION, TUNE, FolderRules, SearchFolder, session_folder
from hasten.search.full_practices import FullPractices
from hasten.targets.local import LocalTarget

SETTINGS: dict[str, Any] = {"model": "m.tflite", "compared": {"model": "aa", "seed": 0}}
TRIAL = Trial("original", Plan(), levels={1: 0.5}, elapsed_s=7.0)


def begun(path: Path) -> None:
    folder = SearchFolder(path, TUNE, SETTINGS, resume=False)
    folder.save_trial(TRIAL)
    folder.close()


def test_what_was_saved_is_found_again(tmp_path: Path) -> None:
    begun(tmp_path / "out")
    with closing(SearchFolder(tmp_path / "out", TUNE, SETTINGS, resume=True)) as again:
        assert again.resumed
        assert again.trials == {TRIAL.id: TRIAL}
        assert again.elapsed_s == 7.0


def test_an_existing_session_is_not_touched_without_being_asked(tmp_path: Path) -> None:
    begun(tmp_path)
    before = (tmp_path / SESSION).read_bytes()
    with pytest.raises(UsageError, match="already holds a session"):
        SearchFolder(tmp_path, TUNE, SETTINGS, resume=False)
    assert (tmp_path / SESSION).read_bytes() == before


def test_foreign_things_are_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    for resume in (False, True):
        with pytest.raises(UsageError, match=r"letter\.txt"):
            SearchFolder(tmp_path, TUNE, SETTINGS, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_the_session_of_another_command_is_refused(tmp_path: Path) -> None:
    with closing(SessionWriter(tmp_path / SESSION, {"command": "bench"})) as writer:
        writer.begin()
    with pytest.raises(UsageError, match="another command"):
        SearchFolder(tmp_path, TUNE, SETTINGS, resume=True)


def test_another_model_or_seed_does_not_go_on(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(ModelError, match="another model"):
        SearchFolder(tmp_path, TUNE, {"compared": {"model": "bb", "seed": 0}}, resume=True)
    with pytest.raises(UsageError, match="another seed: 0, not 1"):
        SearchFolder(tmp_path, TUNE, {"compared": {"model": "aa", "seed": 1}}, resume=True)


@pytest.mark.parametrize("left", [b"", b'{"hasten_session": 1, "command": "tune"}\n'])
def test_killed_as_it_began_it_begins_anew(tmp_path: Path, left: bytes) -> None:
    (tmp_path / SESSION).write_bytes(left)
    SearchFolder(tmp_path, TUNE, SETTINGS, resume=True).close()
    assert [trial.kind for trial in read_session(tmp_path / SESSION).lines] == ["settings"]


def test_a_line_cut_in_two_by_a_crash_costs_that_line(tmp_path: Path) -> None:
    begun(tmp_path)
    with (tmp_path / SESSION).open("ab") as stream:
        stream.write(b'{"kind": "trial", "label": "x", "da')
    with closing(SearchFolder(tmp_path, TUNE, SETTINGS, resume=True)) as again:
        assert list(again.trials) == [TRIAL.id]
        again.save_trial(TRIAL)
    assert read_session(tmp_path / SESSION).lost_lines == 1


def test_trouble_with_the_disk_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SearchFolder(tmp_path, TUNE, SETTINGS, resume=False)

    def full(self: SessionWriter, kind: str, label: str, data: dict[str, Any]) -> None:
        raise DataError("the session file cannot be written: No space left on device")

    monkeypatch.setattr(SessionWriter, "add", full)
    with closing(folder), pytest.raises(DataError, match="No space left") as caught:
        folder.save_trial(TRIAL)
    assert "--resume" in caught.value.hint
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be used"):
        SearchFolder(tmp_path / "file" / "out", TUNE, SETTINGS, resume=False)


def test_two_tunings_do_not_share_a_folder(tmp_path: Path) -> None:
    first = SearchFolder(tmp_path, TUNE, SETTINGS, resume=False)
    with pytest.raises(UsageError, match="Another run is using"):
        SearchFolder(tmp_path, TUNE, SETTINGS, resume=True)
    first.close()
    SearchFolder(tmp_path, TUNE, SETTINGS, resume=True).close()


@pytest.mark.parametrize("rules", [QUANTIZE, TUNE], ids=lambda rules: rules.command)
def test_a_folder_of_an_earlier_release_goes_on(tmp_path: Path, rules: FolderRules) -> None:
    """The session is one of version 0.1.0; the files of its variants are not there."""
    source = Path(__file__).parents[2] / "data" / "sessions" / f"{rules.command}.jsonl"
    shutil.copy(source, tmp_path / SESSION)
    lines = read_session(source).lines
    asked = next(line.data for line in lines if line.kind == "settings")
    with closing(SearchFolder(tmp_path, rules, asked, resume=True)) as folder:
        assert folder.resumed
        assert set(folder.variants) == {line.label for line in lines if line.kind == "variant"}
        assert set(folder.trials) == {line.label for line in lines if line.kind == "trial"}
        assert folder.floor["kind"] == "points"
        slow = [trial for trial in folder.variants.values() if trial.purpose is Purpose.SLOW_NODES]
        assert all(trial.recipe == trial.parent == "static_int8" and trial.float_nodes for trial in slow)
        for kept in (*folder.variants.values(), *folder.trials.values()):
            assert trial_from_data(json.loads(json.dumps(trial_data(kept)))) == kept


def test_a_session_of_a_stranger_brings_no_plan_of_its_own(tmp_path: Path) -> None:
    """Its trial has the name of one that the search makes, and a plan that loads a library."""
    folder = SearchFolder(tmp_path, TUNE, SETTINGS, resume=False)
    folder.keep("trial", TRIAL.id, trial_data(replace(TRIAL, plan=Plan(delegate="evil.so", cache="/elsewhere"))))
    folder.close()
    model = tmp_path / "m.tflite"
    model.write_bytes(b"content")
    with closing(SearchFolder(tmp_path, TUNE, SETTINGS, resume=True)) as again:
        candidate = Candidate("original", model, Model(str(model), 7, file_hash(model)))
        base = Candidates(LocalTarget(), again, (Trial("original"), candidate), 0.0).base
    assert base.trial.levels == TRIAL.levels, "what was measured counts"
    assert base.trial.plan == base.candidate.plan == Plan()


def test_what_was_found_in_full_is_known_of_the_same_model_and_plan(tmp_path: Path) -> None:
    """A run that went on without time for a profile said that there was none, though the session held one."""
    subject = Candidate("a", tmp_path, Model("a", 7, "aa"))
    others = [replace(subject, plan=Plan(threads=2)), replace(subject, path=tmp_path / "b", model=Model("b", 7, "bb"))]
    profile = Profile(subject.model, subject.plan, 1.0, 1.0, 1.0, 1.0, 0.0, 9, (), ())
    finding = Finding("copies", Standing.GOOD, remark("copies.cheap", usual="copying"))
    with closing(SearchFolder(tmp_path / "out", TUNE, SETTINGS)) as folder:
        folder.keep("profile", "before", to_data(profile))
        folder.save_in_full(finding, subject)
    with closing(SearchFolder(tmp_path / "out", TUNE, SETTINGS, resume=True)) as folder:
        extras = FullPractices(LocalTarget(), folder, 0.0, lambda text: None)
        assert extras.profiles_of(subject, subject) == (profile, profile)
        assert extras.findings_about(subject) == {"copies": finding}
        no_graph: Any = None  # nothing runs, as there is no time
        extras.rest(subject, subject, no_graph)
        assert "copies" not in extras.skipped
        assert "help" in extras.skipped
        for other in others:
            assert extras.profiles_of(subject, other) == (profile, None), "the choice is another now"
            assert extras.findings_about(other) == {}


def test_a_session_of_a_stranger_removes_no_file_elsewhere(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    with closing(SearchFolder(tmp_path / "out", TUNE, SETTINGS, resume=False)) as folder:
        folder.forget_file(Trial("original", path=str(precious)))
    assert precious.read_text() == "mine"


def test_a_folder_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "out")
    (tmp_path / "precious").mkdir()
    (tmp_path / "out" / "variants").symlink_to(tmp_path / "precious")
    with pytest.raises(DataError, match="symbolic link"):
        SearchFolder(tmp_path / "out", TUNE, SETTINGS, resume=True)


@pytest.mark.parametrize("rules", [QUANTIZE, TUNE], ids=lambda rules: rules.command)
@pytest.mark.parametrize(
    "name", [SESSION, ".making.tflite", "chosen.tflite", "variants/int8.tflite", "cache/a/weights"]
)
def test_a_file_that_leads_elsewhere_is_refused(tmp_path: Path, rules: FolderRules, name: str) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "out"
    (folder / name).parent.mkdir(parents=True)
    precious.write_text("mine")
    if name == SESSION:
        precious.write_text(json.dumps({"hasten_session": 1, "command": rules.command}) + "\n")
    else:
        (folder / SESSION).write_text(json.dumps({"hasten_session": 1, "command": rules.command}) + "\n")
    before = precious.read_bytes()
    (folder / name).symlink_to(precious)
    with pytest.raises(DataError, match="symbolic link"):
        SearchFolder(folder, rules, SETTINGS, resume=True)
    assert precious.read_bytes() == before


def test_an_empty_file_elsewhere_is_no_session_that_begins(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").touch()
    (tmp_path / "out" / SESSION).symlink_to(tmp_path / "precious")
    with pytest.raises(DataError, match="symbolic link"):
        SearchFolder(tmp_path / "out", TUNE, SETTINGS, resume=True)
    assert not (tmp_path / "precious").stat().st_size


@pytest.mark.parametrize("name", [SESSION, "models/model_int8.tflite", "models"])
def test_a_choice_does_not_follow_links_either(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    (folder / name).parent.mkdir(parents=True)
    (folder / SESSION).write_text(json.dumps({"hasten_session": 1, "command": "choose"}) + "\n")
    precious = (folder / SESSION).rename(tmp_path / "precious") if name == SESSION else tmp_path / "precious"
    (folder / name).symlink_to(precious)
    with pytest.raises(DataError, match="symbolic link"), session_folder(folder, "choose", ""):
        pass


def test_a_pipe_in_a_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / SESSION)
    with pytest.raises(DataError, match="neither a file nor a folder"):
        SearchFolder(tmp_path, TUNE, SETTINGS, resume=True)
    with pytest.raises(DataError, match="neither a file nor a folder"), session_folder(tmp_path, "choose", ""):
        pass


@pytest.mark.parametrize("rules", [QUANTIZE, TUNE], ids=lambda rules: rules.command)
@pytest.mark.parametrize(
    ("label", "name"),
    [("{prod}", "{prod}"), ("../prod", "../prod"), ("..", ".."), ("a\\b", "a\\b"), ("", ""), ("float16", "{prod}")],
)
def test_a_session_of_a_stranger_names_no_place_elsewhere(
    tmp_path: Path, rules: FolderRules, label: str, name: str
) -> None:
    label, name = (text.format(prod=tmp_path / "prod") for text in (label, name))
    with closing(SearchFolder(tmp_path / "out", rules, SETTINGS)) as folder:
        folder.keep("variant", label, trial_data(Trial(name, recipe="float16")))
    with pytest.raises(DataError, match="damaged"):
        SearchFolder(tmp_path / "out", rules, SETTINGS, resume=True)


@pytest.mark.parametrize("variant", ["original", "float16"])
def test_a_session_of_a_stranger_lends_no_file_from_elsewhere(tmp_path: Path, variant: str) -> None:
    secret = tmp_path / "secret.tflite"
    secret.write_bytes(b"mine")
    stolen = Trial(variant, path=str(secret), sha256=file_hash(secret))
    with closing(SearchFolder(tmp_path / "out", TUNE, SETTINGS)) as folder:
        folder.keep("variant", variant, trial_data(stolen))
    with closing(SearchFolder(tmp_path / "out", TUNE, SETTINGS, resume=True)) as again:
        assert not again.has_file_of(again.variants[variant])

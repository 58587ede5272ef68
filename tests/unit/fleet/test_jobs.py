"""What a worker does, by real runs on this machine: it tunes, goes on after a death, races, makes and evaluates."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hasten.bundle.folder import PLAN_FILE, read_bundle
from hasten.bundle.record import MODEL_FILE
from hasten.core.codec import to_data
from hasten.core.failure import Failure
from hasten.core.floor import FloorState
from hasten.core.plan import Plan
from hasten.core.trial import CHOOSING, ORIGINAL
from hasten.data.sources import open_dataset
from hasten.evaluate.evaluation import Evaluation, EvaluationData, EvaluationOptions
from hasten.evaluate.floor import FloorGuard, baseline_of
from hasten.evaluate.run import evaluate
from hasten.evaluate.split import parts
from hasten.fleet.jobs import Entry, EvaluateJob, MakeJob, RaceJob, RaceResult, TuneJob, TuneResult
from hasten.fleet.parcel import FileStore, pack_file
from hasten.fleet.place import Missing, Stopped
from hasten.fleet.serving import performed as perform
from hasten.fleet.shared_maker import MadeVariant, SharedMaker
from hasten.fleet.spreading import chunks_of, merged, scores_of
from hasten.measure.opening import open_model
from hasten.model.reader import read_graph
from hasten.search.folder import SESSION
from hasten.targets.local import LocalTarget
from tests.unit.fleet.site import DEVICE, Told, order_for, settle, write_subject

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.fleet.order import Order
    from hasten.fleet.parcel import Sources
    from hasten.fleet.place import Site


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_subject(tmp_path_factory.mktemp("subject"), samples=120)


@pytest.fixture
def sources() -> Sources:
    return {}


@pytest.fixture
def order(subject: tuple[Path, Path], sources: Sources) -> Order:
    return order_for(subject, sources)


@pytest.fixture
def site(order: Order, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    assert order.digests  # packing has filled the sources
    return settle(tmp_path / "worker", monkeypatch, sources)


def test_a_job_says_what_it_lacks(order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle(tmp_path / "empty", monkeypatch)
    found = perform(TuneJob(order, DEVICE), Told().stream, "tcp://worker")
    assert found == Missing((*order.digests, *order.manifests), "tcp://worker")


def test_a_job_lacks_the_files_that_a_manifest_lists(
    order: Order, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {digest: sources[digest] for digest in (*order.digests, *order.manifests)}
    site = settle(tmp_path / "half", monkeypatch, known)
    found = perform(TuneJob(order, DEVICE), Told().stream)
    assert isinstance(found, Missing)
    assert set(found.digests) == {file.sha256 for file in site.store.parcel(order.source).files}


@pytest.mark.slow
def test_a_tuning_delivers_its_session_and_bundle(order: Order, site: Site, tmp_path: Path) -> None:
    told = Told()
    found = perform(TuneJob(order, DEVICE), told.stream)
    assert isinstance(found, TuneResult), found
    assert found.files.keys() == {SESSION, MODEL_FILE, PLAN_FILE}
    out = tmp_path / "out"
    out.mkdir()
    for name, content in found.files.items():
        (out / name).write_bytes(content)
    assert read_bundle(out).measured["variant"]
    assert "\n".join(told.lines) + "\n" == found.files[SESSION].decode()
    settings = next(json.loads(line) for line in told.lines if '"settings"' in line)
    assert settings["data"]["target"] == DEVICE
    # Dask runs a task again whose worker died after it was done: nothing is measured twice.
    again = perform(TuneJob(order, DEVICE), Told().stream)
    assert again.files == found.files


@pytest.mark.slow
def test_a_tuning_whose_worker_died_goes_on(order: Order, site: Site) -> None:
    def die() -> None:
        raise ConnectionAbortedError("the process is gone")

    told = Told(die=die)
    lost = perform(TuneJob(order, DEVICE), told.stream)
    assert isinstance(lost, Failure)  # a real death leaves no value at all
    before = (site.store.run_folder("run", DEVICE) / SESSION).read_bytes()
    assert before.count(b"\n") >= 6
    found = perform(TuneJob(order, DEVICE), Told().stream)
    assert isinstance(found, TuneResult), found
    assert found.files[SESSION].startswith(before)


def test_a_tuning_that_nobody_wants_ends_with_the_best_so_far(order: Order, site: Site) -> None:
    early = perform(TuneJob(replace(order, run="early"), DEVICE), Told(until=0).stream)
    assert early == Stopped()
    found = perform(TuneJob(replace(order, run="late"), DEVICE), Told(until=9).stream)
    assert isinstance(found, TuneResult), found
    assert found.interrupted
    assert MODEL_FILE in found.files


def test_trouble_is_a_value(order: Order, site: Site) -> None:
    found = perform(TuneJob(order, "elsewhere"), Told().stream)
    assert isinstance(found, Failure)
    assert found.kind == "usage"
    broken = replace(order, data=replace(order.data, preprocess="mean=nothing"))
    assert isinstance(perform(TuneJob(replace(broken, run="broken"), DEVICE), Told().stream), Failure)


def test_a_variant_is_made_once_and_taken_by_each_search(
    order: Order, site: Site, subject: tuple[Path, Path], tmp_path: Path
) -> None:
    made, content = perform(MakeJob(order, "float16"), Told().stream)
    assert isinstance(made, MadeVariant)
    assert hashlib.sha256(content).hexdigest() == made.sha256
    read_graph(site.store.path_of(made.sha256))
    candidate, _ = open_model(subject[0])
    maker = SharedMaker(candidate, order.settings.io_types, (made,), site.store)
    out = tmp_path / "taken.tflite"
    variant = maker.make("float16", out)
    assert maker.pid is None  # no process was needed
    assert out.read_bytes() == content
    assert (variant.path, variant.recipe) == (out, "float16")
    maker.close()


@pytest.mark.slow
def test_a_search_uses_the_variants_of_the_fleet(order: Order, site: Site) -> None:
    made, _ = perform(MakeJob(order, "float16"), Told().stream)
    found = perform(TuneJob(replace(order, seconds=30.0), DEVICE, (made,)), Told().stream)
    assert isinstance(found, TuneResult), found
    lines = [json.loads(line) for line in found.files[SESSION].splitlines()]
    variants = {line["label"]: line["data"] for line in lines if line.get("kind") == "variant"}
    assert variants["float16"]["sha256"] == made.sha256


@pytest.mark.slow
def test_choices_are_raced_against_original_and_best(
    order: Order, sources: Sources, site: Site, subject: tuple[Path, Path]
) -> None:
    original = pack_file(subject[0], sources)
    made, content = perform(MakeJob(order, "float16"), Told().stream)
    variant = replace(original, files=(replace(original.files[0], sha256=made.sha256, size=len(content)),))
    entries = (
        Entry("built-in", ORIGINAL, Plan(kernel="builtin"), original),
        Entry("float16@cpu", "float16", Plan(), variant),
        Entry("broken", "broken", Plan(accelerator="npu", delegate="/nowhere.so"), original),
    )
    found = perform(RaceJob(order, DEVICE, entries, "built-in", 4.0), Told().stream)
    assert isinstance(found, RaceResult), found
    by_choice = {trial.choice: trial for trial in found.trials}
    assert set(by_choice) == {"built-in", "float16@cpu", "broken"}
    best = by_choice["built-in"]
    assert best.than_best is not None
    assert best.than_best.ratio == pytest.approx(1.0)
    assert by_choice["float16@cpu"].latency is not None
    assert by_choice["float16@cpu"].floor in (FloorState.KEPT, FloorState.UNDECIDED)
    assert by_choice["broken"].floor is FloorState.FAILED
    assert not by_choice["broken"].may_be_chosen
    assert {label for label, _ in found.rounds} >= {"built-in", "float16@cpu"}
    json.dumps([to_data(trial) for trial in found.trials], allow_nan=False)


def test_shares_of_an_evaluation_say_what_the_whole_says(
    order: Order, sources: Sources, site: Site, subject: tuple[Path, Path]
) -> None:
    """Every sample gets the same score, and the figure is that of one evaluation; with the original as the measure."""
    model, data = subject
    candidate, graph = open_model(model)
    choosing, _ = parts(open_dataset(str(data)), None)
    whole = evaluate(LocalTarget(), candidate, EvaluationData(choosing), graph=graph)
    assert isinstance(whole, Evaluation)
    names = {position: sample.name for position, sample in choosing.drawn()}
    positions = list(names)
    shares = [
        perform(
            EvaluateJob(
                order,
                DEVICE,
                CHOOSING,
                chunk,
                tuple(names[place] for place in chunk),
                pack_file(model, sources),
                Plan(),
                EvaluationData(choosing).preprocess,
                None,
                EvaluationOptions(),
            ),
            Told().stream,
        )
        for chunk in (tuple(positions[:11]), tuple(positions[11:]))
    ]
    together = merged(shares, None, len(positions), 1.0)
    assert together.positions == whole.positions
    assert together.names == whole.names
    assert np.array_equal(together.statistics, whole.statistics)
    assert together.accuracy.value == whole.accuracy.value
    assert together.accuracy.low == whole.accuracy.low
    assert {note.code for note in together.accuracy.notes} == {note.code for note in whole.accuracy.notes}
    assert together.references.keys() == whole.references.keys()
    agreed = perform(
        EvaluateJob(
            order,
            DEVICE,
            CHOOSING,
            tuple(positions[:11]),
            tuple(names[place] for place in positions[:11]),
            pack_file(model, sources),
            Plan(),
            EvaluationData(choosing).preprocess,
            whole.metric,
            EvaluationOptions(),
            {place: whole.references[place] for place in positions[:11]},
        ),
        Told().stream,
    )
    assert isinstance(agreed, Evaluation), agreed
    expected = whole.metric.value(agreed.statistics.sum(axis=0), len(agreed.positions))
    assert agreed.accuracy.value == pytest.approx(expected)
    guard = FloorGuard(baseline_of(whole, 0.1), whole.metric, choosing)
    guard.is_decided([*scores_of(agreed)])
    assert merged([agreed], guard, len(positions), 1.0).decision is not None


def test_chunks_hold_every_position_once_and_are_not_tiny() -> None:
    positions = list(range(1000))[::-1]
    chunks = list(chunks_of(positions, 7))
    assert [position for chunk in chunks for position in chunk] == positions
    assert len(chunks) == 7
    assert list(chunks_of(list(range(10)), 7)) == [tuple(range(10))]


def test_a_store_can_be_shared(tmp_path: Path) -> None:
    one, other = FileStore(tmp_path), FileStore(tmp_path)
    digest = one.add(b"x")
    assert other.lacking([digest]) == []

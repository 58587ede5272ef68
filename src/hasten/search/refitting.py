"""The last layer of a variant fitted again: to the features that its quantized layers give, and the user's labels.

It learns from the choosing part alone, and only how to differ from the layer that is there, so that few labels do no
harm. Its accuracy on that part is by cross-validation; the reporting part judges the file, as it does every variant.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.accuracy import Accuracy
from hasten.core.errors import HastenError
from hasten.core.failure import RunnerFailed
from hasten.core.floor import FloorState
from hasten.core.remark import Remark, remark, said
from hasten.core.trial import CHOOSING, NOTHING, ORIGINAL, Purpose, Stage, Status, Trial, status_of
from hasten.data.classes import LabelReader, packed_labels
from hasten.engine.model_file import file_hash
from hasten.evaluate.intervals import interval_of_scores
from hasten.measure.rounds import no_progress
from hasten.model.reader import read_graph
from hasten.practices.quantize.rules import choose, with_slow_nodes
from hasten.retraining.ending import find_ending
from hasten.retraining.fitting import Feed, embed
from hasten.retraining.head_file import NewHead, model_with_head, telling_range
from hasten.retraining.judging import paired
from hasten.retraining.labels import LabeledSamples
from hasten.retraining.old_head import read_head
from hasten.retraining.softmax import Head, Samples, fit_by_cross_validation, one_hot
from hasten.retraining.split import content_hashes, folds_of
from hasten.search.accuracy import inputs_by_scale
from hasten.variants.variant import zipped_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hasten.core.goal import Goal
    from hasten.evaluate.evaluation import Evaluation
    from hasten.retraining.ending import Ending
    from hasten.retraining.fitting import Embedded
    from hasten.search.variant_store import VariantStore

NAME: Final = "{variant}+head"
SOFTMAX: Final = "SOFTMAX"
# Without a layer to differ from, each class needs samples of its own.
_FEWEST_OF_A_CLASS: Final = 5


def to_refit(trials: Sequence[Trial], goal: Goal) -> Trial | None:
    """The variant to improve on: the choice, or the most promising static int8 one where that is the original."""
    best = choose(trials, goal)
    chosen = with_slow_nodes(trials) if best.variant == ORIGINAL else best
    return None if chosen is None or chosen.purpose in (Purpose.HEAD, Purpose.PRUNING) else chosen


def refit(store: VariantStore, parent: Trial) -> Trial | Remark:
    """The variant with its last layer fitted again, judged by cross-validation; or why that cannot be."""
    name = NAME.format(variant=parent.variant)
    known = store.folder.variants.get(name)
    if known is not None and (known.floor is FloorState.FAILED or store.folder.has_file_of(known)):
        return known
    store.tell(f"fitting the last layer of {parent.variant}")
    try:
        return _Refit(store, parent, name).run()
    except HastenError as error:
        return said(error.message, "quantize.no-refit", error.hint)
    except RunnerFailed as failed:
        return said(failed.failure.message, "quantize.no-refit", failed.failure.hint)


class _Refit:
    """One last layer."""

    def __init__(self, store: VariantStore, parent: Trial, name: str) -> None:
        self._store, self._parent, self._name = store, parent, name
        self._graph = read_graph(Path(parent.path))
        self._workload = store.candidate.workload

    def run(self) -> Trial | Remark:
        """The trial, or why there is none."""
        store = self._store
        dataset, original = store.judge.part(CHOOSING), store.judge.original(CHOOSING)
        if not dataset.labelled or callable(dataset.samples) or original.metric.name != "top-1":
            return remark("quantize.refit-needs-classes", metric=original.metric.name)
        if store.judge.against_choosing != NOTHING:
            return store.judge.against_choosing
        ending = find_ending(self._graph, signature=self._workload.signature)
        if SOFTMAX not in ending.passed:  # a new head ends in one, and must not change what callers read
            return remark("quantize.refit-needs-softmax", output=ending.name)
        samples = self._labeled(ending)
        embedded = self._embedded(ending, samples)
        old = read_head(self._graph, ending)
        fewest = int(embedded.part.targets.sum(axis=0).min())
        if old is None and fewest < _FEWEST_OF_A_CLASS:
            return remark("quantize.refit-needs-samples", fewest=fewest, needed=_FEWEST_OF_A_CLASS)
        head, right = self._fitted(embedded, old)
        before = int(right.sum()) if old is None else _count_right(old, embedded)
        if right.sum() < before:
            return remark("quantize.refit-worse", right=int(right.sum()), before=before, samples=len(right))
        told = telling_range(head.logits(embedded.part.features), multi_label=False)
        new = NewHead(head, samples.classes, told)
        made = self._written(ending, new, embedded)
        return store.folder.save_variant(self._judged(made, original, embedded, right))

    def _labeled(self, ending: Ending) -> LabeledSamples:
        """The samples with the classes that the model's outputs stand for."""
        store = self._store
        dataset = store.judge.part(CHOOSING)
        assert not callable(dataset.samples)
        packed = packed_labels(store.graph)
        reader = LabelReader(dataset, packed, store.data.given.label_offset)
        reader.check_count(ending.classes)
        numbers = [reader.number(sample.label, ending.classes, sample.name) for sample in dataset.samples]
        # Names that the model does not have would change what labels mean to those who read them from the file.
        names = packed if len(packed) == ending.classes else ()
        targets = one_hot(np.array(numbers, np.int64), ending.classes)
        return LabeledSamples(dataset, names, targets, False, content_hashes(dataset.samples))

    def _embedded(self, ending: Ending, samples: LabeledSamples) -> Embedded:
        store, given = self._store, self._store.data
        by_scale = inputs_by_scale(store.graph, self._graph, self._workload)
        preprocess = replace(given.preprocess, by_scale=by_scale)
        feed = Feed(store.target, self._parent.plan, self._workload, preprocess, given.given.skip_bad)
        with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
            path = Path(folder) / "features.tflite"
            return embed(path, self._graph, ending, feed, samples, no_progress)

    def _fitted(self, embedded: Embedded, old: Head | None) -> tuple[Head, NDArray[np.bool_]]:
        """The head, and which samples are right by fits that had not seen them."""
        part = embedded.part
        numbers = np.asarray(part.targets.argmax(axis=1), np.int64)
        offsets = None if old is None else old.logits(part.features)
        samples = Samples(part.features, part.targets, np.ones(len(part.names)), False, offsets)
        head, known = fit_by_cross_validation(samples, folds_of(numbers, embedded.hashes, 0))
        if old is not None:
            head = Head(old.weights + head.weights, old.bias + head.bias)
        return head, np.asarray(known.logits.argmax(axis=1) == numbers)

    def _written(self, ending: Ending, new: NewHead, embedded: Embedded) -> Trial:
        store, parent = self._store, self._parent
        making = store.folder.making
        making.write_bytes(model_with_head(self._graph, ending, new, embedded.preprocess))
        trial = Trial(
            self._name,
            parent.plan,
            recipe=parent.recipe,
            purpose=Purpose.HEAD,
            parent=parent.variant,
            source=parent.source,
            nodes=parent.nodes,
            float_nodes=parent.float_nodes,
            path=str(store.folder.place_of(self._name)),
            sha256=file_hash(making),
            size_bytes=making.stat().st_size,
            zipped_bytes=zipped_bytes(making),
            integer_share=parent.integer_share,
            status=Status.MADE,
            notes=(*parent.notes, remark("quantize.refitted", samples=len(embedded.part.names))),
        )
        store.folder.place(trial)
        return trial

    def _judged(self, trial: Trial, original: Evaluation, embedded: Embedded, right: NDArray[np.bool_]) -> Trial:
        """How the variant stands against the floor, by samples that its last layer had not learned from."""
        rows = {position: row for row, position in enumerate(embedded.answers.positions)}
        both = [(row, rows[position]) for row, position in enumerate(original.positions) if position in rows]
        before, own = ([pair[side] for pair in both] for side in (0, 1))
        names = [original.names[row] for row in before]
        change = paired(original.statistics[before][:, 0] > 0.5, right[own], names)
        floor = self._store.judge.floor(CHOOSING)
        verdict = floor.judge(change)
        allowed = verdict.may_be_chosen(floor, strict=self._store.settings.strict)
        scores = right[own].astype(np.float64)[:, np.newaxis]
        value = interval_of_scores(scores, original.metric)
        source = original.accuracy.data
        return replace(
            trial,
            floor=verdict.state,
            refused=verdict.state is FloorState.UNDECIDED and not allowed,
            judged=verdict,
            status=status_of(verdict.state, trial.status),
            stage=Stage.ACCURACY,
            choosing=Accuracy(original.metric.name, value.estimate, value.low, value.high, len(own), source),
            drop=verdict.drop,
        )


def _count_right(head: Head, embedded: Embedded) -> int:
    """How many samples the layer that is there has right, on the features of the variant."""
    part = embedded.part
    return int((head.logits(part.features).argmax(axis=1) == part.targets.argmax(axis=1)).sum())

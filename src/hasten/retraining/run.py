"""Transfer learning on the .tflite itself: a new head for the user's own classes, without TensorFlow.

Features by LiteRT on all cores, a head by cross-validation, a test part that no fit ever sees, and a file that is run
on that part before it counts. Asked for integers, the backbone is quantized and the head fitted again to its features.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import DataError, UsageError
from hasten.core.failure import RunnerFailed
from hasten.core.measurement import Model
from hasten.core.remark import each_once, remark
from hasten.core.whole_file import write_whole
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset
from hasten.evaluate.split import CALIBRATION_SAMPLES, calibration_samples
from hasten.model.reader import read_graph
from hasten.retraining import words
from hasten.retraining.ending import find_ending
from hasten.retraining.facts import FINE_TUNED, HEAD, QAT, Decay, RetrainFound
from hasten.retraining.fitting import Checked, Embedded, Feed, Fitted, against_head, check_file, embed, fit_to, part_of
from hasten.retraining.judging import class_rows, confusions, learning_curve, rivals, scores_of, worst_samples
from hasten.retraining.labels import labeled, open_parts, same_classes
from hasten.retraining.split import content_hashes, held_out, rows_apart, split_samples
from hasten.retraining.ways import compared, refuse_missing, trained, way_path
from hasten.variants.maker_process import VariantMaker
from hasten.variants.recipes import recipe_from_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.failure import Failure
    from hasten.core.remark import Remark
    from hasten.data.request import Data
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Candidate, Progress
    from hasten.model.graph import Graph
    from hasten.retraining.facts import Scores, Written
    from hasten.retraining.labels import LabeledSamples
    from hasten.retraining.options import RetrainOptions
    from hasten.retraining.split import HeldOut

_FEW: Final = 30
# Predictions of a file that differ from those of embeddings + head, as a share: more deserve a note.
_FLOAT_DIFFERS, _INTEGER_DIFFERS = 0.0, 0.015


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The data of a retraining: what is learned from, and what is kept for the test."""

    train: LabeledSamples
    test: LabeledSamples
    held_out: HeldOut | None
    """The test part as a file, where it can be one and was not given as one."""
    repeated: int = 0
    """Samples with the same content as another one; with test data of its own, as one of that."""
    is_split: bool = True
    """Whether the test part was taken from the data, and not given."""


def run(
    candidate: Candidate, graph: Graph, out: Path, data: Data, options: RetrainOptions, effort: Effort
) -> RetrainFound | Failure:
    """Fit a new head to data and write the model. Bad data and endings raise; trouble of runners is returned."""
    refuse_places(out, candidate.path, options)
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        try:
            return Retraining(candidate, graph, out, data, options, effort, Path(folder)).run()
        except RunnerFailed as failed:
            return failed.failure


def read_parts(data: Data, options: RetrainOptions, folder: Path, progress: Progress) -> Parts:
    """Read labels, hash the samples and split them; `folder` is where the file of the test part will lie."""
    if not data.source:
        raise UsageError("No data was given to learn from.", "Give a folder with a subfolder for each class: --data.")
    learned, test = open_parts(data.source)
    if options.test_data:
        test = open_dataset(options.test_data)
    known = _hashed(labeled(learned, data.samples, data.label_offset, seed=options.head.seed), progress)
    if test is not None:
        tested = _hashed(same_classes(known, test, data.label_offset), progress)
        learned_rows = rows_apart(known, tested.hashes)
        shared = len(known.hashes) - len(learned_rows)
        return Parts(known.with_rows(learned_rows), tested, None, shared, is_split=False)
    train_rows, test_rows = split_samples(known, options.test_share, options.head.seed)
    repeated = len(known.hashes) - len({*known.hashes})
    return Parts(known.with_rows(train_rows), known.with_rows(test_rows), held_out(known, test_rows, folder), repeated)


def _hashed(samples: LabeledSamples, progress: Progress) -> LabeledSamples:
    return replace(
        samples, hashes=content_hashes(samples.samples, lambda share: progress(share, "reading the samples"))
    )


@dataclass(slots=True)
class Retraining:
    """One retraining, from the data to the written file."""

    candidate: Candidate
    graph: Graph
    out: Path
    data: Data
    options: RetrainOptions
    effort: Effort
    folder: Path
    _begin: float = field(default_factory=time.monotonic)
    _made: Path = field(default=Path())
    """The model with its new head, before it gets its place."""
    _output: str = ""
    """The output whose classes are new."""

    def run(self) -> RetrainFound:
        """All of it."""
        progress, recipe, request = self.effort.progress, self.options.recipe, self.options.training
        if request is not None:
            refuse_missing(request)
        if recipe and self.graph.number_format().computes_in_integers:
            raise UsageError(
                f"{self.graph.path.name} is quantized already.", "Omit --to: the head is fitted to its integers anyway."
            )
        head = self.options.head
        find_ending(self.graph, signature=self.candidate.workload.signature, output=head.output, features=head.features)
        parts = read_parts(self.data, self.options, self.out.parent, part_of(progress, 0.0, 0.05))
        end = 0.3 if request else 0.95
        bar = part_of(progress, 0.05, 0.5 if recipe else end)
        fitted, test, checked = self._fitted(self.graph, parts, "float.tflite", bar)
        before: Scores | None = None
        if recipe:
            before = _scores(fitted, checked)
            variant = self._quantized(recipe, parts, part_of(progress, 0.5, 0.6))
            fitted, test, checked = self._fitted(variant, parts, "quantized.tflite", part_of(progress, 0.6, end))
        progress(end, "drawing the learning curve")
        found = self._found(parts, fitted, test, checked, before)
        if request is None:
            self._write({self.out: self._made}, parts)
            return found
        with trained(request, self.out, parts.train, part_of(progress, end, 1.0), skip_bad=self.data.skip_bad) as ways:
            found = compared(found, (fitted.train.part, checked), ways, self._feed(), parts.test)
            files = {HEAD: self._made, **{way.name: way.path for way in ways}}
            self._write({Path(way.path): files[way.name] for way in found.ways if way.path}, parts)
        return found

    def _fitted(self, graph: Graph, parts: Parts, name: str, progress: Progress) -> tuple[Fitted, Embedded, Checked]:
        """A head for one model, written as the result so far, and what running that file on the test part shows."""
        feed, options = self._feed(), self.options.head
        if self._output:  # the model that was retrained: its new head is the one to replace
            options = replace(options, output=self._output, features="")
        place = self.folder / f"backbone_of_{name}"
        fitted = fit_to(place, graph, feed, parts.train, options, part_of(progress, 0.0, 0.7))
        test = embed(place, graph, fitted.ending, feed, parts.test, part_of(progress, 0.7, 0.85))
        self._output, self._made = fitted.ending.name, self.folder / name
        self._made.write_bytes(fitted.file())
        known, bar = (test.part, test.answers.positions), part_of(progress, 0.85, 1.0)
        return fitted, test, check_file(self._made, self._output, feed, parts.test.dataset, *known, bar)

    def _feed(self) -> Feed:
        """As the user gave it; each runner has one thread on the CPU."""
        preprocess = preprocess_from_text(self.data.preprocess)
        candidate = self.candidate
        return Feed(self.effort.target, candidate.plan, candidate.workload, preprocess, self.data.skip_bad)

    def _quantized(self, recipe: str, parts: Parts, progress: Progress) -> Graph:
        """The retrained model with its backbone quantized, by samples that are learned from."""
        progress(0.0, f"quantizing with {recipe}")
        given = open_dataset(self.data.calibration) if self.data.calibration else parts.train.dataset
        graph, workload = read_graph(self._made), self.candidate.workload
        samples: list[dict[str, Any]] | None = None
        if recipe_from_name(recipe).needs_calibration:
            preprocess = preprocess_from_text(self.data.preprocess)
            samples, _ = calibration_samples(
                graph, workload, given, preprocess, limit=CALIBRATION_SAMPLES, skip_bad=self.data.skip_bad
            )
        variant = self.folder / "variant.tflite"
        maker = VariantMaker(self._made, workload.signature)
        try:
            maker.make(recipe, variant, samples)
        finally:
            maker.close()
        return read_graph(variant)

    def _write(self, files: Mapping[Path, Path], parts: Parts) -> None:
        """Put the models where the user wants them, and the list of the test part beside them."""
        for place, made in files.items():
            write_new(place, made.read_bytes(), force=self.options.force)
        if parts.held_out is not None:
            place = held_out_path(self.out, parts.held_out.suffix)
            write_new(place, parts.held_out.content, force=self.options.force)

    def _found(
        self, parts: Parts, fitted: Fitted, test: Embedded, checked: Checked, before: Scores | None
    ) -> RetrainFound:
        train, known, tested, predicted = fitted.train.part, fitted.known, checked.test, checked.predicted
        classes, options = fitted.new.classes, self.options
        curve, doubling = learning_curve(
            train, tested, predicted, known.chosen, balanced=fitted.balanced, seed=options.head.seed
        )
        graph, source = read_graph(self._made), self.candidate.model
        written = against_head(checked, fitted.new.head)
        ending = fitted.ending
        main = fitted.graph.subgraphs[ending.subgraph]
        replaced = "" if ending.head is None else main.node_location(main.nodes[ending.head])
        dtype = main.tensors[ending.features].dtype
        return RetrainFound(
            model=Model(str(self.out), graph.size_bytes, graph.sha256),
            source=source,
            data=parts.train.dataset.source,
            accuracy=_scores(fitted, checked),
            classes=class_rows(train, tested, predicted, classes),
            baselines=rivals(train, tested, predicted),
            written=written,
            seconds=time.monotonic() - self._begin,
            features=ending.count,
            replaced=replaced,
            embedding_seconds=fitted.train.answers.seconds + test.answers.seconds,
            fit_seconds=fitted.fit_seconds,
            decay=known.chosen,
            decays=tuple(Decay(*pair) for pair in zip(known.decays, known.losses, strict=True)),
            seed=options.head.seed,
            multi_label=train.multi_label,
            quantized=options.recipe or ("" if dtype.startswith("float") else dtype),
            float_accuracy=before,
            balanced=fitted.balanced,
            confusions=confusions(tested, predicted, classes),
            worst=worst_samples(train, tested, checked.shares, known, classes),
            curve=curve,
            doubling=doubling,
            held_out=self._held_out(parts),
            test_names=tuple(f"{code} {name}" for code, name in zip(test.hashes, test.part.names, strict=True)),
            preprocess=fitted.train.answers.preprocess[0].describe() if fitted.train.answers.preprocess else "",
            notes=each_once((*self._notes(parts, fitted, written), *fitted.train.answers.notes, *test.answers.notes)),
        )

    def _held_out(self, parts: Parts) -> str:
        """The data to judge the new model by: what the user gave for the test, or the part that was kept."""
        if parts.held_out is None:
            return "" if parts.is_split else parts.test.dataset.source
        return str(held_out_path(self.out, parts.held_out.suffix))

    def _notes(self, parts: Parts, fitted: Fitted, written: Written) -> Sequence[Remark]:
        notes = []
        if parts.repeated:
            code = words.REPEATED if parts.is_split else words.SHARED
            notes.append(remark(code, samples=parts.repeated))
        if written.samples < _FEW:
            notes.append(remark(words.FEW_TESTED, samples=written.samples))
        if fitted.balanced:
            sizes = fitted.train.part.targets.sum(axis=0)
            notes.append(remark(words.UNEVEN, ratio=float(sizes.max() / max(sizes.min(), 1.0))))
        is_float = fitted.graph.subgraphs[fitted.ending.subgraph].tensors[fitted.ending.features].dtype == "float32"
        if 1 - written.share > (_FLOAT_DIFFERS if is_float else _INTEGER_DIFFERS):
            differ = written.samples - written.same
            notes.append(remark(words.DIFFERS, samples=differ, total=written.samples))
        if skipped := fitted.train.answers.skipped:
            notes.append(remark(words.FIRST_SKIPPED, name=skipped[0].name, reason=skipped[0].reason))
        return notes


def refuse_places(out: Path, model: Path, options: RetrainOptions) -> None:
    """Say before long work that its result could not be written, or would take the place of the model."""
    if out.is_dir() or not out.parent.is_dir():
        raise UsageError(f"The new model cannot be written to {out}.", "Give the name of a file in a folder.")
    ways = (HEAD, FINE_TUNED, QAT) if options.training is not None else ()
    beside = (*(held_out_path(out, suffix) for suffix in (".csv", ".npz")), *(way_path(out, name) for name in ways))
    for path in (out, *beside):
        if path.exists() and path.samefile(model):
            raise UsageError(f"{path} is the model itself.", "Choose another name for the result.")
        if path.exists() and not options.force:
            raise _exists(path)


def write_new(path: Path, content: bytes, *, force: bool) -> None:
    """Write a file whole; one that is there only if that is allowed."""
    try:
        write_whole(path, content, replace=force)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}.", "Make room there, or choose another folder."
        ) from error


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} already exists.", "Choose another name, or add --force to replace it.")


def held_out_path(out: Path, suffix: str) -> Path:
    """The test part, beside the model."""
    return out.with_name(f"{out.stem}.test{suffix}")


def _scores(fitted: Fitted, checked: Checked) -> Scores:
    return scores_of(fitted.new.head, fitted.train.part, checked.test, checked.predicted, fitted.known)

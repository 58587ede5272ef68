"""Training of all weights with Keras: frozen first, then at a small rate, until it stops to help; then for integers.

The decisions are here, pure, epoch by epoch; the work is done by `keras_program` in a process of its own. After each
epoch the weights are on the disk, so that an interrupted training goes on from there.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.codec import from_data, record, to_data
from hasten.core.errors import DataError, ModelError, UsageError
from hasten.core.failure import RunnerFailed
from hasten.core.plan import Plan
from hasten.core.whole_file import write_whole
from hasten.data.prepare import Preparer
from hasten.data.preprocess import preprocess_from_text
from hasten.data.tensor_forms import TensorForm
from hasten.retraining.backbones import backbone_named
from hasten.retraining.facts import FINE_TUNED, QAT
from hasten.retraining.fitting import part_of
from hasten.retraining.keras_program import LEGACY
from hasten.retraining.options import NO_WEIGHTS
from hasten.retraining.split import folds_of
from hasten.runner.protocol import Message
from hasten.targets.link import ProcessLink, Program
from hasten.targets.local import local_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.measure.rounds import Progress
    from hasten.retraining.labels import LabeledSamples
    from hasten.retraining.options import TrainingOptions

_MODULE: Final = "hasten.retraining.keras_program"
# An epoch of a large set on few cores may take an hour; what takes longer than this hangs.
_SECONDS: Final = 4 * 3600.0
_SAMPLES: Final = "samples.json"
_BEST: Final = "{way}_best.npz"
# A part of this size is kept out of the training, to see when it stops to help.
_CHECK_FOLDS: Final = 7
# Predictions that a converted file must share with the network. A broken file agrees by chance; rounding turns near
# ties, of which a weak network has many.
_LEAST_SAME: Final = 0.5


@record
class Phase:
    """A part of a training: what learns, how fast, and for how long at most."""

    name: str
    frozen: bool
    rate: float
    epochs: int
    patience: int
    """Epochs without a better network after which the phase ends."""


FROZEN: Final = Phase("head", True, 1e-3, 8, 3)
ALL: Final = Phase("all layers", False, 1e-4, 20, 5)
INTEGERS: Final = Phase("integers", False, 1e-5, 6, 2)


@record
class Course:
    """How far a training has come. The best network so far is on the disk."""

    phases: tuple[Phase, ...]
    phase: int = 0
    epoch: int = 0
    """Done in this phase."""
    since_best: int = 0
    best: float = -1.0
    """The share of right predictions on the samples kept out."""
    epochs: int = 0
    """Done in all."""

    @property
    def current(self) -> Phase | None:
        """What comes next; None where it is over."""
        return self.phases[self.phase] if self.phase < len(self.phases) else None

    @property
    def share(self) -> float:
        """How much of the longest possible course is done."""
        before = sum(phase.epochs for phase in self.phases[: self.phase])
        return (before + self.epoch) / max(1, sum(phase.epochs for phase in self.phases))

    def after(self, accuracy: float) -> Course:
        """The course after another epoch that reached this accuracy."""
        phase = self.phases[self.phase]
        better = accuracy > self.best
        course = replace(
            self,
            epoch=self.epoch + 1,
            epochs=self.epochs + 1,
            best=max(self.best, accuracy),
            since_best=0 if better else self.since_best + 1,
        )
        if course.epoch >= phase.epochs or course.since_best >= phase.patience:
            return replace(course, phase=course.phase + 1, epoch=0, since_best=0)
        return course


def phases_of(options: TrainingOptions) -> tuple[Phase, ...]:
    """What is trained, in this order. Random weights have nothing to freeze, and are no better than chance for long."""
    all_layers = replace(ALL, epochs=options.epochs or ALL.epochs)
    if options.weights == NO_WEIGHTS:
        return (replace(all_layers, rate=1e-3, patience=all_layers.epochs),)
    return FROZEN, all_layers


@dataclass(frozen=True, slots=True)
class Trained:
    """What became of one way to train: a file, or why there is none."""

    name: str
    path: Path = Path()
    checked: float = 0.0
    """The share of right predictions on samples that were kept out of the training."""
    epochs: int = 0
    seconds: float = 0.0
    failure: str = ""


class Trainer:
    """Trains a backbone on labeled images. The folder keeps everything that an interrupted training goes on from."""

    def __init__(self, options: TrainingOptions, folder: Path, labeled: LabeledSamples) -> None:
        self.backbone = backbone_named(options.backbone)
        self._options, self._folder, self._labeled = options, folder.resolve(), labeled

    def prepare(self, progress: Progress, *, skip_bad: bool = False) -> None:
        """Write the samples as the network takes them; kept where an earlier run has written the same."""
        options, hashes = self._options, self._labeled.hashes
        beginning = (options.beginning, options.epochs, options.batch, options.seed)
        told = json.dumps([self.backbone.name, *beginning, self._labeled.classes, *hashes])
        mark = self._folder / _SAMPLES
        if mark.is_file() and mark.read_text(encoding="utf-8") == told:
            return
        if self._folder.exists() and not mark.is_file():
            raise UsageError(
                f"{self._folder} exists, and is not of a training.", "Rename it, or choose another name for the result."
            )
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        folds = folds_of(self._labeled.numbers, hashes, options.seed, _CHECK_FOLDS)
        parts = {"train": np.flatnonzero(folds != 0).tolist(), "check": np.flatnonzero(folds == 0).tolist()}
        try:
            for place, (name, rows) in enumerate(parts.items()):
                self._write(name, rows, part_of(progress, place / 2, (place + 1) / 2), skip_bad=skip_bad)
            write_whole(mark, told)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)  # half of the samples is nothing to go on from
            raise

    def close(self) -> None:
        """Remove what a finished training no longer needs."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def train(self, way: str, progress: Progress) -> Trained:
        """Train all weights, or go on from there to live with int8; the best network is written as a .tflite file."""
        begin, integers = time.monotonic(), way == QAT
        state, last, out = (self._folder / f"{way}{end}" for end in ("_state.json", "_last.npz", ".tflite"))
        best = self._folder / _BEST.format(way=way)
        course = Course((INTEGERS,) if integers else phases_of(self._options))
        if state.is_file():
            course = from_data(Course, json.loads(state.read_text(encoding="utf-8")))
        progress(course.share, "starting TensorFlow")
        link = ProcessLink(_program(integers))
        try:
            self._ask(link, "begin", **self._begin(integers))
            if course.epochs:
                self._ask(link, "load", path=str(last))
            while (phase := course.current) is not None:
                best_yet = f", {course.best * 100:.1f} % on images kept out" if course.epochs else ""
                progress(course.share, f"{phase.name}, epoch {course.epochs + 1}{best_yet}")
                told = self._ask(link, "epoch", rate=phase.rate, frozen=phase.frozen)
                is_best, before = told["accuracy"] > course.best, course.phase
                course = course.after(float(told["accuracy"]))
                self._ask(link, "save", path=str(last))
                if is_best:
                    shutil.copyfile(last, best)
                if course.phase != before:  # the next phase begins from the best network so far
                    self._ask(link, "load", path=str(best))
                    shutil.copyfile(best, last)
                write_whole(state, json.dumps(to_data(course)))
            self._ask(link, "load", path=str(best))
            progress(1.0, "converting")
            made = self._ask(link, "convert", path=str(out))
        finally:
            link.close()
        if made["same"] < _LEAST_SAME:
            raise ModelError(
                f"The converted file predicts only {made['same'] * 100:.0f} % of the images as the network does.",
                "Report this with the backbone.",
            )
        return Trained(way, out, course.best, course.epochs, time.monotonic() - begin)

    def _begin(self, integers: bool) -> dict[str, Any]:
        backbone, options = self.backbone, self._options
        return {
            "name": backbone.name,
            "function": backbone.function,
            "arguments": dict(backbone.arguments),
            "mean": backbone.mean,
            "std": backbone.std,
            "weights": options.beginning,
            "network": str(self._folder / _BEST.format(way=FINE_TUNED)),
            "batch": options.batch,
            "seed": options.seed,
            "integers": integers,
            "multi_label": self._labeled.multi_label,
            "folder": str(self._folder),
        }

    def _write(self, name: str, rows: Sequence[int], progress: Progress, *, skip_bad: bool) -> None:
        """Write the pixels of each image that can be read, at the backbone's size, and its classes."""
        size, samples = self.backbone.size, self._labeled.samples
        form = TensorForm("image", "image", (1, size, size, 3), "uint8")
        preparer = Preparer([form], preprocess_from_text(f"size={size}x{size},channels=rgb"))
        path = self._folder / f"{name}_images.npy"
        kept: list[int] = []
        images = np.lib.format.open_memmap(path, "w+", np.uint8, (max(1, len(rows)), size, size, 3))
        for place, row in enumerate(rows):
            try:
                images[len(kept)] = preparer.prepare(samples[row])[0][0]
                kept.append(row)
            except DataError:
                if not skip_bad:
                    raise
            progress((place + 1) / len(rows), "reading the images")
        images.flush()
        if not kept:
            raise DataError("There are too few images to train with.", "Give more images of each class.")
        if len(kept) < len(rows):
            np.save(path, np.array(images[: len(kept)]))
        np.save(self._folder / f"{name}_targets.npy", self._labeled.targets[kept])

    def _ask(self, link: ProcessLink, request: str, **body: Any) -> dict[str, Any]:
        try:
            return link.ask(Message({"request": request, **body}), stage="make", seconds=_SECONDS).body
        except RunnerFailed as failed:
            raise failed.failure.error(Plan()) from failed


def _program(integers: bool) -> Program:
    """The older Keras where networks are trained for integers: its tools know no other."""
    chosen = {LEGACY: "1"} if integers else {"KERAS_BACKEND": "tensorflow"}
    return replace(local_program(_MODULE, name="training"), environment={**os.environ, **chosen})

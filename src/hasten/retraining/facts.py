"""What a retraining found: the new model, how right it is on samples it never saw, and where it is wrong."""

from __future__ import annotations

from hasten.core.accuracy import PairedAccuracy
from hasten.core.codec import record
from hasten.core.measurement import Model
from hasten.core.remark import Remark

HEAD, FINE_TUNED, QAT = "head", "fine-tune", "qat"
"""Ways to retrain: a new head on the model as it is, all weights, all weights for integers."""
TOP_1, EXACT = "top-1", "exact match"
"""Metrics: the right class; all classes of a sample and no other."""


@record
class Scores:
    """Shares of right predictions: on the samples learned from, by cross-validation, and on the test part."""

    train: float | None
    """None where it was not measured."""
    validation: float | None
    """None where no class has two samples to learn from."""
    test: float
    interval: tuple[float, float]
    """95 % of the test accuracy, by Wilson."""
    test_right: int
    test_samples: int
    train_samples: int
    metric: str = TOP_1
    mean_recall: float | None = None
    """The mean over the classes of the share of their test samples that are right."""


@record
class ClassRow:
    """One class: how many samples it has, and how it fares on the test part."""

    name: str
    train: int
    test: int
    right: int
    """Of its test samples."""
    predicted: int
    """How many test samples the head takes for it."""

    @property
    def recall(self) -> float | None:
        """The share of its samples that are found."""
        return self.right / self.test if self.test else None

    @property
    def precision(self) -> float | None:
        """The share of right ones among those taken for it."""
        return self.right / self.predicted if self.predicted else None


@record
class Confusion:
    """How many test samples of one class are taken for another."""

    actual: str
    predicted: str
    samples: int


@record
class WorstSample:
    """A sample whose own class the head finds unlikely: a hard one, or a wrong label."""

    name: str
    actual: str
    predicted: str
    probability: float
    """Of its own class."""
    part: str
    """`test`, or `train`, where the fit that judged it had not seen it."""


@record
class CurvePoint:
    """The test accuracy of a head that learned from fewer samples."""

    samples: int
    test: float
    interval: tuple[float, float]


@record
class Baseline:
    """What the head has to beat on the test part, and by how much it does."""

    name: str
    """`majority` or `neighbors`."""
    test: float
    interval: tuple[float, float]
    change: PairedAccuracy
    """The head against it."""


@record
class Written:
    """The written file against embeddings + head, on the test part: they must tell the same."""

    same: int
    samples: int
    right: int
    """Of the file's own predictions."""
    head_right: int = 0
    """Of those of embeddings + head."""

    @property
    def share(self) -> float:
        """Of equal predictions."""
        return self.same / self.samples if self.samples else 1.0


@record
class Decay:
    """One weight decay that cross-validation tried."""

    decay: float
    loss: float
    """On samples left out, in nats."""


@record
class Way:
    """One way to retrain, on the same test part as the others."""

    name: str
    test: float
    interval: tuple[float, float]
    seconds: float
    path: str = ""
    change: PairedAccuracy | None = None
    """Against the head alone."""
    failure: str = ""


@record
class RetrainFound:
    """A model with a new head, and all that is known of it."""

    model: Model
    """The new file."""
    source: Model
    """The file that it was made from."""
    data: str
    accuracy: Scores
    classes: tuple[ClassRow, ...]
    baselines: tuple[Baseline, ...]
    written: Written
    seconds: float
    features: int = 0
    """How many numbers the head reads of a sample."""
    replaced: str = ""
    """The node whose place the head takes; empty where it was put on a tensor."""
    embedding_seconds: float = 0.0
    fit_seconds: float = 0.0
    decay: float = 0.0
    decays: tuple[Decay, ...] = ()
    seed: int = 0
    multi_label: bool = False
    quantized: str = ""
    """The type that the head computes in where it is an integer; the recipe where the backbone was quantized first."""
    float_accuracy: Scores | None = None
    """Before the backbone was quantized."""
    balanced: bool = False
    """Whether each class counts alike in the fit, however many samples it has."""
    confusions: tuple[Confusion, ...] = ()
    worst: tuple[WorstSample, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    doubling: PairedAccuracy | None = None
    """All samples against half of them."""
    held_out: str = ""
    """The file that lists the test part."""
    test_names: tuple[str, ...] = ()
    """The test part, by hash and name."""
    ways: tuple[Way, ...] = ()
    """Fine-tuning and training for integers, where asked for; the head alone first."""
    preprocess: str = ""
    notes: tuple[Remark, ...] = ()

    @property
    def name(self) -> str:
        """The way whose model was written."""
        return next((way.name for way in self.ways if way.path == self.model.path), HEAD)

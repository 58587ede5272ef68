"""Choices of models to be shown: by published accuracies, by measured ones, within limits that nothing keeps, and cut
short with trouble; and how the model of a tuning stands."""

from __future__ import annotations

import math
from dataclasses import replace

from hasten.core import doubts
from hasten.core.accuracy import Accuracy
from hasten.core.accuracy_notes import GUESSED_FLOAT
from hasten.core.comparison import compare_rounds
from hasten.core.failure import Failure
from hasten.core.plan import Plan
from hasten.core.remark import remark
from hasten.core.statistics import Interval
from hasten.gate.facts import Limits
from hasten.practices.choose.facts import (
    CatalogueFound,
    CatalogueRow,
    ChooseFound,
    ModelRow,
    Origin,
    Place,
    PlanRow,
    Source,
    Trouble,
)
from hasten.practices.choose.rules import dropped

_PLAN = Plan(threads=2)
_PAPER = "https://example.org/accuracies"


def published(model: str, accuracy: float, ms: float, size: int, place: Place = Place.ON) -> ModelRow:
    """A model of the catalogue in float."""
    return ModelRow(
        f"{model} float32",
        model,
        "float32",
        size,
        plan=_PLAN,
        parameters=size // 4,
        macs=round(30e6 * ms),
        accuracy=Accuracy("top-1", accuracy, -math.inf, math.inf, 0, ""),
        accuracy_source=Source.PUBLISHED,
        weights="2018-02-22",
        cited=_PAPER,
        license="Apache-2.0",
        locations=("hf:someone/some-models/model.tflite",),
        latency=Interval(ms, 0.98 * ms, 1.02 * ms),
        p95_ms=1.2 * ms,
        rounds=10,
        init_ms=12.0,
        peak_memory_mb=40.0,
        place=place,
    )


def unknown(original: ModelRow, ratio: float) -> ModelRow:
    """The same model in int8, whose accuracy nobody has published."""
    compared = compare_rounds([math.log(ratio)] * 5)
    ms = original.median_ms * ratio
    row = replace(
        original,
        name=f"{original.model} int8",
        precision="int8",
        size_bytes=original.size_bytes // 4,
        accuracy=None,
        accuracy_source=Source.UNKNOWN,
        weights="",
        cited="",
        license="",
        latency=Interval(ms, 0.97 * ms, 1.03 * ms),
        rounds=4,
        place=Place.UNKNOWN,
        reference=original.name,
        against=compared,
    )
    if ratio <= 1:
        return row
    facts = {"ratio": compared.ratio, "ci95": list(compared.ci95)}
    return replace(row, why_dropped=remark("choose.slower", than=original.name, ratio=facts))


def beaten(row: ModelRow, winner: ModelRow) -> ModelRow:
    """A model that another is better than in accuracy and latency."""
    compared = compare_rounds([math.log(winner.median_ms / row.median_ms)] * 5)
    gain = Interval(winner.merit - row.merit, winner.merit - row.merit, winner.merit - row.merit)
    return replace(row, place=Place.OFF, rounds=3, why_dropped=dropped(row, winner, compared, gain))


def typical() -> ChooseFound:
    """Within a limit on latency, from the catalogue."""
    small = published("mobilenet_v3_small", 0.677, 3.1, 10_200_000)
    v2 = published("mobilenet_v2_1.0_224", 0.718, 8.4, 14_000_000)
    lite0 = replace(published("efficientnet_lite0", 0.751, 11.0, 18_600_000), rivals=("mobilenet_v3_large float32",))
    large = published("resnet_50", 0.761, 112.0, 102_000_000)
    v1 = beaten(published("mobilenet_v1_1.0_224", 0.709, 12.5, 16_900_000), v2)
    rows = (
        *(small, v2, replace(lite0, place=Place.POSSIBLE), large),
        *(unknown(small, 1.4), unknown(v2, 0.5), unknown(lite0, 0.48)),
        v1,
    )
    plans = (
        PlanRow(v2.name, Plan(), Interval(14.2, 14.0, 14.5)),
        PlanRow(v2.name, _PLAN, Interval(8.4, 8.3, 8.5), compare_rounds([math.log(0.59)] * 5), used=True),
        PlanRow(large.model, Plan(accelerator="gpu", threads=2), trouble="This machine shows no GPU."),
    )
    return ChooseFound(
        "image-classification", rows, Limits(latency_ms=20.0), _PLAN, plans, device="Some CPU", seconds=148.0
    )


def knee() -> ChooseFound:
    """Without limits."""
    return replace(typical(), limits=Limits())


def none_fits() -> ChooseFound:
    """Limits that nothing keeps."""
    return replace(typical(), limits=Limits(latency_ms=5.0, accuracy=0.75, size_bytes=15e6))


def _measured(model: str, accuracy: float, ms: float, size: int, place: Place) -> ModelRow:
    row = published(model, accuracy, ms, size, place)
    known = Accuracy(
        "top-1", accuracy, accuracy - 0.04, accuracy + 0.035, 500, "images", notes=(remark(GUESSED_FLOAT),)
    )
    return replace(
        row,
        origin=Origin.FILE,
        path=f"models/{model}.tflite",
        accuracy=known,
        accuracy_source=Source.MEASURED,
        counted=True,
        weights="",
        cited="",
        license="",
        locations=(),
    )


def measured() -> ChooseFound:
    """Files on the user's data, the fastest above an accuracy; next to the catalogue."""
    a = _measured("flowers_a", 0.912, 6.2, 9_000_000, Place.ON)
    b = replace(_measured("flowers_b", 0.905, 4.0, 8_800_000, Place.POSSIBLE), rivals=(a.name,))
    made = replace(a, name="flowers_a int8", precision="int8", origin=Origin.MADE, size_bytes=2_400_000)
    made = replace(made, latency=Interval(3.3, 3.2, 3.4), place=Place.ON, reference=a.name)
    other = published("mobilenet_v2_1.0_224", 0.718, 8.4, 14_000_000)
    return ChooseFound(
        "image-classification",
        (made, b, a, other),
        Limits(accuracy=0.9),
        _PLAN,
        data="images",
        device="Some CPU",
        notes=(remark("choose.same-file", path="models/copy_of_a.tflite"),),
        seconds=61.0,
    )


def odd() -> ChooseFound:
    """Cut short: one model that fails, one that was not timed, no accuracy at all."""
    timed = unknown(published("first_with_a_name_that_is_much_too_long_for_a_table", 0.5, 0.021, 900), 1.0)
    timed = replace(timed, reference="", against=None, rounds=1, latency=Interval(0.021, -math.inf, math.inf))
    timed = replace(timed, doubts=(remark(doubts.NOISY), remark(doubts.FEW_SAMPLES, runs=12)))
    failed = replace(timed, name="second int8", model="second", latency=None, place=Place.UNKNOWN, doubts=())
    failed = replace(
        failed,
        failure=Failure("load", "engine", "The operator CUSTOM is not known."),
        why_dropped=remark("choose.failed", message="The operator CUSTOM is not known."),
    )
    late = replace(failed, name="third int8", model="third", failure=None, why_dropped=remark("choose.not-timed"))
    return ChooseFound(
        "",
        (timed, failed, late),
        plan=Plan(),
        troubles=(Trouble("fourth.tflite", "fourth.tflite is not a TensorFlow Lite file."),),
        notes=(
            remark(
                "choose.no-quantizer",
                message="The quantizer is not installed.",
                hint="Run pip install 'hasten[quantize]'.",
            ),
        ),
        seconds=4.0,
        interrupted=True,
    )


def own() -> ChooseFound:
    """The model of a tuning, which another one beats."""
    found = measured()
    mine = _measured("mine", 0.85, 9.0, 9_500_000, Place.ON)
    mine = beaten(mine, found.models[2])
    return replace(found, models=(*found.models, mine), own=mine.name, limits=Limits())


def own_among_published() -> ChooseFound:
    """The model of a tuning next to the catalogue, whose accuracies are of other data."""
    mine = _measured("mine", 0.85, 9.0, 9_500_000, Place.UNKNOWN)
    mine = replace(mine, accuracy=None, accuracy_source=Source.UNKNOWN)
    return replace(typical(), models=(*typical().models, mine), own=mine.name, limits=Limits())


def catalogue() -> CatalogueFound:
    """A few models of the catalogue."""
    accuracy = {"float32": Accuracy("top-1", 0.709, -math.inf, math.inf, 0, "")}
    rows = (
        CatalogueRow(
            "mobilenet_v1_1.0_224",
            "image-classification",
            224,
            4_222_057,
            568_741_376,
            accuracy,
            ("hf:someone/some-models/model.tflite",),
            common=True,
        ),
        CatalogueRow(
            "squeezenet_1.1_224",
            "image-classification",
            224,
            1_235_496,
            349_151_936,
            {**accuracy, "int8": Accuracy("top-1", 0.595, -math.inf, math.inf, 0, "1,000 images")},
        ),
        CatalogueRow("yamnet", "audio-classification", 96, 3_700_000, 69_000_000),
    )
    return CatalogueFound(rows)

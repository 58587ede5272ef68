"""Retrainings to be shown: one that went well, and an odd one of integers whose head has learned little."""

from __future__ import annotations

from hasten.core.accuracy import PairedAccuracy
from hasten.core.measurement import Model
from hasten.core.remark import remark
from hasten.retraining import words
from hasten.retraining.facts import (
    Baseline,
    ClassRow,
    Confusion,
    CurvePoint,
    Decay,
    RetrainFound,
    Scores,
    Way,
    WorstSample,
    Written,
)


def _against(difference: float, low: float, high: float, samples: int = 153) -> PairedAccuracy:
    won = round(difference * samples)
    return PairedAccuracy("top-1", samples, difference, low, high, True, samples - won, 0, won, 0, 0.01)


def typical() -> RetrainFound:
    """Ants and bees on MobileNet V2: better than neighbors, with a few confusions."""
    return RetrainFound(
        model=Model("mine.tflite", 2_300_000, "1" * 64),
        source=Model("/models/mobilenet_v2.tflite", 3_610_798, "0" * 64),
        data="photos",
        accuracy=Scores(1.0, 0.963, 0.974, (0.935, 0.990), 149, 153, 612, mean_recall=0.972),
        classes=(ClassRow("ants", 302, 76, 73, 74), ClassRow("bees", 310, 77, 76, 79)),
        baselines=(
            Baseline("majority", 0.503, (0.425, 0.581), _against(0.471, 0.38, 0.55)),
            Baseline("neighbors", 0.954, (0.909, 0.978), _against(0.020, -0.005, 0.045)),
        ),
        written=Written(153, 153, 149, 149),
        seconds=14.2,
        features=1280,
        replaced="MobilenetV2/Logits/Conv2d_1c_1x1/BiasAdd",
        embedding_seconds=11.6,
        fit_seconds=1.3,
        decay=1e-3,
        decays=(Decay(1e-2, 0.141), Decay(1e-3, 0.118), Decay(1e-4, 0.131)),
        confusions=(Confusion("ants", "bees", 3), Confusion("bees", "ants", 1)),
        worst=(
            WorstSample("bees/17.jpg", "bees", "ants", 0.021, "test"),
            WorstSample("ants/204.jpg", "ants", "bees", 0.043, "train"),
        ),
        curve=(
            CurvePoint(76, 0.922, (0.868, 0.955)),
            CurvePoint(153, 0.948, (0.900, 0.973)),
            CurvePoint(306, 0.961, (0.917, 0.982)),
            CurvePoint(612, 0.974, (0.935, 0.990)),
        ),
        doubling=_against(0.013, -0.009, 0.035),
        held_out="mine.test.csv",
        preprocess="size=224x224,mean=127.5,std=127.5,channels=rgb,layout=nhwc",
    )


def odd() -> RetrainFound:
    """Few uneven samples of many classes, by a quantized backbone, with predictions that differ; and other ways."""
    names = [f"class {number}" for number in range(24)]
    low = Scores(0.61, 0.09, 0.08, (0.022, 0.25), 2, 25, 96, mean_recall=0.08)
    return RetrainFound(
        model=Model("/models/tiny_int8.tflite", 310_000, "1" * 64),
        source=Model("/models/tiny.tflite", 900_000, "0" * 64),
        data="labels.csv",
        accuracy=low,
        classes=tuple(ClassRow(name, 4, 1, int(at < 2), 1) for at, name in enumerate(names)),
        baselines=(Baseline("majority", 0.04, (0.007, 0.195), _against(0.04, -0.09, 0.17, 25)),),
        written=Written(22, 25, 2, 3),
        seconds=63.0,
        features=64,
        quantized="static_int8_sequential",
        float_accuracy=Scores(0.7, 0.1, 0.12, (0.04, 0.30), 3, 25, 96),
        balanced=True,
        confusions=(Confusion("class 3", "class 4", 1),),
        ways=(
            Way("head", 0.08, (0.022, 0.25), 9.0, "/models/tiny_int8.tflite"),
            Way("fine-tune", 0.2, (0.09, 0.39), 240.0, change=_against(0.12, -0.05, 0.29, 25)),
            Way("qat", 0.0, (0.0, 1.0), 3.0, failure="The training ran out of memory."),
        ),
        notes=(
            remark(words.FEW_TESTED, samples=25),
            remark(words.UNEVEN, ratio=6.0),
            remark(words.DIFFERS, samples=3, total=25),
            remark(words.REPEATED, samples=2),
        ),
    )

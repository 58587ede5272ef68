"""Notes on a figure of accuracy: a closed list of what a reader should know about it, and the sentence for each.

A note is a Remark with one of these codes. What decides that there is one stands where data is read and where models
are evaluated; how it is said stands here, whatever command shows it.
"""

from __future__ import annotations

from typing import Final

from hasten.core.phrases import Phrase, Phrasebook

RANDOM_INPUTS: Final = "data.random-inputs"
NUMBERED_FOLDERS: Final = "data.numbered-folders"
NO_MASK: Final = "data.no-mask"
SUBFOLDERS: Final = "data.subfolders"
NESTED: Final = "data.nested-folders"
FIXED_ORDER: Final = "data.fixed-order"
UNUSED_PREPROCESS: Final = "data.unused-preprocess"
GUESSED_INT8: Final = "data.guessed-int8"
GUESSED_FLOAT: Final = "data.guessed-float"
NO_PROBABILITY: Final = "data.no-probability"
ABOVE_ZERO: Final = "data.above-zero"
HIGHER_IS_BETTER: Final = "data.higher-is-better"
NO_LABELS: Final = "evaluate.no-labels"
STATEFUL: Final = "evaluate.stateful"
TIES: Final = "evaluate.ties"
SKIPPED: Final = "evaluate.skipped"
RUNNER_REPLACED: Final = "evaluate.runner-replaced"
DECIDED_EARLY: Final = "evaluate.decided-early"

PHRASES: Final[dict[str, Phrase]] = {
    RANDOM_INPUTS: Phrase("The inputs are random, as no data was given: the accuracy is unknown."),
    NUMBERED_FOLDERS: Phrase("The names of the folders are taken as class numbers."),
    NO_MASK: Phrase("Skipped {images:count image} without a mask."),
    SUBFOLDERS: Phrase("Skipped {folders:count subfolder}, as there are files next to the subfolders."),
    NESTED: Phrase("Skipped {folders:count folder} with files inside of the folders of the classes."),
    FIXED_ORDER: Phrase("Samples come in the function's own order."),
    UNUSED_PREPROCESS: Phrase(
        "--preprocess {options} has no effect on arrays of {types:list}: it applies to images and audio only."
    ),
    GUESSED_INT8: Phrase(
        "The int8 input gets pixel values minus 128, which is a guess. "
        "Give --preprocess mean=…,std=… if the model was trained on other values."
    ),
    GUESSED_FLOAT: Phrase(
        "The model does not state the range of its float input; pixel values of 0 to 255 are a guess. "
        "Give --preprocess mean=…,std=… if the model was trained on other values."
    ),
    NO_PROBABILITY: Phrase(
        "The output is one value that does not come from a sigmoid, so labels are taken as numbers to predict (mae). "
        "If the labels are classes, give --metric top-1; the threshold is then 0 for a logit and 0.5 for other values."
    ),
    ABOVE_ZERO: Phrase(
        "The output is one value that does not come from a sigmoid, so it is taken as a logit: above 0 is class 1. "
        "If the threshold is another one, give --metric module:function."
    ),
    HIGHER_IS_BETTER: Phrase(
        "Higher values of {metric} are taken as better. If it is an error, set {function}.higher_is_better = False."
    ),
    NO_LABELS: Phrase("The data has no labels: figures show agreement with the original's answers, not accuracy."),
    STATEFUL: Phrase("The model keeps state; hasten clears it before each sample."),
    TIES: Phrase("{share:percent} of the samples have equal highest outputs; the lowest index wins."),
    SKIPPED: Phrase("Skipped {samples:count bad sample}."),
    RUNNER_REPLACED: Phrase("A runner failed and was replaced ({times:count time})."),
    DECIDED_EARLY: Phrase("Stopped after {samples} of {total} samples, as the floor was decided."),
}
NOTES: Final = Phrasebook(PHRASES)

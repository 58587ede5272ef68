"""The accuracy of an accelerator's outputs: the same inputs for all, compared with those of one yardstick."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.data.prepare import Preparer
from hasten.data.tensor_forms import forms_from_graph
from hasten.measure.seeded_inputs import input_bytes, stored_numbers
from hasten.model.metadata import read_metadata
from hasten.practices.accelerators.facts import YARDSTICKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.core.plan import Workload
    from hasten.data.dataset import Dataset
    from hasten.data.preprocess import Preprocess
    from hasten.model.graph import Graph
    from hasten.targets.client import TensorInfo

    Outputs = Sequence[Sequence[NDArray[np.float64]]]
    MakeInputs = Callable[[Sequence[TensorInfo]], list[list[bytes]]]

_INPUTS_CHECKED: Final = 3
_SAMPLES_CHECKED: Final = 8
# Their outputs jump where their inputs only move: on noise, another rounding is another choice.
_CHOOSING: Final = ("ARG_MAX", "ARG_MIN", "TOPK_V2", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "CUSTOM")

# A sound back end rounds differently: half precision loses three digits, integer kernels some last bits, and rounding
# adds up through the layers. What is off by more than this typically is another answer; what is off by more than this
# somewhere may still be right where it counts, but nobody should believe it without testing its accuracy.
_TYPICAL_SHARE, _TYPICAL_STEPS = 0.05, 2.0
_WORST_SHARE, _WORST_STEPS = 0.30, 8.0
# Outputs that hardly differ from each other still carry the rounding of their size: a range is at least so much of it.
_LEAST_RANGE = 0.1
# Off by the whole range is no rounding, even if it happens on one input only.
_BEYOND = 1.0


class Judgement(enum.Enum):
    """Whether outputs are those of the yardstick."""

    RIGHT = "right"
    IMPRECISE = "imprecise"
    """Some outputs are far off."""
    WRONG = "wrong"
    """Outputs are off throughout, or not numbers at all."""

    @property
    def gravity(self) -> int:
        """The larger, the worse."""
        return list(Judgement).index(self)


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far outputs are from the yardstick's, as a share of their range; infinite: not numbers."""

    worst: float
    typical: float
    judgement: Judgement


NO_NUMBERS: Final = OutputError(math.inf, math.inf, Judgement.WRONG)


def make_inputs(tensors: Sequence[TensorInfo]) -> list[list[bytes]]:
    """Seeded inputs, the same for all: floats in 0..1, bytes over their range, indices and flags 0 or 1."""
    source = np.random.default_rng(0)
    return [[input_bytes(tensor, source) for tensor in tensors] for _ in range(_INPUTS_CHECKED)]


def inputs_from_data(graph: Graph, workload: Workload, dataset: Dataset, preprocess: Preprocess) -> MakeInputs:
    """Real inputs, the same for all: samples drawn from the data, prepared as the model wants them."""

    def make(tensors: Sequence[TensorInfo]) -> list[list[bytes]]:
        forms = forms_from_graph(graph, workload).in_effect([(item.name, item.shape) for item in tensors], ())
        preparer = Preparer(forms.inputs, preprocess, read_metadata(graph))
        prepared = [forms.fed(preparer.prepare(sample)) for _, sample in dataset.drawn(_SAMPLES_CHECKED, seed=0)]
        return [[np.ascontiguousarray(array).tobytes() for array in arrays] for arrays in prepared]

    return make


def real_numbers(data: bytes | memoryview, info: TensorInfo) -> NDArray[np.float64]:
    """An output as numbers, stored units. Types that NumPy lacks are compared byte by byte."""
    values = stored_numbers(data, info)
    return (np.abs(values) if values.dtype.kind == "c" else values).astype(np.float64)


def yardstick_of(outputs: Mapping[str, Outputs]) -> str:
    """Whose outputs the others are compared with: those of the best known kernels that ran; empty where none did."""
    return next((name for name in YARDSTICKS if name in outputs), "")


def output_errors(
    graph: Graph, outputs: Mapping[str, Outputs], tensors: Sequence[TensorInfo]
) -> dict[str, OutputError]:
    """The error of each but the yardstick, by name."""
    yardstick = yardstick_of(outputs)
    if not yardstick:
        return {}
    truth = outputs[yardstick]
    steps = [1.0 if tensor.dtype in ("int8", "uint8", "int16") else 0.0 for tensor in tensors]
    errors = {
        name: worst_of([output_error(expected, got, steps) for expected, got in zip(truth, found, strict=True)])
        for name, found in outputs.items()
        if name != yardstick
    }
    if not chooses(graph):
        return errors
    cpu_typical = max((errors[name].typical for name in YARDSTICKS if name in errors), default=0.0)
    return {name: beside_the_cpu(error, cpu_typical) for name, error in errors.items()}


def chooses(graph: Graph) -> bool:
    """Whether some of the model's outputs may be choices."""
    return any(node.op in _CHOOSING for node in graph.main.nodes)


def output_error(
    reference: Sequence[NDArray[np.float64]], found: Sequence[NDArray[np.float64]], steps: Sequence[float]
) -> OutputError:
    """Compare outputs with the reference's, array by array; `steps` are their quantization steps, 0 for floats."""
    if len(reference) != len(found) or len(reference) != len(steps):
        return NO_NUMBERS
    worst, typical, judgement = 0.0, 0.0, Judgement.RIGHT
    for expected, got, step in zip(reference, found, steps, strict=True):
        numbers = np.isfinite(expected)
        if expected.shape != got.shape or not np.array_equal(expected[~numbers], got[~numbers], equal_nan=True):
            return NO_NUMBERS
        if not np.isfinite(got[numbers]).all():
            return NO_NUMBERS
        if not numbers.any():
            continue
        with np.errstate(over="ignore"):  # an infinite difference is off indeed
            spread = _spread(expected[numbers])
            off = np.abs(got[numbers] - expected[numbers]) / spread
            largest = float(off.max())
            usual = min(largest, math.sqrt(float((off**2).mean())))
        worst, typical = max(worst, largest), max(typical, usual)
        if usual > max(_TYPICAL_SHARE, _TYPICAL_STEPS * step / spread):
            judgement = Judgement.WRONG
        elif judgement is Judgement.RIGHT and largest > max(_WORST_SHARE, _WORST_STEPS * step / spread):
            judgement = Judgement.IMPRECISE
    return OutputError(worst, typical, judgement)


def _spread(values: NDArray[np.float64]) -> float:
    return max(float(np.ptp(values)), _LEAST_RANGE * float(np.abs(values).max())) or 1.0


def worst_of(errors: Sequence[OutputError]) -> OutputError:
    """The errors on several inputs as one: wrong is what is wrong on most of them, or beyond all bounds on any."""
    wrong = sum(error.judgement is Judgement.WRONG for error in errors)
    right = all(error.judgement is Judgement.RIGHT for error in errors)
    beyond = any(error.judgement is Judgement.WRONG and error.typical > _BEYOND for error in errors)
    if right:
        judgement = Judgement.RIGHT
    else:
        judgement = Judgement.WRONG if 2 * wrong > len(errors) or beyond else Judgement.IMPRECISE
    typical = float(np.mean([error.typical for error in errors]))
    return OutputError(max(error.worst for error in errors), typical, judgement)


def beside_the_cpu(error: OutputError, cpu_typical: float) -> OutputError:
    """The error of a model whose outputs are choices, which another rounding tips over on random inputs.

    Where the CPU's own kernels (typically off by so much) are as far from the reference, the error says nothing.
    Otherwise it is a reason to test the accuracy, but no proof that anything is wrong.
    """
    if math.isinf(error.worst) or error.judgement is Judgement.RIGHT:
        return error
    as_far = error.typical <= 2 * cpu_typical
    return replace(error, judgement=Judgement.RIGHT if as_far else Judgement.IMPRECISE)

"""Whether a changed model gives what the original gives: both on the same inputs, output by output."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.failure import Failure, RunnerFailed
from hasten.data.tensor_forms import forms_as_loaded
from hasten.measure.seeded_inputs import WHOLE_NUMBERS, WIDE_INTEGERS, input_bytes, stored_numbers
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hasten.core.plan import Workload
    from hasten.explanation.inner_tensors import Subject
    from hasten.measure.seeded_inputs import Draw, Whole
    from hasten.model.graph import Graph
    from hasten.targets.base import Target
    from hasten.targets.client import TensorInfo

    Samples = Sequence[Sequence[bytes]]
    Array = np.ndarray[Any, Any]
    Raw = list[tuple[bytes | memoryview, ...]]

MOST_ROUNDING: Final = 1e-4
"""No larger error counts as rounding, whatever a model's own is."""
# Folded weights are rounded twice, and sums of large numbers that a RELU6 clips show every bit of it.
_SEVERAL: Final = 4
# Sizes of an open batch that outputs are compared with, beside the one that is timed.
_BATCHES: Final = (2, 3)


@dataclass(frozen=True, slots=True)
class Answers:
    """The outputs of one model on some inputs, by sample and place."""

    samples: tuple[tuple[Array, ...], ...]

    def of(self, places: Sequence[int]) -> Answers:
        """Those outputs only."""
        return Answers(tuple(tuple(outputs[place] for place in places) for outputs in self.samples))


def varied_inputs(tensors: Sequence[TensorInfo], whole: Whole = WHOLE_NUMBERS[0]) -> list[list[bytes]]:
    """Seeded inputs of every kind that a rewrite could treat otherwise: small and large numbers, both signs, zeros."""
    source = np.random.default_rng(0)
    draws: tuple[Draw, ...] = (
        source.random,
        source.standard_normal,
        lambda shape: 10 * source.standard_normal(shape),
        lambda shape: -source.random(shape),
        np.zeros,
        lambda shape: 255 * source.random(shape),
    )
    return [[input_bytes(tensor, source, draw, whole) for tensor in tensors] for draw in draws]


def answers_of(target: Target, subject: Subject, samples: Samples) -> Answers | Failure:
    """What a model gives on these inputs; without any, on seeded ones of the shapes that it has.

    Inputs and outputs are in the order of the file, which the engine's may not be.
    """
    try:
        return with_connection(lambda: _answers(target, subject, samples))
    except RunnerFailed as failed:
        return failed.failure


def _answers(target: Target, subject: Subject, samples: Samples) -> Answers:
    candidate, graph = subject.candidate, subject.graph
    with target.start(candidate.plan) as runner:
        load = runner.load(candidate.path, candidate.workload)
        forms = forms_as_loaded(graph, candidate.workload, load)
        inputs = sorted(zip(forms.fed_from, load.inputs, strict=True), key=lambda entry: entry[0])

        def outputs_on(given: Samples) -> Raw:
            return runner.evaluate_many([forms.fed(sample) for sample in given], fresh=graph.stateful)

        if not inputs:
            raw = [runner.evaluate([])]
        else:
            raw = outputs_on(samples) if samples else _on_noise(outputs_on, [tensor for _, tensor in inputs])
    outputs = forms.read(load.outputs)
    return Answers(
        tuple(
            tuple(stored_numbers(bytes(data), info) for data, info in zip(forms.read(answers), outputs, strict=True))
            for answers in raw
        )
    )


def _on_noise(outputs_on: Callable[[Samples], Raw], tensors: Sequence[TensorInfo]) -> Raw:
    """The outputs on seeded inputs, with other whole numbers where the first ones do not run."""
    try:
        return outputs_on(varied_inputs(tensors))
    except RunnerFailed as failed:
        is_about_values = failed.failure.kind in ("engine", "model")
        if not is_about_values or not any(tensor.dtype in WIDE_INTEGERS for tensor in tensors):
            raise
        for whole in WHOLE_NUMBERS[1:]:
            with contextlib.suppress(RunnerFailed):
                return outputs_on(varied_inputs(tensors, whole))
        raise


def own_rounding(target: Target, subject: Subject, samples: Samples, places: Sequence[int] | None = None) -> float:
    """How far apart a model's outputs are when LiteRT's other kernels compute them, which add in another order.

    That is the rounding that users of the model live with, and what a rewrite may add is of the same size. It is 0
    where there are no other kernels to compare with, and at most `MOST_ROUNDING`. `places`: only these outputs count.
    """
    candidate = subject.candidate
    if not candidate.plan.runs_on_cpu:
        return 0.0
    other = replace(candidate.plan, kernel="delegate" if candidate.plan.kernel == "builtin" else "builtin")
    found = []
    for plan in (candidate.plan, other):
        answers = answers_of(target, replace(subject, candidate=replace(candidate, plan=plan)), samples)
        if isinstance(answers, Failure):
            return 0.0
        found.append(answers if places is None else answers.of(places))
    return min(_SEVERAL * largest_error(*found), MOST_ROUNDING)


def largest_error(before: Answers, after: Answers) -> float:
    """The largest difference as a share of the largest output; 0 only where all are equal, infinite for no match."""
    if len(before.samples) != len(after.samples):
        return math.inf
    errors = [0.0]
    for expected, seen in zip(before.samples, after.samples, strict=True):
        if len(expected) != len(seen):
            return math.inf
        errors += [_error(one, other) for one, other in zip(expected, seen, strict=True)]
    return max(errors)


def _error(expected: Array, seen: Array) -> float:
    if expected.dtype != seen.dtype or expected.shape != seen.shape:
        return math.inf
    if expected.dtype.kind not in "fc":
        return _steps(expected, seen)
    numbers = np.isfinite(expected)
    if not np.array_equal(expected[~numbers], seen[~numbers], equal_nan=True) or not np.isfinite(seen[numbers]).all():
        return math.inf
    off = float(np.abs(expected[numbers].astype(np.float64) - seen[numbers]).max(initial=0.0))
    largest = float(np.abs(expected[numbers]).max(initial=0.0))
    return off / largest if largest else (math.inf if off else 0.0)


def _steps(expected: Array, seen: Array) -> float:
    """Integers that stand for reals may differ by steps of their range; an index that is nearly right is wrong."""
    if expected.dtype not in (np.int8, np.uint8, np.int16):
        return 0.0 if np.array_equal(expected, seen) else math.inf
    off = int(np.abs(expected.astype(np.int64) - seen.astype(np.int64)).max(initial=0))
    limits = np.iinfo(expected.dtype)
    return off / (int(limits.max) - int(limits.min))


def other_batches(graph: Graph, workload: Workload) -> list[Workload]:
    """The same workload with other sizes of an open batch: a rewrite must not settle what the file leaves open."""
    signature = graph.signature(workload.signature or None)
    subgraph = graph.subgraphs[signature.subgraph] if signature else graph.main
    named = dict(signature.inputs) if signature else {subgraph.tensors[i].name: i for i in subgraph.inputs}
    opened = {
        name: subgraph.tensors[index].shape
        for name, index in named.items()
        if subgraph.tensors[index].shape_signature[:1] == (-1,)
    }
    if not opened or workload.shapes:
        return []
    return [
        replace(workload, shapes=tuple((name, (size, *shape[1:])) for name, shape in opened.items()))
        for size in _BATCHES
    ]

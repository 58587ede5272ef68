"""Sections of two models run alone, both on the same real inputs: those that they have in the first model.

What differs then is what the section itself adds; nothing is inherited. Values are brought into the second model's
types first, so that both get the very same numbers. The first model's section runs on slightly changed inputs, too: how
far its outputs move tells how much of a difference rounding can make there.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError, HastenError, ModelError
from hasten.core.failure import RunnerFailed
from hasten.core.plan import Workload
from hasten.core.remark import Remark, remark, said
from hasten.data.tensor_forms import form_from_tensor, real_from_bytes, stored_from_real
from hasten.explanation.inner_tensors import CLASSIC, real_values
from hasten.explanation.tensor_errors import error_between, range_of
from hasten.model.edit.cut import Island, cut_apart
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.data.tensor_forms import TensorForm
    from hasten.explanation.diff.pairing import Section
    from hasten.explanation.inner_tensors import Subject
    from hasten.explanation.tensor_errors import ErrorMeter, Reals
    from hasten.measure.rounds import Progress
    from hasten.model.graph import Shape, Tensor
    from hasten.targets.base import Target
    from hasten.targets.client import LoadReport

_MOST_ISLANDS: Final = 32
_MOST_BYTES: Final = 64 * 2**20
_MOST_FAILURES: Final = 24
# Relative, and far above the rounding of float32, yet small enough for an operator to answer in proportion.
_NUDGE: Final = 2.0**-10
_NUDGED: Final = 4
# Shapes, axes and positions that other nodes compute; lists of indices are longer.
_MOST_FIXED: Final = 8
_FIXED_DTYPES: Final = ("int32", "int64")


@dataclass(frozen=True, slots=True)
class OutputAlone:
    """An output of a section that was run alone in both models."""

    before: int
    after: int
    error: ErrorMeter
    gain: float
    """The root mean square by which the first model's output moves when its inputs move by all of their value."""
    within: ErrorMeter | None = None
    """The error against the first model's values as far as the second one's type has room for them; None where its type
    has no limits."""


@dataclass(frozen=True, slots=True)
class Alone:
    """What a section does when it is run alone."""

    outputs: tuple[OutputAlone, ...]
    mismatch: float = 0.0
    """How far the inputs of both differ all the same, relative to their values: types that share no values."""
    crest: float = 1.0
    """The largest of the real inputs over their root mean square."""


@dataclass(frozen=True, slots=True)
class _Job:
    """An island, and for each sample the bytes of each of its inputs."""

    node: int
    island: Island
    samples: tuple[tuple[bytes, ...], ...]
    restart: int = 0
    """The sample that a fresh process begins with, as a state goes on from sample to sample; 0 where there is none."""

    @property
    def size(self) -> int:
        return sum(len(data) for data in self.samples[0]) * 2 if self.samples else 0


@dataclass(frozen=True, slots=True)
class _Given:
    """A tensor that a section of the first model, the second or both are fed, in the types of both."""

    before: int
    after: int | None
    form: TensorForm
    after_form: TensorForm
    reals: Reals
    """What both get: the recorded values as the second model's type holds them."""
    fixed: NDArray[Any] | None = None
    """The value, where it is the same shape, axis or position in every sample."""

    @property
    def is_real(self) -> bool:
        """Whether it holds reals, and no integers that mean themselves."""
        return self.form.is_float or self.form.is_quantized

    def stored(self) -> Reals:
        """As the first model stores them."""
        return [_stored(sample, self.form) for sample in self.reals]

    def stored_after(self) -> Reals:
        """As the second model stores them."""
        return [_stored(sample, self.after_form) for sample in self.reals]

    def nudged(self, random: np.random.Generator) -> Reals:
        """As the first model stores them, slightly changed: a few samples tell how far outputs move."""
        return [_stored(_nudged(sample, self.form, random), self.form) for sample in self.reals[:_NUDGED]]

    def change(self, stored: Reals, other: Reals) -> float:
        """How far two versions of it differ, relative to its values."""
        pairs = [(_as_real(a, self.form), _as_real(b, self.form)) for a, b in zip(stored, other, strict=False)]
        return self._relative(pairs)

    def mismatch(self) -> float:
        """How far the first model's type is from holding what the second one's holds, relative to its values."""
        if self.form == self.after_form:
            return 0.0
        own = [_as_real(data, self.form) for data in self.stored()]
        return self._relative([(a, b.reshape(a.shape)) for a, b in zip(own, self.reals, strict=True)])

    def _relative(self, pairs: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> float:
        size = _rms(self.reals)
        with np.errstate(invalid="ignore"):  # infinities are left out
            return _rms([a - b for a, b in pairs]) / size if size else 0.0


@dataclass(slots=True)
class _Prepared:
    """A section with what both models are fed."""

    section: Section
    jobs: tuple[_Job, _Job]
    mismatch: float
    crest: float
    nudged: float
    """The relative size of the change of the inputs, root mean square; 0 where there is nothing to change."""


@dataclass(slots=True)
class SideBySide:
    """Runs sections of two models alone; what resists is kept with the reason."""

    target: Target
    subjects: tuple[Subject, Subject]
    values: Mapping[int, Reals]
    """The values of the first model's tensors, as recorded."""
    refused: dict[int, Remark] = field(default_factory=dict)
    """Sections that could not be run, by their node."""
    _failures: int = 0

    def run(self, sections: Sequence[Section], counterpart: Mapping[int, int], progress: Progress) -> dict[int, Alone]:
        """What each section adds, by its node."""
        found: dict[int, Alone] = {}
        done = 0
        with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
            for batch in _batches(self._prepared(sections, counterpart)):
                progress(done / max(1, len(sections)), f"running nodes alone ({done} of {len(sections)})")
                answers = [self._answers([one.jobs[at] for one in batch], at, Path(folder)) for at in (0, 1)]
                for one in batch:
                    node = one.section.node
                    if node in answers[0] and node in answers[1]:
                        found[node] = self._alone(one, answers[0][node], answers[1][node])
                done += len(batch)
        return found

    def _prepared(self, sections: Sequence[Section], counterpart: Mapping[int, int]) -> Iterator[_Prepared]:
        """One after the other, as all together may not fit into memory."""
        for section in sections:
            made = section.why if section.why.code else self._prepare(section, counterpart)
            if isinstance(made, Remark):
                self.refused[section.node] = made
            else:
                yield made

    def _prepare(self, section: Section, counterpart: Mapping[int, int]) -> _Prepared | Remark:
        """What both are fed, in bytes; or why that cannot be done."""
        try:
            return self._fed(section, counterpart)
        except (ModelError, DataError) as error:
            return said(error.message)

    def _fed(self, section: Section, counterpart: Mapping[int, int]) -> _Prepared | Remark:
        given = self._given(section, counterpart)
        if isinstance(given, Remark):
            return given
        flowing = [one for one in given if one.fixed is None]
        before = [one for one in flowing if one.before in section.fed[0]]
        after = [one for one in flowing if one.after is not None]
        if not before or not after:
            return remark("diff.not-alone")
        random = np.random.default_rng(0)
        plain, nudged = [one.stored() for one in before], [one.nudged(random) for one in before]
        moved = [one.change(*both) for one, *both in zip(before, plain, nudged, strict=True) if one.is_real]
        islands = _islands(section, given)
        jobs = (
            _Job(
                section.node, islands[0], (*_by_sample(plain), *_by_sample(nudged)), len(plain[0]) * section.has_state
            ),
            _Job(section.node, islands[1], _by_sample([one.stored_after() for one in after])),
        )
        real = [one for one in flowing if one.is_real]
        mismatch = max((one.mismatch() for one in real), default=0.0)
        crest = max((_crest(one.reals) for one in real), default=1.0)
        return _Prepared(section, jobs, mismatch, crest, max(moved, default=0.0))

    def _given(self, section: Section, counterpart: Mapping[int, int]) -> list[_Given] | Remark:
        """What the section is fed; or why it cannot be."""
        first, second = (subject.subgraph.tensors for subject in self.subjects)
        shared = {counterpart[after]: after for after in section.fed[1]}
        if len(shared) < len(section.fed[1]):  # one value in two types
            return remark("diff.not-alone")
        found = []
        for index in dict.fromkeys((*section.fed[0], *shared)):
            values, after = self.values.get(index), shared.get(index)
            if values is None:
                return remark("diff.inputs-unread")
            shape = values[0].shape
            tensors = [first[index], *([second[after]] if after is not None else [])]
            if any(sample.shape != shape for sample in values) or any(map(_is_per_channel, tensors)):
                return remark("diff.not-alone")
            form = form_from_tensor(first[index].name, first[index], shape)
            other = form if after is None else _form_like(second[after], shape)
            if other.is_quantized and not all(np.isfinite(sample).all() for sample in values):
                return remark("diff.not-alone")
            reals = list(values)
            if not other.is_float or other.dtype != str(values[0].dtype):
                reals = [_as_real(_stored(sample, other), other) for sample in values]
            found.append(_Given(index, after, form, other, reals, _fixed(values, form)))
        return found

    def _answers(self, jobs: list[_Job], side: int, folder: Path) -> dict[int, list[tuple[NDArray[Any], ...]]]:
        """What one model's islands answer on each sample, by their node. Those that the engine refuses are left out."""
        if self._failures >= _MOST_FAILURES:
            self.refused.update({job.node: remark("explain.many-refusals") for job in jobs})
            return {}
        try:
            return with_connection(lambda: self._run(jobs, side, folder))
        except (RunnerFailed, HastenError) as trouble:
            self._failures += 1
            if len(jobs) == 1:
                message = trouble.failure.message if isinstance(trouble, RunnerFailed) else trouble.message
                self.refused[jobs[0].node] = said(message)
                return {}
        middle = len(jobs) // 2
        halves = [self._answers(half, side, folder) for half in (jobs[:middle], jobs[middle:])]
        return {node: answer for half in halves for node, answer in half.items()}

    def _run(self, jobs: list[_Job], side: int, folder: Path) -> dict[int, list[tuple[NDArray[Any], ...]]]:
        subject = self.subjects[side]
        path = folder / "islands.tflite"
        islands = [job.island for job in jobs]
        cut_apart(subject.candidate.path, islands, subject.subgraph.index).write(path)
        found: dict[int, list[tuple[NDArray[Any], ...]]] = {job.node: [] for job in jobs}
        for numbers in _passes(jobs):
            with self.target.start(subject.candidate.plan) as runner:
                load = runner.load(path, Workload())
                fed_from, read_from = _orders(load)
                for number in numbers:
                    data = [frame for job in jobs for frame in job.samples[number]]
                    answers = runner.evaluate([data[place] for place in fed_from])
                    places = iter(read_from)
                    for job in jobs:
                        ends = [(subject.subgraph.tensors[index], next(places)) for index in job.island.outputs]
                        values = [
                            real_values(answers[at], replace(end, shape=load.outputs[at].shape)) for end, at in ends
                        ]
                        found[job.node].append(tuple(values))
        return found

    def _alone(
        self, one: _Prepared, before: Sequence[tuple[NDArray[Any], ...]], after: Sequence[tuple[NDArray[Any], ...]]
    ) -> Alone:
        plain, nudged = before[: len(after)], before[len(after) :]
        outputs = []
        for place, (first, second) in enumerate(one.section.outputs):
            expected, moved, got = ([sample[place] for sample in side] for side in (plain, nudged, after))
            limits = range_of(self.subjects[1].subgraph.tensors[second])
            within = None if limits is None else error_between([np.clip(sample, *limits) for sample in expected], got)
            gain = error_between(expected[: len(moved)], moved).error_rms / one.nudged if one.nudged else 0.0
            outputs.append(OutputAlone(first, second, error_between(expected, got), gain, within))
        return Alone(tuple(outputs), one.mismatch, one.crest)


def _passes(jobs: Sequence[_Job]) -> list[range]:
    """The numbers of the samples that each process runs. All jobs of a batch have equally many."""
    count, restart = len(jobs[0].samples), max(job.restart for job in jobs)
    return [range(restart), range(restart, count)] if restart else [range(count)]


def _batches(prepared: Iterable[_Prepared]) -> Iterator[list[_Prepared]]:
    """As many as fit into one model; a node that two sections share cannot stand in it twice."""
    batch: list[_Prepared] = []
    room = _MOST_BYTES
    taken: list[set[int]] = [set(), set()]
    for one in prepared:
        size = max(job.size for job in one.jobs)
        shares = any(set(nodes) & used for nodes, used in zip(one.section.nodes, taken, strict=True))
        if batch and (len(batch) == _MOST_ISLANDS or size > room or shares):
            yield batch
            batch, room, taken = [], _MOST_BYTES, [set(), set()]
        batch.append(one)
        room -= size
        for nodes, used in zip(one.section.nodes, taken, strict=True):
            used.update(nodes)
    if batch:
        yield batch


def _islands(section: Section, given: Sequence[_Given]) -> tuple[Island, Island]:
    first = [one for one in given if one.before in section.fed[0]]
    return (
        Island(
            section.nodes[0],
            {one.before: one.form.shape for one in first if one.fixed is None},
            tuple(before for before, _ in section.outputs),
            {one.before: one.fixed for one in first if one.fixed is not None},
        ),
        Island(
            section.nodes[1],
            {one.after: one.after_form.shape for one in given if one.fixed is None and one.after is not None},
            tuple(after for _, after in section.outputs),
            {
                one.after: one.fixed.astype(one.after_form.dtype)
                for one in given
                if one.fixed is not None and one.after is not None
            },
        ),
    )


def _by_sample(tensors: Sequence[Reals]) -> tuple[tuple[bytes, ...], ...]:
    """For each sample the bytes of each tensor."""
    return tuple(tuple(data.tobytes() for data in sample) for sample in zip(*tensors, strict=True))


def _stored(values: NDArray[Any], form: TensorForm) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):  # what a type cannot hold becomes infinite, as in the engine
        return stored_from_real(values.reshape(form.shape), form, form.name)


def _as_real(stored: NDArray[Any], form: TensorForm) -> NDArray[Any]:
    return real_from_bytes(stored.tobytes(), form)


def _nudged(values: NDArray[Any], form: TensorForm, random: np.random.Generator) -> NDArray[Any]:
    """Real values that differ a little: by a thousandth, or by one step of their type. Integers stay."""
    if form.is_quantized:
        return np.asarray(values + form.scale * random.choice((-1.0, 1.0), values.shape))
    signs = random.integers(0, 2, values.shape, np.int8) * np.float32(2 * _NUDGE)
    return np.asarray(values * (1 - _NUDGE + signs)) if form.is_float else values


def _rms(values: Sequence[NDArray[Any]]) -> float:
    known = [sample.astype(np.float64)[np.isfinite(sample)] for sample in values]
    count = sum(sample.size for sample in known)
    return math.sqrt(sum(float(np.square(sample).sum()) for sample in known) / count) if count else 0.0


def _crest(values: Reals) -> float:
    size = _rms(values)
    largest = max((float(np.abs(sample[np.isfinite(sample)]).max(initial=0.0)) for sample in values), default=0.0)
    return largest / size if size else 1.0


def _form_like(tensor: Tensor, shape: Shape) -> TensorForm:
    """The form of a counterpart, in its own shape where that has as many values."""
    own = tensor.shape if tensor.elements == math.prod(shape) else shape
    return form_from_tensor(tensor.name, tensor, own)


def _is_per_channel(tensor: Tensor) -> bool:
    return tensor.quantization is not None and tensor.quantization.per_channel


def _fixed(values: Reals, form: TensorForm) -> NDArray[Any] | None:
    if form.is_quantized or form.dtype not in _FIXED_DTYPES or values[0].size > _MOST_FIXED:
        return None
    return values[0] if all(np.array_equal(values[0], sample) for sample in values) else None


def _orders(load: LoadReport) -> tuple[list[int], list[int]]:
    """For each input of the engine its place among the islands', and for each of their outputs its place there."""
    inputs, outputs = ([tensor.name for tensor in tensors] for tensors in (load.inputs, load.outputs))
    if load.api == CLASSIC:  # it has the order of the file, and other names
        return list(range(len(inputs))), list(range(len(outputs)))
    return ([_number(name) for name in inputs], sorted(range(len(outputs)), key=lambda place: _number(outputs[place])))


def _number(name: str) -> int:
    """Of `input_7` the 7: `cut_apart` names them so."""
    return int(name.rpartition("_")[2])

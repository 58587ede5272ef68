"""Where numerical error enters: both models on the same inputs, and the outputs of matching nodes compared."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hasten.core.errors import DataError, ModelError
from hasten.core.failure import RunnerFailed
from hasten.core.remark import Remark, remark, said
from hasten.data.prepare import Preparer
from hasten.data.preprocess import Preprocess
from hasten.data.sources import random_dataset
from hasten.data.tensor_forms import forms_as_loaded, forms_from_graph, held, real_from_bytes, stored_from_real
from hasten.explanation.facts import LossyInput, NumericalErrors, Unread
from hasten.explanation.inner_tensors import InnerTensors, Subject, is_comparable
from hasten.explanation.tensor_errors import (
    ErrorMeter,
    clipped_inputs,
    clipped_nodes,
    drops,
    error_between,
    first_below,
    first_drop,
    is_lossy,
    largest_drop,
    snr_between,
)
from hasten.model.matching import Feeders
from hasten.model.metadata import read_metadata
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hasten.core.failure import Failure
    from hasten.core.plan import Workload
    from hasten.data.dataset import Dataset
    from hasten.data.tensor_forms import LoadedForms, TensorForm
    from hasten.explanation.facts import Clipping, NodeRow
    from hasten.explanation.tensor_errors import Reals
    from hasten.model.graph import Graph
    from hasten.targets.base import Target
    from hasten.targets.client import RunnerClient

_FEWEST_SAMPLES: Final = 4
_MOST_SAMPLES: Final = 32
# What all samples together may touch: they are run several times, and the values of inner tensors are kept.
_MOST_BYTES: Final = 256 * 2**20


@dataclass(frozen=True, slots=True)
class GivenInputs:
    """For each sample the bytes of each of the original's inputs, and what a reader should know of them."""

    source: str
    samples: tuple[tuple[bytes, ...], ...]
    is_random: bool = False
    notes: tuple[Remark, ...] = ()
    """What had to be guessed, and what was left out."""
    preprocess: str = ""
    """How the samples were prepared, as a user asked for it."""


def samples_for(graph: Graph, workload: Workload) -> int:
    """How many samples are looked at: more of a small model, where they take a moment only."""
    if workload.shapes:
        return _FEWEST_SAMPLES  # the file does not tell how large inner tensors become
    inner = sum(
        (tensor.elements or 0) * 4 for part in graph.subgraphs for tensor in part.tensors if not tensor.is_constant
    )
    return max(_FEWEST_SAMPLES, min(_MOST_SAMPLES, _MOST_BYTES // max(1, graph.size_bytes + inner)))


def inputs_from_data(
    graph: Graph, workload: Workload, dataset: Dataset, preprocess: Preprocess = Preprocess(), *, skip_bad: bool = False
) -> GivenInputs:
    """A few samples, drawn at random. One that cannot be used is a DataError, unless such ones are to be left out."""
    preparer = Preparer(forms_from_graph(graph, workload).inputs, preprocess, read_metadata(graph))
    found: list[tuple[bytes, ...]] = []
    bad: list[str] = []
    wanted = samples_for(graph, workload)
    for _, sample in dataset.drawn():
        if len(found) == wanted:
            break
        try:
            found.append(tuple(np.ascontiguousarray(values).tobytes() for values in preparer.prepare(sample)))
        except DataError as error:
            if not skip_bad:
                raise
            bad.append(error.message)
    if not found:
        raise DataError(f"{dataset.source} has no usable sample{f': {bad[0]}' if bad else '.'}")
    left_out = [remark("explain.skipped", samples=len(bad), first=bad[0])] if bad else []
    notes = (*dataset.notes, *preparer.notes, *left_out)
    return GivenInputs(dataset.source, tuple(found), dataset.is_random, notes)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The rows with their errors, and the errors as a whole; or why there are none."""

    rows: Sequence[NodeRow]
    errors: NumericalErrors | None
    why_not: Remark = field(default=Remark(""))


class SubjectFailed(RunnerFailed):
    """A failure of which it is known whose it is."""

    def __init__(self, subject: Subject, failure: Failure) -> None:
        super().__init__(failure)
        self.subject = subject


@dataclass(frozen=True, slots=True)
class Feed:
    """The same samples for both models, in bytes and in the engine's order, and both models' own outputs."""

    before: list[list[bytes]]
    after: list[list[bytes]]
    input_snr_db: Mapping[str, float]
    """The SNR that the types of the changed model's inputs leave, by tensor."""
    lossy_inputs: tuple[LossyInput, ...]
    clipped: list[Clipping]
    outputs: tuple[dict[str, Reals], dict[str, Reals]]
    source: Remark
    fed: tuple[dict[str, Reals], dict[str, Reals]]
    """The real values that both models are fed, by the names of their input tensors."""
    input_pairs: tuple[tuple[str, str], ...]
    """The names of input tensors that stand for each other: of the original, and of the changed model."""


def compare_numbers(
    target: Target, original: Subject, changed: Subject, rows: Sequence[NodeRow], given: GivenInputs | None
) -> Numbers:
    """The rows with the SNR of each node that both models have, on the inputs given or on random ones."""
    try:
        fed = with_connection(lambda: feed(target, original, changed, given))
        if isinstance(fed, Remark):
            return Numbers(rows, None, fed)
        return _compare(target, (original, changed), rows, given, fed)
    except RunnerFailed as failed:
        return Numbers(rows, None, said(failed.failure.message))
    except ModelError as error:
        return Numbers(rows, None, said(error.message))


def _compare(
    target: Target, subjects: tuple[Subject, Subject], rows: Sequence[NodeRow], given: GivenInputs | None, fed: Feed
) -> Numbers:
    original, changed = subjects
    pairs = _tensor_pairs(original, changed, rows)
    readers = [InnerTensors(target, *one) for one in zip(subjects, fed.outputs, strict=True)]
    found = readers[0].read([before for before, _ in pairs.values()], fed.before)
    got = readers[1].read([after for _, after in pairs.values()], fed.after)
    snr_db = {
        node: snr_between(found[before], got[after])
        for node, (before, after) in pairs.items()
        if before in found and after in got
    }
    drop_db = drops(snr_db, snr_of_inputs(changed, snr_db, fed.input_snr_db))
    unread = [
        Unread(node, readers[0].unread.get(before) or readers[1].unread.get(after, Remark("")))
        for node, (before, after) in pairs.items()
        if node not in snr_db
    ]
    output_snr_db = _output_snr(*fed.outputs)
    errors = NumericalErrors(
        samples=len(fed.before),
        inputs=fed.source,
        is_random=given is None or given.is_random,
        compared=len(snr_db),
        output_snr_db=output_snr_db,
        first_drop=first_drop(drop_db),
        largest_drop=largest_drop(snr_db, drop_db),
        first_below=first_below(snr_db),
        outputs_equal=output_snr_db == math.inf,
        unread=tuple(unread),
        disturbance_db=min(reader.disturbance.snr_db for reader in readers),
        notes=() if given is None else given.notes,
        lossy_inputs=fed.lossy_inputs,
        clipped=(*fed.clipped, *clipped_nodes(changed.subgraph, pairs, found)),
    )
    return Numbers([_with_error(row, snr_db, drop_db) for row in rows], errors)


def _with_error(row: NodeRow, snr_db: Mapping[int, float], drop_db: Mapping[int, float]) -> NodeRow:
    if row.after is None:
        return row
    snr = snr_db.get(row.after)
    return replace(row, snr_db=snr, same_to_the_bit=snr == math.inf, drop_db=drop_db.get(row.after))


def _tensor_pairs(original: Subject, changed: Subject, rows: Sequence[NodeRow]) -> dict[int, tuple[int, int]]:
    """Tensors to compare, of the original and of the changed model, by the node of the changed one."""
    pairs = {}
    for before, after in ((row.before, row.after) for row in rows):
        if before is None or after is None or before < 0:
            continue
        first = next((index for index in original.subgraph.nodes[before].outputs if index >= 0), None)
        second = next((index for index in changed.subgraph.nodes[after].outputs if index >= 0), None)
        if first is None or second is None:
            continue
        one, other = original.subgraph.tensors[first], changed.subgraph.tensors[second]
        if is_comparable(one) and is_comparable(other) and one.elements == other.elements:
            pairs[after] = (first, second)
    return pairs


def feed(target: Target, original: Subject, changed: Subject, given: GivenInputs | None) -> Feed | Remark:
    """The samples for both models and what they answer; or why the two cannot be fed the same.

    Trouble comes out as `SubjectFailed`.
    """
    with contextlib.ExitStack() as stack:
        runners = [_started(target, subject, stack) for subject in (original, changed)]
        forms = [_load(runner, subject) for runner, subject in zip(runners, (original, changed), strict=True)]
        counterparts = _counterparts(forms[0].inputs, forms[1].inputs)
        if isinstance(counterparts, Remark):
            return counterparts
        source, samples = _samples(forms[0], counterparts, given, original)
        before = [_stored(sample, forms[0].inputs) for sample in samples]
        # What the original is really fed, in its own type, is what the changed model has to be fed.
        fed = [_reals_from(sample, forms[0].inputs) for sample in before]
        after = [_stored([sample[at] for at, _ in counterparts], forms[1].inputs) for sample in fed]
        meters = {form.tensor_name: ErrorMeter() for form in forms[1].inputs}
        forms_held = [(at, *_held_form(changed, form)) for at, form in counterparts]
        for sample in fed:
            for at, form, _ in forms_held:
                meters[form.tensor_name].add(sample[at], held(sample[at], form))
        taken = (
            _by_tensor(fed, forms[0].inputs),
            _by_tensor([_reals_from(sample, forms[1].inputs) for sample in after], forms[1].inputs),
        )
        before, after = (
            [form.fed(sample) for sample in side] for form, side in zip(forms, (before, after), strict=True)
        )
        outputs = (_outputs(runners[0], forms[0], before, original), _outputs(runners[1], forms[1], after, changed))
    snr_db = {name: meter.snr_db for name, meter in meters.items()}
    lossy = [
        LossyInput(form.name, form.dtype, snr_db[form.tensor_name], node)
        for _, form, node in forms_held
        if is_lossy(snr_db[form.tensor_name])
    ]
    clipped = clipped_inputs(fed, [(at, form) for at, form, _ in forms_held])
    names = tuple((forms[0].inputs[at].tensor_name, form.tensor_name) for at, form in counterparts)
    return Feed(before, after, snr_db, tuple(lossy), clipped, outputs, source, taken, names)


@contextlib.contextmanager
def _blaming(subject: Subject) -> Iterator[None]:
    try:
        yield
    except RunnerFailed as failed:
        raise SubjectFailed(subject, failed.failure) from None


def _started(target: Target, subject: Subject, stack: contextlib.ExitStack) -> RunnerClient:
    with _blaming(subject):
        return stack.enter_context(target.start(subject.candidate.plan))


def _load(runner: RunnerClient, subject: Subject) -> LoadedForms:
    with _blaming(subject):
        load = runner.load(subject.candidate.path, subject.candidate.workload)
    return forms_as_loaded(subject.graph, subject.candidate.workload, load)


def _counterparts(before: Sequence[TensorForm], after: Sequence[TensorForm]) -> list[tuple[int, TensorForm]] | Remark:
    """For each input of the changed model its own form, and the place of the original's input that it stands for; or
    why the two cannot be fed the same."""
    if len(before) != len(after):
        return remark("explain.other-inputs", before=len(before), after=len(after))
    places = {form.name: place for place, form in enumerate(before)}
    by_name = all(form.name in places for form in after)
    found = [(places[form.name] if by_name else place, form) for place, form in enumerate(after)]
    for place, form in found:
        if before[place].elements != form.elements:
            return remark("explain.other-shape", name=form.name)
    return found


def _held_form(changed: Subject, form: TensorForm) -> tuple[TensorForm, int | None]:
    """The form that an input's values have in the model, and the node that brings them into it: a float input may be
    quantized before anything else reads it."""
    subgraph = changed.subgraph
    at = next((index for index in subgraph.inputs if subgraph.tensors[index].name == form.tensor_name), None)
    readers = [node for node in subgraph.nodes if at in node.inputs]
    if form.is_quantized or len(readers) != 1 or readers[0].op != "QUANTIZE":
        return form, None
    tensor = subgraph.tensors[readers[0].outputs[0]]
    if tensor.quantization is None or tensor.quantization.per_channel:
        return form, None
    scale, zero_point = tensor.quantization.scales[0], (*tensor.quantization.zero_points, 0)[0]
    return replace(form, dtype=tensor.dtype, scale=scale, zero_point=zero_point), readers[0].index


def _samples(
    forms: LoadedForms, counterparts: Sequence[tuple[int, TensorForm]], given: GivenInputs | None, original: Subject
) -> tuple[Remark, list[Reals]]:
    """Where they come from, and the real values of the original's inputs."""
    if given is not None:
        return remark("explain.inputs-data", source=given.source, preprocess=given.preprocess), [
            _reals_from(sample, forms.inputs) for sample in given.samples
        ]
    workload = original.candidate.workload
    random_inputs = random_dataset(forms.inputs, samples_for(original.graph, workload))
    drawn = inputs_from_data(original.graph, workload, random_inputs)
    samples = [_reals_from(sample, forms.inputs) for sample in drawn.samples]
    wanted = {place: form for place, form in counterparts if form.is_quantized}
    random = np.random.default_rng(0)
    for sample in samples:
        for place, form in wanted.items():
            sample[place] = _over_range(form, random).reshape(sample[place].shape)
    return remark("explain.inputs-range" if wanted else "explain.inputs-unit"), samples


def _over_range(form: TensorForm, random: np.random.Generator) -> NDArray[Any]:
    limits = np.iinfo(form.dtype)
    low, high = ((limit - form.zero_point) * form.scale for limit in (limits.min, limits.max))
    return random.uniform(low, high, form.shape)


def _stored(reals: Reals, forms: Sequence[TensorForm]) -> list[bytes]:
    return [stored_from_real(values, form, form.name).tobytes() for values, form in zip(reals, forms, strict=True)]


def _reals_from(stored: Sequence[bytes], forms: Sequence[TensorForm]) -> Reals:
    return [real_from_bytes(data, form) for data, form in zip(stored, forms, strict=True)]


def _by_tensor(samples: Sequence[Reals], forms: Sequence[TensorForm]) -> dict[str, Reals]:
    return {form.tensor_name: [sample[place] for sample in samples] for place, form in enumerate(forms)}


def _outputs(
    runner: RunnerClient, forms: LoadedForms, samples: Sequence[Sequence[bytes]], subject: Subject
) -> dict[str, Reals]:
    found: dict[str, Reals] = {form.name: [] for form in forms.outputs}
    with _blaming(subject):
        for sample in samples:
            for form, data in zip(forms.outputs, forms.read(runner.evaluate(sample)), strict=True):
                found[form.name].append(real_from_bytes(data, form))
    return found


def output_errors(before: Mapping[str, Reals], after: Mapping[str, Reals]) -> dict[str, ErrorMeter]:
    """Of each output of the changed model: matched by name, or by their order; none where their numbers differ."""
    if len(before) != len(after):
        return {}
    names = list(after) if before.keys() == after.keys() else list(before)
    return {own: error_between(before[name], after[own]) for name, own in zip(names, after, strict=True)}


def _output_snr(before: Mapping[str, Reals], after: Mapping[str, Reals]) -> float | None:
    """Of the worst output."""
    return min((meter.snr_db for meter in output_errors(before, after).values()), default=None)


def snr_of_inputs(
    changed: Subject, snr_db: Mapping[int, float], input_snr_db: Mapping[str, float]
) -> dict[int, list[float]]:
    """The SNR of what feeds each node; a node that could not be compared passes on the worst of its own inputs."""
    subgraph = changed.subgraph
    feeders = Feeders(subgraph)
    known: dict[int, float] = {}
    found: dict[int, list[float]] = {}
    for node in subgraph.nodes:
        fed = [
            input_snr_db.get(subgraph.tensors[subgraph.inputs[feeder.graph_input]].name, math.inf)
            if feeder.node is None and feeder.graph_input >= 0
            else known.get(-1 if feeder.node is None else feeder.node, math.inf)
            for feeder in feeders.of(node.index)
        ]
        found[node.index] = fed
        known[node.index] = snr_db.get(node.index, min(fed, default=math.inf))
    return found

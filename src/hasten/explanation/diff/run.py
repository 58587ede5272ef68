"""Where two models diverge: both on the same inputs, tensor by tensor; then each node alone, on the first model's own
values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.errors import DataError, HastenError, ModelError
from hasten.core.failure import Failure, RunnerFailed, failure_from_error
from hasten.core.remark import Remark, remark
from hasten.data.tensor_forms import form_from_tensor, held
from hasten.explanation.diff.differences import differences
from hasten.explanation.diff.facts import CONSTANT, INSIDE, DiffFound, DiffOutput, DiffRow, Side, Status
from hasten.explanation.diff.islands import Alone, OutputAlone, SideBySide
from hasten.explanation.diff.pairing import Section, Wiring, error_of, pair_up
from hasten.explanation.diff.rules import (
    EXACT_DB,
    Divergence,
    Traits,
    finite_db,
    first_divergent,
    first_not_finite,
    judged,
    narrowest,
    ranked,
    unproven_span,
    verdict_of,
)
from hasten.explanation.diff.traits import step_of, traits_of
from hasten.explanation.inner_tensors import InnerTensors, is_comparable
from hasten.explanation.numbers import SubjectFailed, feed, output_errors
from hasten.explanation.tensor_errors import DROP_DB, ROUNDING_DB, ErrorMeter, clipped_nodes, error_between, range_of
from hasten.explanation.words import BOOK
from hasten.measure.rounds import FailedCandidate
from hasten.model.matching import Certainty, match_nodes
from hasten.targets.base import with_connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hasten.explanation.diff.pairing import Pairing
    from hasten.explanation.inner_tensors import Subject
    from hasten.explanation.numbers import Feed, GivenInputs
    from hasten.explanation.tensor_errors import Reals
    from hasten.measure.effort import Effort
    from hasten.measure.rounds import Progress
    from hasten.model.graph import Node
    from hasten.model.matching import NodeMatch
    from hasten.targets.base import Target

_HALF_DTYPES: Final = ("float16", "bfloat16")
_READ_FIRST, _READ_SECOND, _ALONE, _RANGE = 0.1, 0.25, 0.4, 0.9


def run(
    first: Subject, second: Subject, effort: Effort, inputs: GivenInputs | None = None
) -> DiffFound | FailedCandidate:
    """Where the second model diverges from the first; or which of them failed, and how."""
    target = effort.target
    effort.progress(0.0, "running both models")
    try:
        fed = with_connection(lambda: feed(target, first, second, inputs))
        if isinstance(fed, Remark):
            hint = "Compare two models that take the same inputs."
            return FailedCandidate(second.candidate, Failure("evaluate", "model", BOOK.text(fed), hint))
        return _Diff(target, (first, second), fed, effort.progress).found(inputs)
    except SubjectFailed as failed:
        return FailedCandidate(failed.subject.candidate, failed.failure)
    except RunnerFailed as failed:
        return FailedCandidate(second.candidate, failed.failure)
    except (ModelError, DataError) as error:
        return FailedCandidate(first.candidate, failure_from_error(error, "evaluate"))


@dataclass(frozen=True, slots=True)
class _Read:
    """The values of both models' tensors, and which of them correspond."""

    matches: list[NodeMatch]
    values: tuple[dict[int, Reals], dict[int, Reals]]
    pairing: Pairing
    errors: dict[int, ErrorMeter]
    """Of the second model's tensors that have a counterpart."""
    unread: dict[int, Remark]
    """Nodes of the second model whose outputs, or those of whose counterparts, could not be read."""
    disturbance_db: float

    @property
    def wirings(self) -> tuple[Wiring, Wiring]:
        """Those of both graphs."""
        return self.pairing.wirings


class _Diff:
    """One comparison, from the samples on."""

    def __init__(self, target: Target, subjects: tuple[Subject, Subject], fed: Feed, progress: Progress) -> None:
        self._target, self._subjects, self._fed, self._progress = target, subjects, fed, progress

    def found(self, inputs: GivenInputs | None) -> DiffFound:
        """All that is known in the end."""
        read = self._read()
        rows = self._judged(read)
        outputs = self._outputs()
        feeds = _feeds(read.wirings[1])
        first = first_divergent(rows)
        has_fault = any(row.status.is_fault for row in rows)
        is_off = not outputs or any(output.differing or output.not_finite for output in outputs)
        span = unproven_span(rows, feeds) if is_off and not has_fault else None
        fusion = None if has_fault or span else self._fusion(read, outputs)
        clipped = clipped_nodes(self._subjects[1].subgraph, _first_outputs(read.pairing), read.values[0])
        self._progress(1.0, "done")
        sides = [Side(subject.candidate.model, subject.candidate.plan) for subject in self._subjects]
        divergence = Divergence(
            rows,
            outputs,
            first,
            first_not_finite(rows, feeds),
            span or fusion,
            fusion is not None,
            next(iter(self._fed.lossy_inputs), None),
            sides[1].model.path,
            {one.node: one.share for one in clipped if one.node is not None},
        )
        return DiffFound(
            before=sides[0],
            after=sides[1],
            verdict=verdict_of(divergence),
            first=first if divergence.span is None else divergence.span[0],
            rows=tuple(ranked(rows)),
            samples=len(self._fed.before),
            inputs=self._fed.source,
            is_random=inputs is None or inputs.is_random,
            outputs=tuple(outputs),
            span=divergence.span,
            lossy_inputs=self._fed.lossy_inputs,
            clipped=(*self._fed.clipped, *clipped),
            disturbance_db=read.disturbance_db,
            notes=(*(inputs.notes if inputs is not None else ()), *_not_finite_before(read), *_choices(rows, read)),
        )

    # -- the whole models

    def _read(self) -> _Read:
        fed = self._fed
        wirings = Wiring(self._subjects[0].subgraph), Wiring(self._subjects[1].subgraph)
        readers = [InnerTensors(self._target, *one) for one in zip(self._subjects, fed.outputs, strict=True)]
        self._progress(_READ_FIRST, "reading the tensors of the first model")
        first = readers[0].read(wirings[0].computed(), fed.before)
        self._progress(_READ_SECOND, "reading the tensors of the second model")
        second = readers[1].read(wirings[1].computed(), fed.after)
        values = (first | _inputs(wirings[0], fed.fed[0]), second | _inputs(wirings[1], fed.fed[1]))
        matches = match_nodes(wirings[0].subgraph, wirings[1].subgraph)
        names = [{wiring.subgraph.tensors[index].name: index for index in wiring.subgraph.inputs} for wiring in wirings]
        inputs = {
            names[1][after]: names[0][before]
            for before, after in fed.input_pairs
            if before in names[0] and after in names[1]
        }
        pairing = pair_up(wirings, matches, inputs, values)
        errors = {
            after: meter
            for after, before in pairing.counterpart.items()
            if (meter := error_of(pairing, (before, after), values)) is not None
        }
        unread = _unread(matches, wirings, readers)
        disturbance_db = min(reader.disturbance.snr_db for reader in readers)
        return _Read(matches, values, pairing, errors, unread, disturbance_db)

    def _outputs(self) -> list[DiffOutput]:
        """The outputs of both models as they are."""
        errors = output_errors(*self._fed.outputs)
        return [_output(name, meter, self._fed.outputs[1][name]) for name, meter in errors.items()]

    # -- each node alone

    def _judged(self, read: _Read) -> list[DiffRow]:
        sections = {section.node: section for section in read.pairing.sections}
        alone = self._alone(read)
        inside_before, inside = read.pairing.inside
        replaced = {section.before for section in sections.values()}
        rows: list[DiffRow] = []
        for match in read.matches:
            row = DiffRow(match.after, match.before, match.op, match.certainty, match.location, match.shape)
            if match.after is None:
                host = inside_before.get(match.before or 0)
                why = remark("diff.gone") if host is None else remark(INSIDE, node=host)
                rows += [replace(row, why=why)] if match.before not in replaced else []
            elif match.after in sections:
                rows.append(self._section_row(row, sections[match.after], alone, read))
            elif match.after in read.pairing.conversions:
                rows.append(self._conversion_row(row, match.after, read))
            elif match.after in inside:
                rows.append(replace(row, why=remark(INSIDE, node=inside[match.after])))
            else:
                rows.append(_settled_or_added(row, match.after, read))
        return rows

    def _alone(self, read: _Read) -> dict[int, Alone | Remark]:
        """What each section adds; what is equal in the whole model, from equal inputs, need not be run again."""
        found: dict[int, Alone | Remark] = {}
        waiting: list[Section] = []
        for section in read.pairing.sections:
            errors = [read.errors[after] for _, after in section.outputs]
            if errors and _is_fed_equally(section, read) and not any(one.differing or one.broken for one in errors):
                found[section.node] = _from_whole(section, read)
            else:
                waiting.append(section)
        side_by_side = SideBySide(self._target, self._subjects, read.values[0])
        found |= side_by_side.run(waiting, read.pairing.counterpart, self._part(_ALONE, _RANGE))
        for section in waiting:
            if section.node in found:
                continue
            why = side_by_side.refused.get(section.node) or section.why
            # Where the inputs are equal, what the node has in the whole model is all its own.
            known = section.outputs and section.fed[1] and _is_fed_equally(section, read)
            found[section.node] = _from_whole(section, read) if known else why
        return found

    def _section_row(self, row: DiffRow, section: Section, alone: Mapping[int, Alone | Remark], read: _Read) -> DiffRow:
        row = _with_whole(row, [after for _, after in section.outputs], _fed_tensors(section, read), read)
        extra = [node for node in section.nodes[0] if node != section.before]
        row = replace(
            row,
            before=section.before,
            only_before=tuple(_label(read.wirings[0].subgraph.nodes[node]) for node in extra),
            only_after=tuple(
                _label(read.wirings[1].subgraph.nodes[node]) for node in section.nodes[1] if node != section.node
            ),
        )
        found = alone[section.node]
        if isinstance(found, Remark):
            return replace(row, why=read.unread.get(section.node, found))
        traits = [traits_of(self._subjects, read.wirings, section, pair) for pair in section.outputs]
        row = judged(row, found, traits)
        return replace(row, causes=differences(self._subjects, read.pairing, section)) if row.status.is_fault else row

    def _conversion_row(self, row: DiffRow, node: int, read: _Read) -> DiffRow:
        """A conversion that only the second model has: what its types do to the first model's values."""
        entry = read.wirings[1].subgraph.nodes[node]
        source, made = (read.wirings[1].subgraph.tensors[index] for index in (entry.inputs[0], entry.outputs[0]))
        row = _with_whole(row, [made.index], [source.index], read)
        values = read.values[0].get(read.pairing.conversions[node])
        if values is None or not all(map(is_comparable, (source, made))):
            return replace(row, why=remark("diff.not-alone"))
        try:
            with np.errstate(over="ignore", invalid="raise"):
                given = [held(sample, form_from_tensor(source.name, source, sample.shape)) for sample in values]
                made_of_it = [held(sample, form_from_tensor(made.name, made, sample.shape)) for sample in given]
                error = error_between(given, made_of_it)
                limits = range_of(made)
                room = None if limits is None else [np.clip(sample, *limits) for sample in given]
        except (HastenError, FloatingPointError):
            return replace(row, why=remark("diff.not-alone"))
        traits = Traits(step_after=step_of(made), dtype_after=made.dtype, half=made.dtype in _HALF_DTYPES)
        within = None if room is None else error_between(room, made_of_it)
        return judged(row, Alone((OutputAlone(-1, made.index, error, 0.0, within),)), [traits])

    # -- ranges, where reading inner tensors makes the trouble go away

    def _fusion(self, read: _Read, outputs: Sequence[DiffOutput]) -> tuple[int, int] | None:
        """The smallest range of nodes that is off while it runs in one piece, although none of its nodes is."""
        known = [output.snr_db for output in outputs if output.snr_db is not None]
        nodes = [subject.subgraph.nodes for subject in self._subjects]
        alike = len(nodes[0]) == len(nodes[1]) and all(match.before == match.after for match in read.matches)
        if not known or not alike or min(known) >= EXACT_DB:
            return None
        shown = [
            min(ROUNDING_DB, meter.snr_db)
            for index in read.wirings[1].subgraph.outputs
            if (meter := read.errors.get(index)) is not None
        ]
        while_read, left_alone = min(shown, default=ROUNDING_DB), min(known)
        if while_read - left_alone < DROP_DB:
            return None
        limit = (while_read + left_alone) / 2
        side_by_side = SideBySide(self._target, self._subjects, read.values[0])

        def shows(low: int, high: int) -> bool:
            self._progress(_RANGE, f"running nodes {low} to {high} in one piece")
            section = _range(read, low, high)
            alone = side_by_side.run([section], read.pairing.counterpart, _silent) if section else {}
            return any(output.error.snr_db < limit for one in alone.values() for output in one.outputs)

        return narrowest(shows, len(nodes[1]))

    def _part(self, begin: float, end: float) -> Progress:
        def tell(share: float, text: str) -> None:
            self._progress(begin + (end - begin) * share, text)

        return tell


def _silent(share: float, text: str) -> None:
    """A range is announced as a whole."""


def _inputs(wiring: Wiring, fed: Mapping[str, Reals]) -> dict[int, Reals]:
    tensors = wiring.subgraph.tensors
    return {index: fed[tensors[index].name] for index in wiring.subgraph.inputs if tensors[index].name in fed}


def _unread(
    matches: Sequence[NodeMatch], wirings: tuple[Wiring, Wiring], readers: Sequence[InnerTensors]
) -> dict[int, Remark]:
    found = {}
    for match in matches:
        if match.before is None or match.after is None:
            continue
        for wiring, reader, index in zip(wirings, readers, (match.before, match.after), strict=True):
            whys = [reader.unread[tensor] for tensor in wiring.subgraph.nodes[index].outputs if tensor in reader.unread]
            if whys:
                found[match.after] = whys[0]
    return found


def _feeds(wiring: Wiring) -> dict[int, list[int]]:
    """The nodes that write what each node reads."""
    return {
        node.index: [wiring.producers[index].index for index in node.inputs if index in wiring.producers]
        for node in wiring.subgraph.nodes
    }


def _is_fed_equally(section: Section, read: _Read) -> bool:
    """Whether both models feed it the same numbers in the same types, to the last bit."""
    if not section.fed[1]:
        return False
    first, second = (wiring.subgraph.tensors for wiring in read.wirings)
    for after in section.fed[1]:
        error, before = read.errors.get(after), read.pairing.counterpart[after]
        if error is None or error.differing or error.broken or first[before].dtype != second[after].dtype:
            return False
    return set(section.fed[0]) <= {read.pairing.counterpart[after] for after in section.fed[1]}


def _from_whole(section: Section, read: _Read) -> Alone:
    outputs = [OutputAlone(before, after, read.errors[after], 0.0) for before, after in section.outputs]
    return Alone(tuple(outputs))


def _fed_tensors(section: Section, read: _Read) -> Iterable[int]:
    """What it reads that has a counterpart, or else what its node reads."""
    return section.fed[1] or read.wirings[1].subgraph.nodes[section.node].inputs


def _with_whole(row: DiffRow, outputs: Sequence[int], fed: Iterable[int], read: _Read) -> DiffRow:
    """The row with its error in the whole model, that of its worst output, and with what it inherits."""
    inherited = [read.errors[index].snr_db for index in fed if index in read.errors]
    row = replace(row, inherited_db=finite_db(min(inherited, default=math.inf)))
    known = [(index, read.errors[index]) for index in outputs if index in read.errors]
    if not known:
        return row
    index, worst = min(known, key=lambda one: one[1].snr_db)
    is_real = is_comparable(read.wirings[1].subgraph.tensors[index])
    values = sum(meter.values for _, meter in known)
    return replace(
        row,
        snr_db=finite_db(worst.snr_db) if is_real else None,
        max_error=None if worst.broken else worst.worst,
        differing=sum(meter.differing for _, meter in known) / values if values else 0.0,
        not_finite=sum(meter.not_finite for _, meter in known),
    )


def _settled_or_added(row: DiffRow, node: int, read: _Read) -> DiffRow:
    """A node without a section: it reads constants only, or the first model has none like it."""
    outputs = read.wirings[1].subgraph.nodes[node].outputs
    if outputs and all(index in read.wirings[1].settled for index in outputs):
        return replace(row, why=remark(CONSTANT))
    return replace(row, why=remark("diff.added" if row.match is Certainty.NONE else "diff.no-counterpart"))


def _first_outputs(pairing: Pairing) -> dict[int, tuple[int, int]]:
    return {section.node: section.outputs[0] for section in pairing.sections if section.outputs}


def _output(name: str, meter: ErrorMeter, values: Reals) -> DiffOutput:
    is_choice = bool(values) and values[0].dtype.kind in "iub"
    return DiffOutput(
        name,
        None if is_choice else finite_db(meter.snr_db),
        None if meter.broken else meter.worst,
        meter.differing / meter.values if meter.values else float(meter.broken),
        meter.not_finite,
    )


def _not_finite_before(read: _Read) -> list[Remark]:
    """The first node of the first model that gives infinities or no numbers itself: nothing is compared there."""
    for node in read.wirings[0].subgraph.nodes:
        reals = [sample for index in node.outputs for sample in read.values[0].get(index, ())]
        lost = sum(int(np.count_nonzero(~np.isfinite(sample))) for sample in reals)
        if lost:
            return [remark("diff.first-not-finite", node=node.index, op=node.label, values=lost)]
    return []


def _choices(rows: Sequence[DiffRow], read: _Read) -> list[Remark]:
    """Nodes that choose rightly from inputs that are a little off: the choice is another one then."""
    found = []
    for row in rows:
        if row.index is None or row.status is not Status.EQUAL or not row.differing:
            continue
        outputs = [index for index in read.wirings[1].subgraph.nodes[row.index].outputs if index in read.errors]
        if any(not is_comparable(read.wirings[1].subgraph.tensors[index]) for index in outputs):
            facts = {"node": row.index, "op": row.op, "share": row.differing, "inherited_db": row.inherited_db}
            found.append(Remark("diff.choice", facts))
    return found


def _range(read: _Read, low: int, high: int) -> Section | None:
    """The nodes `low` to `high` in one piece; None where they cannot be fed or read."""
    wiring, counterpart = read.wirings[1], read.pairing.counterpart
    nodes = wiring.subgraph.nodes[low : high + 1]
    if not all(wiring.is_plain(node) for node in nodes):
        return None
    chosen = tuple(node.index for node in nodes)
    written = dict.fromkeys(index for node in nodes for index in node.outputs if index >= 0)
    fed = dict.fromkeys(
        index
        for node in nodes
        for index in node.inputs
        if index >= 0 and index not in written and index not in wiring.settled
    )
    outputs = [index for index in written if _is_read_outside(wiring, index, chosen) and index in counterpart]
    if not outputs or any(index not in counterpart for index in fed):
        return None
    return Section(
        high,
        high,
        tuple((counterpart[index], index) for index in outputs),
        (chosen, chosen),
        (tuple(counterpart[index] for index in fed), tuple(fed)),
    )


def _is_read_outside(wiring: Wiring, tensor: int, nodes: tuple[int, ...]) -> bool:
    if tensor in wiring.subgraph.outputs:
        return True
    return any(reader.index not in nodes for reader in wiring.readers.get(tensor, ()))


def _label(node: Node) -> str:
    return f"#{node.index} {node.label}"

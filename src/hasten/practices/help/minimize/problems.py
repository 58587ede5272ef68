"""The problems that can be looked for: each tells of a part whether it shows the problem, and by what evidence.

Every test runs in processes of its own, with the target's limits on time and memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from hasten.core.failure import Failure, RunnerFailed
from hasten.core.levels import contrast
from hasten.core.remark import Remark, remark
from hasten.explanation.tensor_errors import HARMLESS_DB, LARGE_ERROR_DB
from hasten.measure.rounds import Rounds
from hasten.measure.seeded_inputs import stored_numbers
from hasten.model.reader import read_graph
from hasten.practices.help.minimize.facts import CRASH, SLOW, WRONG
from hasten.practices.help.minimize.parts import InnerValues, Part, fed
from hasten.practices.help.outputs import Output, worst_snr_db, wrong_below_db

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph, Tensor
    from hasten.targets.base import Target
    from hasten.targets.client import TensorInfo

# A part alone may be somewhat less wrong than the whole, in which errors add up.
_ALLOWANCE_DB: Final = 6.0
# Of the whole's time, or of the time that it loses, a part must have this share.
_SHARE: Final = 0.5
# A plan that loses less than this share of its time is not called slow.
_NOTABLE: Final = 0.05
_FEWEST_ROUNDS: Final = 2
_MOST_ROUNDS: Final = 6
_SECONDS_EACH: Final = 0.15
# What is this close to the limit, as a factor, is measured further.
_CLOSE: Final = 1.15


@dataclass(frozen=True, slots=True)
class Shown:
    """Whether a part shows the problem, and what was seen."""

    yes: bool
    evidence: Remark


class Problem(Protocol):
    """Something that is wrong with a model."""

    name: str

    def of_whole(self, whole: Part) -> Shown:
        """Whether the whole model shows it. Asked first: parts are judged by what it shows."""

    def of_part(self, part: Part) -> Shown:
        """Whether a part shows the same."""


@dataclass(slots=True)
class Crash:
    """The model does not load, ends its process, hangs or runs out of memory."""

    target: Target
    name: str = CRASH
    _wanted: tuple[str, str, str] | None = None

    def of_whole(self, whole: Part) -> Shown:
        """The failure of the whole model is the one to look for."""
        failure = self._failure(whole.candidate)
        if failure is None:
            return Shown(False, remark("minimize.no-crash"))
        self._wanted = _identity(failure)
        return Shown(True, _failure_remark(failure))

    def of_part(self, part: Part) -> Shown:
        """The same stage and kind of failure: that a part does not even load is another problem."""
        failure = self._failure(part.candidate)
        if failure is None:
            return Shown(False, remark("minimize.no-crash"))
        return Shown(_identity(failure) == self._wanted, _failure_remark(failure))

    def _failure(self, candidate: Candidate) -> Failure | None:
        try:
            with self.target.start(candidate.plan) as runner:
                load = runner.load(candidate.path, candidate.workload)
                fed(runner, load.inputs, {})
        except RunnerFailed as failed:
            return failed.failure
        return None


def _identity(failure: Failure) -> tuple[str, str, str]:
    return (failure.stage, failure.kind, failure.code)


def _failure_remark(failure: Failure) -> Remark:
    return remark("minimize.crash", stage=failure.stage, kind=failure.kind, message=failure.message)


@dataclass(slots=True)
class Wrong:
    """The outputs differ from those of the plan, or the model, that does it right."""

    target: Target
    values: InnerValues
    name: str = WRONG
    _limit_db: float | None = None

    def of_whole(self, whole: Part) -> Shown:
        """What is off by more than rounding explains is wrong."""
        shown = self._shown(whole, {})
        snr = shown.evidence.facts.get("snr_db")
        worst = -math.inf if snr is None else float(snr)
        self._limit_db = min(HARMLESS_DB, max(LARGE_ERROR_DB, worst + _ALLOWANCE_DB))
        return shown

    def of_part(self, part: Part) -> Shown:
        """On the values that the part has inside of the whole, it is about as wrong as the whole."""
        return self._shown(part, self.values.for_part(part))

    def _shown(self, part: Part, values: Mapping[str, bytes]) -> Shown:
        try:
            expected = self._outputs(part.other, values)
            got = self._outputs(part.candidate, values)
        except RunnerFailed as failed:
            return Shown(False, _failure_remark(failed.failure))
        snr = worst_snr_db(expected, got)
        told = snr if math.isfinite(snr) else None
        inputs = "recorded" if values else "noise"
        usual = wrong_below_db(expected, on_cpu=part.candidate.plan.runs_on_cpu)
        limit = usual if self._limit_db is None else self._limit_db
        return Shown(snr < limit, remark("minimize.error", snr_db=told, equal=snr == math.inf, inputs=inputs))

    def _outputs(self, candidate: Candidate, values: Mapping[str, bytes]) -> list[Output]:
        with self.target.start(candidate.plan) as runner:
            load = runner.load(candidate.path, candidate.workload)
            raw = fed(runner, load.inputs, values)
        tensors = _named_outputs(read_graph(candidate.path))
        pairs = zip(raw, load.outputs, strict=True)
        return [_output(data, info, tensors.get(info.name)) for data, info in pairs]


def _named_outputs(graph: Graph) -> dict[str, Tensor]:
    """The outputs by their names in the signature, and by their own."""
    signature = graph.signature()
    named = {} if signature is None else {name: graph.main.tensors[at] for name, at in signature.outputs.items()}
    return {**{tensor.name: tensor for tensor in graph.outputs}, **named}


def _output(data: bytes, info: TensorInfo, tensor: Tensor | None) -> Output:
    """An output in units of its step; complex numbers by their size."""
    values = stored_numbers(data, info)
    if values.dtype.kind == "c":
        return Output(np.abs(values))
    if tensor is None or tensor.quantization is None or values.dtype.kind not in "iu":
        return Output(values)
    return Output(values.astype(np.float64) - (tensor.quantization.zero_points or (0,))[0], 1.0)


@dataclass(slots=True)
class Slow:
    """The model takes longer than on another plan, or than a faster model; without one, where half of its time goes.

    A part is measured next to the whole, in the same rounds, so that a machine that gets slower meanwhile changes
    nothing. It shows the problem if it has half of the time that the whole loses.
    """

    target: Target
    has_other: bool
    """Whether there is another plan or model to be slower than."""
    name: str = SLOW
    _limit: float = _SHARE
    _whole: Candidate | None = field(default=None)

    def of_whole(self, whole: Part) -> Shown:
        """Slower than the other by more than noise explains; alone, every run has a slowest half."""
        self._whole = whole.candidate
        if not self.has_other:
            return Shown(True, remark("minimize.whole-run"))
        found = self._shares([whole.other], _NOTABLE)
        if isinstance(found, Failure):
            return Shown(False, _failure_remark(found))
        lost = 1.0 - found[0]
        self._limit = _SHARE * lost
        return Shown(lost > _NOTABLE, remark("minimize.slower", ratio=1.0 / found[0]))

    def of_part(self, part: Part) -> Shown:
        """It has half of the whole's time, or of what the whole loses against the other."""
        found = self._shares([part.candidate, *([part.other] if self.has_other else [])], self._limit)
        if isinstance(found, Failure):
            return Shown(False, _failure_remark(found))
        if not self.has_other:
            return Shown(found[0] >= self._limit, remark("minimize.share", share=found[0]))
        told = remark("minimize.slower", ratio=found[0] / found[1])
        return Shown(found[0] - found[1] >= self._limit, told)

    def _shares(self, candidates: list[Candidate], limit: float) -> list[float] | Failure:
        """The time of each as a share of the whole's; more rounds where the first less the second is near the limit."""
        assert self._whole is not None, "the whole model comes first"
        rounds = Rounds(self.target, [self._whole, *candidates])
        shares: list[float] = []
        for number in range(1, _MOST_ROUNDS + 1):
            rounds.run_one(_SECONDS_EACH)
            levels = []
            for track in rounds.tracks:
                result = track.failure or track.result()
                if isinstance(result, Failure):
                    return result
                levels.append(result.samples.levels)
            seen = [contrast(levels[0], other) for other in levels[1:]]
            shares = [math.exp(one.estimate) if one is not None else 0.0 for one in seen]
            lost = 1.0 - shares[0] if len(shares) == 1 and self.has_other else shares[0] - sum(shares[1:])
            if number >= _FEWEST_ROUNDS and not limit / _CLOSE < lost < limit * _CLOSE:
                break
        return shares

"""The search on one plan: recipes made and judged, all that runs timed, mixes with float, the other part of the data.

One part of the data decides which variants may be chosen, the other tells how accurate they are; those that run are
timed against the original in interleaved rounds. Each step is saved as it ends, and a rerun goes on from there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from hasten.core.codec import to_data
from hasten.core.comparison import Verdict
from hasten.core.errors import HastenError
from hasten.core.failure import Failure, RunnerFailed
from hasten.core.floor import FloorState, most_looks
from hasten.core.goal import Goal
from hasten.core.remark import Remark, remark
from hasten.core.statistics import Interval
from hasten.core.trial import CHOOSING, NOTHING, ORIGINAL, REPORTING, Purpose, Status
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.words import floor_data
from hasten.measure.bench import DEFAULT_SECONDS as BENCH_SECONDS
from hasten.measure.bench import bench
from hasten.measure.profiling import profile_model
from hasten.measure.race import comparison, result_beside, run_race
from hasten.measure.rounds import Rounds, no_progress
from hasten.measure.study import outcome_of
from hasten.practices.quantize.facts import QuantizeFound
from hasten.practices.quantize.rules import choose, with_slow_nodes, worth_mixing
from hasten.practices.quantize.view import session_lines
from hasten.search.accuracy import failed_trial
from hasten.search.folder import FolderError
from hasten.search.mixing import Mixer
from hasten.search.refitting import refit, to_refit
from hasten.search.settings import feeding_options
from hasten.search.variant_store import VariantRequest
from hasten.variants.io_types import FLOAT
from hasten.variants.pruning import Pruning
from hasten.variants.recipes import RECIPE_NAMES, Biases, recipe_from_name
from hasten.variants.sparsity import layer_sparsities, model_sparsity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hasten.core.trial import Trial
    from hasten.data.tensor_forms import TensorForm
    from hasten.explanation.node_gains import NodeGain
    from hasten.measure.rounds import Progress, Track
    from hasten.search.folder import SearchFolder
    from hasten.search.variant_store import VariantStore

# With fewer rounds there is no verdict, however clear the difference.
FEWEST_FOR_A_VERDICT: Final = 3
_MOST_MIXED: Final = 2
# After so many setbacks no further mix is made, and what there is has to do.
MOST_SETBACKS: Final = 3
# Fewer zeros than this are chance.
_WORTH_A_NOTE: Final = 0.05
# XNNPACK's sparse path computes with channels first; no other kernel of its does.
_SPARSE_KERNEL: Final = "NCHW"
_PROFILE_SECONDS: Final = 1.0
_MOST_NAMED: Final = 3


def run(store: VariantStore, seconds: float, progress: Progress = no_progress) -> QuantizeFound | Failure:
    """Search to the end. What was found until then is in the folder, however it ends; after Ctrl-C it is raised."""
    search = QuantizeSearch(store, seconds, progress)
    try:
        return outcome_of(search)
    except FolderError as error:  # what was measured is known, whether or not it could be written
        error.found = search.found() if search.has_answer else None
        raise
    finally:
        store.close()


@dataclass(slots=True)
class QuantizeSearch:
    """A search that can be asked at any time what it has found so far."""

    store: VariantStore
    seconds: float
    """For the timing of all variants together."""
    progress: Progress = no_progress
    _plan: ProgressPlan = field(init=False)
    _share: float = 0.0
    """How far the search has come, at least."""

    def __post_init__(self) -> None:
        self._plan = ProgressPlan(mixes=self.store.settings.mix)
        self.store.tell = self._tell

    @property
    def folder(self) -> SearchFolder:
        """Where everything is kept."""
        return self.store.folder

    @property
    def has_answer(self) -> bool:
        """Whether there is a variant, the original included."""
        return bool(self.trials)

    @property
    def trials(self) -> list[Trial]:
        """Every variant so far, the original first; of recipes that were not asked for only those found before."""
        return list(self.folder.variants.values())

    @property
    def goal(self) -> Goal:
        """What to gain."""
        return self.store.settings.goal

    @property
    def best(self) -> Trial:
        """The best so far."""
        return choose(self.trials, self.goal)

    def found(self, *, interrupted: bool = False) -> QuantizeFound:
        """What there is now."""
        work, folder, best = self.store, self.folder, self.best
        resumed = [remark("search.resumed", folder=str(folder.path))] if folder.resumed else []
        return QuantizeFound(
            model=work.candidate.model.path,
            trials=tuple(self.trials),
            chosen=best.variant,
            path=str(folder.path / "chosen.tflite"),
            goal=self.goal,
            max_drop=work.settings.max_drop,
            data=work.data.dataset.source,
            sensitivity=tuple(folder.sensitivities),
            notes=(*resumed, *folder.notes),
            already=work.already,
            resumed=folder.resumed,
            interrupted=interrupted,
            skipped=tuple({**folder.skipped, **work.judge.skipped}.items()),
            plan=work.candidate.plan,
            workload=work.candidate.workload,
            feeding=feeding_options(work.data),
            io_types=work.settings.io_types,
            types_still=tuple(types_still(work)) if best.variant == ORIGINAL else (),
            floor=folder.floor,
        )

    def run(self) -> None:
        """All of it: make and judge each recipe, time what runs, report on the other part."""
        self._begin()
        work, settings = self.store, self.store.settings
        if work.already != NOTHING:
            self._examine_as_it_is()
            return
        self.folder.note(*work.data.dataset.notes, *io_type_notes(work), *self._sparsity_notes())
        self._prepare()
        for number, name in enumerate(settings.fitting):
            self._share = 0.5 * number / len(settings.fitting)
            if not self._is_needless(name):
                self.attempt(VariantRequest(name))
        self._share = 0.5
        for pruning in self._prunings():
            self.attempt(VariantRequest(pruning=pruning, purpose=Purpose.PRUNING))
        self.time_all()
        self._note_kernels()
        if settings.mix:
            self._leave_slow_nodes()
            self.mix()
        if settings.refit_head:
            self._refit_head()
        self.report_on_other_part()
        self.folder.keep_all(session_lines(self.found()))
        self._share = 1.0
        self._tell("done")

    def _is_needless(self, name: str) -> bool:
        """Whether a recipe that takes its time to save accuracy has nothing to save: integers keep the floor, or nobody
        knows. A recipe that the user names is always tried."""
        if recipe_from_name(name).biases is not Biases.IN_ORDER or self.store.settings.recipes != RECIPE_NAMES:
            return False
        plain = [one for one in self.trials if one.purpose is Purpose.RECIPE and one.recipe in RECIPE_NAMES]
        states = {one.floor for one in plain if recipe_from_name(one.recipe).is_static_int8}
        return FloorState.KEPT in states or not states & {FloorState.BROKEN, FloorState.UNDECIDED}

    def attempt(self, request: VariantRequest) -> Trial:
        """Make and judge a variant, and put the best so far where the user looks for it."""
        trial = self.store.attempt(request, self.store.candidate.plan)
        self.folder.choose(self.best)
        return trial

    def time_all(self) -> None:
        """Time everything that runs and was not timed yet, against the original, in interleaved rounds."""
        judged = [one for one in self.trials[1:] if one.path and one.floor not in ("", FloorState.FAILED)]
        waiting = [trial for trial in judged if trial.against is None]
        if not waiting:
            return
        work, begin, place = self.store, time.monotonic(), self._plan.step(self._share)
        plan = work.candidate.plan
        rounds = Rounds(work.target, [work.candidate_of(trial, plan) for trial in (work.original, *waiting)])

        def tell(state: str) -> None:
            spent = (time.monotonic() - begin) / self.seconds
            self._report(self._plan.timing(place, spent), f"timing, {state}, {len(rounds.alive)} models")

        try:
            run_race(
                rounds,
                begin + self.seconds,
                base=lambda raced: raced.tracks[0],
                fewest=FEWEST_FOR_A_VERDICT,
                tell=tell,
                keep=self.folder.keep,
            )
        except KeyboardInterrupt:
            self._take_times(waiting, rounds, only_decided=True)
            raise
        self._take_times(waiting, rounds)

    def mix(self) -> None:
        """Try mixes of the variants that would be the choice if they kept the floor, until a mix is chosen."""
        for trial in worth_mixing(self.trials, self.goal)[:_MOST_MIXED]:
            self._share = 0.75
            self.mixer.search(trial)
            self._share = 0.8
            self.time_all()
            if self.best.parent == trial.variant and self.best.purpose is self.mixer.purpose:
                break

    @property
    def mixer(self) -> Mixer:
        """What tries mixes."""
        return Mixer(self.store, self.store.candidate.plan, self.attempt)

    def report_on_other_part(self) -> None:
        """Evaluate the choice on the reporting part, and the next where it gives way, by the rule of `core.floor`.

        The least float mix that passes on one part has had some luck there. Where the reporting part had a say, the
        result says so.
        """
        self._report_original()
        setbacks: list[str] = []
        while self.store.judge.against_choosing == NOTHING and (wanted := self.best).variant != ORIGINAL:
            if wanted.reporting is None:
                self.folder.save_variant(self._reported(wanted, optimistic=bool(setbacks)))
            if self.best.variant == wanted.variant:
                break
            setbacks.append(wanted.variant)
            self._after_setback(wanted, len(setbacks))
        if setbacks:
            self.folder.note(remark("search.setbacks", variants=setbacks))
        for trial in self.trials:  # for the table: nothing hangs on these
            if trial.may_be_chosen and trial.reporting is None:
                self.folder.save_variant(self._reported(trial))
        self.folder.choose(self.best)

    def _after_setback(self, refused: Trial, setbacks: int) -> None:
        """Look for what may take the place of a choice that gave way; the original always may."""
        settings = self.store.settings
        if setbacks == most_looks(strict=settings.strict):
            why = remark("trial.set-aside", **({} if settings.strict else {"looks": setbacks}))
            for trial in self.trials:
                if trial.may_be_chosen and trial.reporting is None:
                    self.folder.save_variant(replace(trial, refused=True, why=why))
            return
        if setbacks > MOST_SETBACKS or not settings.mix:
            return
        self._share = 0.75
        if self.mixer.further(refused) is not None:
            self._share = 0.85
            self.time_all()
        else:
            self.mix()

    def _report_original(self) -> None:
        """The original first: what speaks against the data is known then."""
        self._share, judge, original = 0.9, self.store.judge, self.trials[0]
        if original.reporting is None:
            accuracy = judge.original(REPORTING).accuracy
            self.folder.save_skipped(judge.skipped)
            self.folder.save_variant(replace(original, reporting=accuracy, why=judge.against_choosing))
        if judge.against_choosing == NOTHING:
            return
        for trial in self.trials[1:]:
            if trial.may_be_chosen:
                self.folder.save_variant(replace(trial, floor=FloorState.UNKNOWN, status=Status.MADE))

    def _reported(self, trial: Trial, *, optimistic: bool = False) -> Trial:
        self._tell(f"{trial.variant} on the reporting part")
        candidate = self.store.candidate_of(trial, self.store.candidate.plan)
        try:
            return self.store.judge.reported(trial, candidate, optimistic=optimistic)
        except HastenError as error:
            return failed_trial(trial, error.message)

    def _begin(self) -> None:
        before = self.folder.variants.get(ORIGINAL)
        if before is None:
            self.folder.save_variant(self.store.original)
        else:
            self.folder.variants[ORIGINAL] = replace(before, path=str(self.store.candidate.path))
            self.store.judge.against_choosing = before.why
        self.folder.choose(self.best)

    def _prepare(self) -> None:
        """What all recipes need: trouble with it is not that of one of them."""
        known = [self.store.known(VariantRequest(name)) for name in self.store.settings.fitting]
        waiting = [
            recipe_from_name(name)
            for name, trial in zip(self.store.settings.fitting, known, strict=True)
            if trial is None or not trial.floor or (trial.path and not self.folder.has_file_of(trial))
        ]
        if waiting:
            self._judge_original()
        if any(recipe.needs_calibration for recipe in waiting):
            self.store.judge.calibration()

    def _judge_original(self) -> None:
        """What the floor means for this model and data, and whether it can be judged by at all."""
        judge = self.store.judge
        self.folder.save_floor(floor_data(judge.floor(CHOOSING)))
        self.folder.save_skipped(judge.skipped)
        original = self.folder.variants[ORIGINAL]
        if original.why != judge.against_choosing:
            self.folder.save_variant(replace(original, why=judge.against_choosing))

    def _examine_as_it_is(self) -> None:
        """A model that is the answer already has to run; with data, on it."""
        work, trial = self.store, self.folder.variants[ORIGINAL]
        try:
            if not work.data.dataset.is_random and trial.reporting is None:
                trial = replace(trial, reporting=work.judge.original(REPORTING).accuracy)
                self.folder.save_skipped(work.judge.skipped)
            if trial.latency is None:
                seconds = min(self.seconds, BENCH_SECONDS)
                measured = bench(work.target, replace(work.candidate, label=ORIGINAL), seconds, self.progress)
                if isinstance(measured, Failure):
                    raise RunnerFailed(measured)
                self.folder.keep("measurement", ORIGINAL, to_data(measured))
                trial = replace(trial, latency=measured.samples.latency, doubts=tuple(measured.doubts))
        except (HastenError, RunnerFailed):
            self.folder.choose_nothing()
            raise
        self.folder.save_variant(trial)

    def _take_times(self, waiting: list[Trial], rounds: Rounds, *, only_decided: bool = False) -> None:
        """Save what was timed; of a race that was cut short, what is decided: the rest is timed again."""
        base, *tracks = rounds.tracks
        result, original = base.result(), replace(self.folder.variants[ORIGINAL], doubts=_doubts_of(base))
        if isinstance(result, Failure):
            if only_decided:
                return
            raise RunnerFailed(result)
        if original.latency is None:  # later races are told in terms of the first one's
            original = replace(original, latency=result.samples.latency)
            self.folder.save_variant(original)
        for trial, track in zip(waiting, tracks, strict=True):
            timed = timed_trial(trial, base, track, original.latency, only_decided=only_decided)
            if timed is not None:
                self.folder.save_variant(replace(timed, doubts=_doubts_of(track)))
        self.folder.choose(self.best)

    def _leave_slow_nodes(self) -> None:
        """Try the best static int8 variant once more, without the nodes that lost by it. It is faster, and larger: who
        asks for size does not want it."""
        trial = with_slow_nodes(self.trials) if self.goal is not Goal.SIZE else None
        # One that was reported on has been through all of this in an earlier run.
        if trial is None or trial.reporting is not None:
            return
        if any(one.parent == trial.variant and one.purpose is Purpose.SLOW_NODES for one in self.trials):
            return
        self._share = 0.7
        plan = self.store.candidate.plan
        sets, gains = self.store.slow_nodes(trial, plan), self.store.gains_of(trial, plan)
        if not sets or gains is None:
            return
        for nodes in sets:
            tried = self.attempt(VariantRequest(trial.recipe, nodes, Purpose.SLOW_NODES, trial.variant))
            if tried.floor is not FloorState.FAILED:
                lost = [gains.nodes[node] for node in nodes]
                self.folder.save_variant(replace(tried, notes=(*tried.notes, slow_nodes_note(lost))))
        self.time_all()

    def _refit_head(self) -> None:
        """Try the most promising variant once more, with its last layer fitted to the labels of the choosing part."""
        self._share = 0.85
        trial = to_refit(self.trials, self.goal)
        if trial is None:
            return
        found = refit(self.store, trial)
        if isinstance(found, Remark):
            self.folder.note(found)
            return
        self.folder.choose(self.best)
        self.time_all()

    def _prunings(self) -> list[Pruning]:
        """Two variants for each share asked for: zeros in their places, and dense layers without them."""
        return [Pruning(share, encode) for share in self.store.settings.prune for encode in (False, True)]

    def _note_kernels(self) -> None:
        """Say of each pruned variant which kernels its pruned layers run on, as a profile beside the original shows."""
        for pruning in self._prunings():
            trial = self.folder.variants[pruning.name]
            known = any(note.code == "quantize.kernels" for note in trial.notes)
            if trial.floor is FloorState.FAILED or not trial.path or known:
                continue
            gains = self.store.gains_of(trial, self.store.candidate.plan)
            if gains is not None:
                mine = [gains.nodes[node] for node in trial.nodes if node in gains.nodes]
                self.folder.save_variant(replace(trial, notes=(*trial.notes, kernel_note(mine))))

    def _sparsity_notes(self) -> Iterable[Remark]:
        """What is found in the weights as they are, and whether XNNPACK's sparse path makes use of it."""
        layers = layer_sparsities(self.store.graph)
        zeros, clustered = model_sparsity(layers), sum(layer.clustered for layer in layers)
        if zeros >= _WORTH_A_NOTE:
            blocks = sorted({f"{layer.block[0]}x{layer.block[1]}" for layer in layers if layer.block is not None})
            yield remark("search.sparsity", share=zeros, blocks=blocks, sparse_nodes=self._sparse_nodes())
        if clustered:
            yield remark("search.clustered", clustered=clustered, layers=len(layers))

    def _sparse_nodes(self) -> int | None:
        """How many nodes the sparse path runs; None where the model cannot be profiled."""
        self._tell("profiling the original")
        work = self.store
        found = profile_model(work.target, work.candidate, work.graph, _PROFILE_SECONDS, None, no_progress)
        if isinstance(found, Failure):
            return None
        return sum(any(_SPARSE_KERNEL in tag for tag in operator.kernels) for operator in found[0].operators)

    def _tell(self, text: str) -> None:
        self._report(self._plan.step(self._share), text)

    def _report(self, place: float, text: str) -> None:
        self.progress(place, f"{text}; best so far: {self.best.variant}" if self.trials else text)


def timed_trial(
    trial: Trial, base: Track, track: Track, original: Interval | None = None, *, only_decided: bool = False
) -> Trial | None:
    """The trial with its latency or its failure; None where there is neither, or no verdict and one is asked for.

    Its latency stands next to the original's of the first race, so that those of several races give their ratios.
    """
    measured = result_beside(base, track)
    if isinstance(measured, Failure):
        return None if track.failure is None else failed_trial(trial, measured.message)
    against = comparison(base, track)
    assert against is not None, "what was compared was measured"
    if only_decided and against.verdict is Verdict.UNDECIDED:
        return None
    latency = measured.samples.latency
    scale = 1.0 if original is None else original.estimate * against.ratio / latency.estimate
    return replace(
        trial, latency=Interval(latency.estimate * scale, latency.low * scale, latency.high * scale), against=against
    )


def _doubts_of(track: Track) -> tuple[Remark, ...]:
    """Reasons to doubt what a race measured; none where it measured nothing."""
    result = track.result()
    return () if isinstance(result, Failure) else tuple(result.doubts)


def slow_nodes_note(gains: Sequence[NodeGain]) -> Remark:
    """Which nodes stay in float, and what they lost by integers."""
    lost = sorted(gains, key=lambda gain: gain.saved_ms)
    kinds = list(dict.fromkeys(f"{gain.op} ({gain.kernel_after})" for gain in lost))
    return remark(
        "quantize.slow-nodes",
        ms=-sum(gain.saved_ms for gain in lost),
        nodes=len(lost),
        kinds=kinds[:_MOST_NAMED],
        more=max(0, len(kinds) - _MOST_NAMED),
    )


def kernel_note(pruned: Sequence[NodeGain]) -> Remark:
    """Whether pruned layers run on other kernels than before."""
    other = [gain for gain in pruned if gain.kernel_before != gain.kernel_after]
    names = list(dict.fromkeys(gain.kernel_after for gain in other))
    return remark("quantize.kernels", pruned=len(pruned), other=len(other), kernels=names)


def io_type_notes(work: VariantStore) -> list[Remark]:
    """Which types the variants have, which recipes were left out for them, and which inputs and outputs keep theirs."""
    asked = work.settings.io_types
    if asked.is_float:
        return []
    notes = [remark("search.io-types", types=asked.describe(), left_out=list(work.settings.left_out))]
    for end, dtype, forms in _ends(work):
        own = [form for form in forms if form.dtype not in (FLOAT, dtype)]
        notes += [remark("search.io-type-kept", end=end, name=one.name, dtype=one.dtype, wanted=dtype) for one in own]
    return notes


def types_still(work: VariantStore) -> list[Remark]:
    """The ends at which the original has other types than those asked for."""
    found = []
    for end, dtype, forms in _ends(work):
        others = sorted({form.dtype for form in forms} - {dtype})
        if others:
            found.append(remark("search.types-still", ends=f"{end}s", dtypes=others, wanted=dtype))
    return found


def _ends(work: VariantStore) -> list[tuple[str, str, tuple[TensorForm, ...]]]:
    """The ends for which a type was asked: its name, that type, and what the original has there."""
    forms, asked = forms_from_graph(work.graph, work.candidate.workload), work.settings.io_types
    ends = (("input", asked.input_type, forms.inputs), ("output", asked.output_type, forms.outputs))
    return [end for end in ends if end[1] != FLOAT]


# Where the parts of a search begin and end, as its steps name them: making and judging the recipes, timing, looking for
# mixes, the other part of the data.
_PARTS: Final = (0.0, 0.5, 0.7, 0.9, 1.0)
# The same on the bar. Where mixes are looked for, that may take longer than all the rest.
_WITH_MIXES: Final = (0.0, 0.3, 0.5, 0.9, 1.0)
_WITHOUT: Final = (0.0, 0.5, 0.85, 0.9, 1.0)
# A step whose part has an unknown number of them covers this share of what is left of the part: none ever fills it.
_OF_THE_REST: Final = 0.04
_TIMING_OF_THE_REST: Final = 0.5


class ProgressPlan:
    """Where the bar of a search stands: it moves with each step, though nobody knows how many the search for a mix will
    take. It never goes back, and is full at the end only."""

    def __init__(self, *, mixes: bool) -> None:
        self._ends = _WITH_MIXES if mixes else _WITHOUT
        self._place = 0.0

    def step(self, share: float) -> float:
        """A further step, of which is known that it lies there or later."""
        place = float(np.interp(share, _PARTS, self._ends))
        self._place = place if place > self._place else self._place + _OF_THE_REST * (self._end() - self._place)
        return self._place

    def timing(self, begin: float, spent: float) -> float:
        """So large a part of the time that a race has at most is spent; it began at this place."""
        end = next((end for end in self._ends if end > begin), 1.0)
        self._place = max(self._place, begin + _TIMING_OF_THE_REST * (end - begin) * min(spent, 1.0))
        return self._place

    def _end(self) -> float:
        return next((end for end in self._ends if end > self._place), 1.0)

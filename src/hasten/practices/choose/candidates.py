"""The models that take part: built from the catalogue, or files of the user's, each in float and in int8.

A catalogue's model is built with random weights: that does not change its latency. Its accuracy is the published one,
with the weights that it belongs to; that of another precision or input size is never taken for it.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hasten.bundle.folder import is_bundle, read_bundle
from hasten.core.accuracy import Accuracy
from hasten.core.codec import checked_from_data, record
from hasten.core.errors import DataError, HastenError, UsageError
from hasten.core.plan import Plan
from hasten.core.remark import Remark, remark
from hasten.core.toml_file import read_toml
from hasten.data.preprocess import preprocess_from_text
from hasten.data.sources import open_dataset, random_dataset
from hasten.data.tensor_forms import forms_from_graph
from hasten.evaluate.fingerprint import data_fingerprint
from hasten.evaluate.split import CALIBRATION_SAMPLES, calibration_samples
from hasten.measure.opening import open_model
from hasten.model.cost import stored_shapes, total_macs
from hasten.practices.choose.facts import (
    DEFAULT_TASK,
    FLOAT,
    INT8,
    PRECISIONS,
    CatalogueFound,
    CatalogueRow,
    ModelRow,
    Origin,
    Source,
    Trouble,
)
from hasten.variants.already_quantized import AlreadyQuantizedError, refuse_quantized, weight_bytes_by_dtype
from hasten.variants.maker_process import VariantMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from hasten.core.plan import Workload
    from hasten.data.request import Data
    from hasten.measure.rounds import Candidate
    from hasten.model.graph import Graph
    from hasten.practices.choose.catalogue.entry import Entry, Published
    from hasten.practices.choose.facts import ChooseRequest

# Of the recipes, the one that all kernels compute in integers.
_RECIPE: Final = "static_int8"
_MODELS: Final = "*.tflite"
_DEFAULT_PLAN: Final = Plan()
_IMAGE_RANK: Final = 4
_COLORS: Final = (1, 3)
_LIST_HINT: Final = 'Begin each model with a line [[models]], followed by path = "mobilenet.tflite".'


@dataclass(frozen=True, slots=True)
class Contender:
    """A model that takes part: what is known of it, and the file with its plan."""

    row: ModelRow
    candidate: Candidate
    data: Data | None = None
    """What its accuracy is measured on, prepared as this model wants it; None where it is not to be measured."""

    @property
    def name(self) -> str:
        """The name of its row."""
        return self.row.name


class Ground(NamedTuple):
    """What published figures must share to be compared."""

    metric: str
    data: str


@record
class Listed:
    """A model of a list: the file, and how it wants its inputs."""

    path: str
    name: str = ""
    preprocess: str = ""
    label_offset: int = 0

    @property
    def model(self) -> str:
        """What the model is called."""
        return self.name or Path(self.path).stem


@dataclass(slots=True)
class Gathering:
    """Gathers the contenders; what cannot take part becomes a trouble, and hides nothing else."""

    request: ChooseRequest
    built: Path
    """Where models of the catalogue are built; nobody needs them afterwards."""
    made: Path
    """Where files are quantized to."""
    tell: Callable[[str], None]
    contenders: list[Contender] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    errors: list[HastenError] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    _folders: dict[Path, str] = field(default_factory=dict)
    """The folders of files that share their name with another one."""

    def run(self) -> list[Contender]:
        """All of them. A UsageError or the first trouble where there are none."""
        files, named = _sorted_out(self.request.candidates, trust_bundle=self.request.trust_bundle)
        if self.request.data.source and not files:
            raise UsageError(
                "--data needs trained models, and those of the catalogue have random weights.",
                "Name trained files with --candidates, or get some with hasten choose --get NAME.",
            )
        made = self.made.resolve()  # what an earlier run has made is not a candidate of its own
        files = [listed for listed in files if made not in Path(listed.path).resolve().parents]
        self._folders = _folders_of_namesakes(files)
        for listed in files:
            self._attempt(listed.path, partial(self._file, listed))
        entries = self._entries(named)
        ground = _common_ground(entries)
        for entry in entries:
            for precision in (one for one in PRECISIONS if one in self.request.precisions):
                self.tell(f"building {entry.name} {precision}")
                self._attempt(f"{entry.name} {precision}", partial(self._built, entry, precision, ground))
        if not self.contenders:
            if self.troubles:
                raise self.errors[0]
            raise UsageError("There is no model to choose from.", "Name files or folders with --candidates.")
        return self.contenders

    def _attempt(self, where: str, make: Callable[[], None]) -> None:
        try:
            make()
        except HastenError as error:
            self.errors.append(error)
            self.troubles.append(Trouble(where, error.message))

    def _entries(self, named: Sequence[str]) -> list[Entry]:
        """The models of the catalogue: those that are named, or the common ones of the task."""
        if not named and not self.request.with_catalogue:
            return []
        # Files alone need no catalogue.
        from hasten.practices.choose import catalogue

        files = [Path(path) for path in self.request.catalogue]
        known = {entry.name: entry for entry in catalogue.entries(None, files)}
        _refuse_unknown(named, known)
        task = self.request.task or DEFAULT_TASK
        of_task = catalogue.entries(task, files) if self.request.with_catalogue else ()
        chosen = [entry for entry in of_task if entry.family and (entry.common or self.request.every)]
        found = list({entry.name: entry for entry in (*(known[name] for name in named), *chosen)}.values())
        if not found:
            raise _no_models_for(task, known.values())
        return found

    def _built(self, entry: Entry, precision: str, ground: Ground) -> None:
        from hasten.practices.choose import catalogue

        path = catalogue.build(entry, precision, self.built)
        candidate, graph = open_model(path, self.request.plan or _DEFAULT_PLAN)
        # The file goes when the run ends; its name says which model it was.
        candidate = replace(candidate, model=replace(candidate.model, path=path.name))
        # Of the same model, the float one comes first.
        same = (one.row for one in self.contenders if one.row.model == entry.name)
        row = ModelRow(
            self._name(f"{entry.name} {precision}", f"catalogue/{entry.name} {precision}"),
            entry.name,
            precision,
            candidate.model.size_bytes,
            plan=candidate.plan,
            parameters=entry.parameters,
            macs=entry.macs or total_macs(graph),
            locations=tuple(source.location for source in entry.weights if source.precision == precision),
            reference=next((one.name for one in same if one.origin is Origin.CATALOGUE), ""),
        )
        self._add(Contender(_with_published(row, entry, ground), candidate))

    def _file(self, listed: Listed) -> None:
        path = Path(listed.path)
        candidate, graph = open_model(path, self.request.plan or _DEFAULT_PLAN, self.request.workload)
        row = ModelRow(
            "",
            listed.model,
            precision_of(graph),
            candidate.model.size_bytes,
            Origin.FILE,
            str(path),
            candidate.plan,
            macs=total_macs(graph, stored_shapes(graph.main)),
        )
        if any(known.candidate.model.sha256 == candidate.model.sha256 for known in self.contenders):
            self.notes.append(remark("choose.same-file", path=str(path)))
            return
        contender = self._add(Contender(self._named(row, candidate), candidate, self._data(listed)))
        # The model in use is what it is: other variants of it are the search's.
        if INT8 in self.request.precisions and row.precision == FLOAT and str(path) != self.request.own:
            self._quantized(contender, graph)

    def _data(self, listed: Listed) -> Data | None:
        """The user's data, prepared as the list says for this model."""
        data = self.request.data
        if not data.source:
            return None
        return replace(
            data, preprocess=listed.preprocess or data.preprocess, label_offset=listed.label_offset or data.label_offset
        )

    def _named(self, row: ModelRow, original: Candidate) -> ModelRow:
        """The row with a name of its own: of files of one name, each with its folder, or else with the content."""
        name = f"{row.model} {row.precision}"
        folder = self._folders.get(original.path.resolve(), "")
        names = (f"{folder}/{name}",) if folder else (name, f"{original.path.parent.name}/{name}")
        return replace(row, name=self._name(*names, f"{name} {original.model.sha256[:8]}"))

    def _name(self, *names: str) -> str:
        """The first of these names that no other contender has."""
        taken = {contender.name for contender in self.contenders}
        return next((name for name in names if name not in taken), names[-1])

    def _add(self, contender: Contender) -> Contender:
        added = replace(contender, candidate=replace(contender.candidate, label=contender.name))
        self.contenders.append(added)
        return added

    def _quantized(self, contender: Contender, graph: Graph) -> None:
        """The same model in int8, by the quantizer; a note where that is not installed."""
        # What it is made of is in the name: a file of an earlier run is of this very model and calibration.
        original = contender.candidate
        made_of = f"{original.model.sha256[:8]}_{self._calibrated_on(contender)}"
        out = self.made / f"{original.path.stem}_{INT8}_{made_of}.tflite"
        try:
            refuse_quantized(graph)
        except AlreadyQuantizedError:
            return
        try:
            if not out.is_file():
                self._quantize(contender, graph, out)
        except UsageError as error:  # what makes variants is not installed
            missing = remark("choose.no-quantizer", message=error.message, hint=error.hint)
            self.notes += [] if missing in self.notes else [missing]
            return
        except (HastenError, MemoryError) as error:
            told = error.message if isinstance(error, HastenError) else "There is not enough memory to quantize it."
            self.troubles.append(Trouble(f"{contender.row.model} {INT8}", told))
            return
        candidate, _ = open_model(out, original.plan, self.request.workload)
        row = replace(
            contender.row,
            precision=INT8,
            size_bytes=candidate.model.size_bytes,
            origin=Origin.MADE,
            path=str(out),
            reference=contender.name,
        )
        self._add(Contender(self._named(row, original), candidate, contender.data))

    def _quantize(self, contender: Contender, graph: Graph, out: Path) -> None:
        """Make the file under another name first: an interruption leaves no half of a model."""
        self.tell(f"quantizing {contender.row.model}")
        making = out.with_name(f".{out.name}")
        maker = VariantMaker(contender.candidate.path, contender.candidate.workload.signature)
        try:
            maker.make(_RECIPE, making, self._calibration(contender, graph))
            making.replace(out)
        finally:
            maker.close()
            making.unlink(missing_ok=True)

    def _calibrated_on(self, contender: Contender) -> str:
        """What tells the samples of one calibration from those of another: ranges of noise do not suit images."""
        if (data := contender.data) is None:
            return "noise"
        source = data.calibration or data.source
        asked = (source, data_fingerprint(open_dataset(source)), data.preprocess, data.skip_bad)
        return hashlib.sha256(repr(asked).encode()).hexdigest()[:8]

    def _calibration(self, contender: Contender, graph: Graph) -> list[dict[str, Any]]:
        workload, data = contender.candidate.workload, contender.data
        if data is None:
            dataset = random_dataset(forms_from_graph(graph, workload).inputs)
        else:
            dataset = open_dataset(data.calibration or data.source)
        preprocess = preprocess_from_text("" if data is None else data.preprocess)
        skip_bad = data is not None and data.skip_bad
        found, _ = calibration_samples(
            graph, workload, dataset, preprocess, limit=CALIBRATION_SAMPLES, skip_bad=skip_bad
        )
        return found


def precision_of(graph: Graph) -> str:
    """The type of most weights."""
    return next(iter(weight_bytes_by_dtype(graph)), FLOAT)


def task_of(graph: Graph, workload: Workload) -> str:
    """The task of the catalogue that a model may be for, by its inputs and outputs; empty where that is not seen."""
    forms = forms_from_graph(graph, workload)
    first, answer = forms.inputs[0] if forms.inputs else None, forms.outputs[0] if forms.outputs else None
    if first is None or answer is None or len(forms.inputs) > 1:
        return ""
    is_image = len(first.shape) == _IMAGE_RANK and first.shape[-1] in _COLORS
    is_class = answer.elements > 1 and len([side for side in answer.shape if side > 1]) == 1
    return DEFAULT_TASK if is_image and is_class else ""


def on_plan(contender: Contender, **plan: Any) -> Contender:
    """The same model with another plan."""
    changed = replace(contender.candidate.plan, **plan)
    return replace(
        contender, row=replace(contender.row, plan=changed), candidate=replace(contender.candidate, plan=changed)
    )


def files_of(text: str, *, trust_bundle: bool = False) -> list[Listed] | None:
    """The files that a candidate names: itself, or those of a folder, bundle or list. None where nothing is there."""
    path = Path(text)
    if is_bundle(path):
        bundle = read_bundle(path, trust_bundle=trust_bundle)
        name = path.resolve().name
        return [Listed(str(bundle.model_path), name, bundle.preprocess, bundle.label_offset)]
    if path.is_dir():
        found = sorted(path.rglob(_MODELS))
        if not found:
            raise UsageError(f"The folder {path} holds no .tflite file.", "Name the files, or another folder.")
        return [Listed(str(one)) for one in found]
    if path.suffix.lower() == ".toml" and path.is_file():
        return _list_from_file(path)
    if path.exists():
        return [Listed(text)]
    if path.suffix.lower() in (".tflite", ".toml") or path.parent != Path():
        raise UsageError(f"There is no file {path}.", "Check the path.")
    return None


def _sorted_out(candidates: Iterable[str], *, trust_bundle: bool) -> tuple[list[Listed], list[str]]:
    """Files, and names that only the catalogue can have."""
    files: list[Listed] = []
    names: list[str] = []
    for text in candidates:
        found = files_of(text, trust_bundle=trust_bundle)
        if found is None:
            names.append(text)
        else:
            files += found
    return list({listed.path: listed for listed in files}.values()), names


def _folders_of_namesakes(files: Sequence[Listed]) -> dict[Path, str]:
    """The folders of files that share their name with another one: as many of them as tell all of these apart."""
    alike: dict[str, list[Path]] = {}
    for listed in files:
        paths, path = alike.setdefault(listed.model, []), Path(listed.path).resolve()
        if path not in paths:
            paths.append(path)
    found: dict[Path, str] = {}
    for paths in (paths for paths in alike.values() if len(paths) > 1):
        deepest = max(len(path.parent.parts) for path in paths)
        for depth in range(1, deepest + 1):
            folders = [str(Path(*path.parent.parts[-depth:])) for path in paths]
            if len(set(folders)) == len({path.parent for path in paths}):
                break
        found |= dict(zip(paths, folders, strict=True))
    return found


def refuse_missing(candidates: Sequence[str]) -> None:
    """Raise where a candidate is neither a file nor a name of the catalogue: before long work that comes first."""
    _, named = _sorted_out(candidates, trust_bundle=False)
    if named:
        from hasten.practices.choose import catalogue

        _refuse_unknown(named, {entry.name for entry in catalogue.entries(None, [])})


def _refuse_unknown(named: Sequence[str], known: Container[str]) -> None:
    if unknown := [name for name in named if name not in known]:
        raise UsageError(
            f"There is no file and no model of the catalogue called {unknown[0]!r}.",
            "Check the path, or list the catalogue with hasten choose --list.",
        )


def _list_from_file(path: Path) -> list[Listed]:
    """Models with how each wants its inputs. Paths in it are relative to the list."""
    content = read_toml(path, "list of models")
    known = {item.name for item in fields(Listed)}
    if "models" not in content:
        raise DataError(f"{path} lists no models.", _LIST_HINT)
    try:
        found = [checked_from_data(Listed, entry) for entry in content["models"]]
        unknown = sorted({name for entry in content["models"] for name in entry} - known)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a list of models: {error}.", _LIST_HINT) from None
    if unknown:
        raise DataError(f"{path}: A model has no {unknown[0]!r}.", f"Known names: {', '.join(sorted(known))}.")
    try:
        for listed in found:
            preprocess_from_text(listed.preprocess)
    except UsageError as error:  # a mistake in it is one of the list
        raise DataError(f"{path}: {error.message}", error.hint) from None
    return [replace(listed, path=str(path.parent / listed.path)) for listed in found]


def listed_catalogue(task: str, files: Sequence[Path]) -> CatalogueFound:
    """The models of the catalogue, for a task or all."""
    from hasten.practices.choose import catalogue

    entries = catalogue.entries(task or None, files)
    if not entries:
        raise _no_models_for(task, catalogue.entries(None, files))
    metrics = {entry.task: _common_ground(one for one in entries if one.task == entry.task).metric for entry in entries}
    return CatalogueFound(tuple(_listed(entry, metrics[entry.task]) for entry in entries))


def _no_models_for(task: str, entries: Iterable[Entry]) -> UsageError:
    tasks = sorted({entry.task for entry in entries})
    return UsageError(f"The catalogue has no models for {task!r}.", f"Use one of: {', '.join(tasks)}.")


def _listed(entry: Entry, metric: str) -> CatalogueRow:
    found = {precision: entry.published(precision, metric) for precision in PRECISIONS}
    return CatalogueRow(
        entry.name,
        entry.task,
        entry.input_size,
        entry.parameters,
        entry.macs,
        {precision: _as_accuracy(several[0]) for precision, several in found.items() if several},
        tuple(one.location for one in entry.weights),
        entry.common,
    )


def _as_accuracy(published: Published) -> Accuracy:
    return Accuracy(published.metric, published.value, -math.inf, math.inf, 0, published.data)


def _with_published(row: ModelRow, entry: Entry, ground: Ground) -> ModelRow:
    """The row with its published accuracy, if there is one that can be compared with the others'."""
    best = next((one for one in entry.published(row.precision, ground.metric) if one.data == ground.data), None)
    if best is None:
        return row
    return replace(
        row,
        accuracy=_as_accuracy(best),
        accuracy_source=Source.PUBLISHED,
        weights=best.weights,
        cited=best.source,
        license=best.license,
    )


def _common_ground(entries: Iterable[Entry]) -> Ground:
    """What most models are published with first: only figures of one metric and data set can be compared."""
    counts = Counter(Ground(one.metric, one.data) for entry in entries for one in entry.accuracies[:1])
    return counts.most_common(1)[0][0] if counts else Ground("", "")

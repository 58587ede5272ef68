"""The archive: its files are made and listed first, and written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hasten.core.codec import from_data, to_data
from hasten.core.errors import DataError, UsageError
from hasten.core.machine import machine_facts
from hasten.core.printable import cell_text
from hasten.core.remark import Remark, remark
from hasten.core.version import VERSION
from hasten.core.whole_file import whole_file
from hasten.model.reader import read_graph
from hasten.practices.help.facts import BundleEntry, IssueBundle, ModelFound
from hasten.practices.help.issue.document import issue_text
from hasten.practices.help.issue.private import FILE, custom_names, file_names, own_names, shared_model
from hasten.practices.help.issue.reproduce import commands, script
from hasten.practices.help.issue.scrub import identity_scrubber, with_names
from hasten.practices.help.model_view import document

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.graph import Graph
    from hasten.practices.help.issue.scrub import Scrubber

SMALLEST: Final = "smallest.tflite"
# A date for all files, so that the same findings give the same bytes; archives know none before 1980.
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_READABLE: Final = 0o644


@dataclass(frozen=True, slots=True)
class IssueFiles:
    """What will be in the archive, and the text for each file that says what it holds."""

    files: dict[str, bytes]
    what: dict[str, Remark]
    private: bool

    def listed(self, path: Path) -> IssueBundle:
        """What will be written where."""
        entries = [BundleEntry(name, len(content), self.what[name]) for name, content in self.files.items()]
        return IssueBundle(str(path), tuple(entries), self.private)

    def write(self, path: Path, *, replace: bool = False) -> None:
        """Write the archive; a file that is there stays unless it may be replaced."""
        try:
            with whole_file(path, replace=replace) as stream, zipfile.ZipFile(stream, "w") as archive:
                for name, content in self.files.items():
                    entry = zipfile.ZipInfo(name, _DATE)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = _READABLE << 16
                    archive.writestr(entry, content)
        except FileExistsError:
            raise UsageError(f"{path} already exists.", "Choose another name.") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(f"{path} cannot be written: {reason}.", "Choose another folder.") from error


def issue_files(
    found: ModelFound, graph: Graph, smallest: Path | None, *, private: bool, device: str = ""
) -> IssueFiles:
    """All files of a bundle. With a smallest part, that part is in it and the whole model is not.

    `device` is the target's name, which may hold a user and a host.
    """
    identity = identity_scrubber(graph.path.parent, device=device)
    scrubber = with_names(identity, file_names(graph), {})
    if private:
        scrubber = with_names(identity, {**own_names(graph), **file_names(graph)}, custom_names(graph))
    source, name = (graph, FILE) if smallest is None else (read_graph(smallest), SMALLEST)
    model = shared_model(source.path, source, identity, private=private)
    clean = scrubbed(found, scrubber, private=private)
    what = "bundle.model" if smallest is None else "bundle.smallest"
    made: list[tuple[str, str | bytes, Remark]] = [
        ("issue.md", issue_text(clean, name, private=private), remark("bundle.issue")),
        (name, model, remark(what, private=private)),
        ("commands.txt", "\n".join(commands(clean, name)) + "\n", remark("bundle.commands")),
        # A program of fixed words: a user who is called like one of them must not change it.
        ("reproduce.py", script(clean, name).encode(), remark("bundle.script")),
        ("doctor.json", _json(document(clean)), remark("bundle.document")),
        ("environment.json", _json(_environment(clean)), remark("bundle.environment")),
        ("operators.csv", operators_csv(clean, graph, scrubber), remark("bundle.operators")),
        ("log.txt", "\n".join(() if clean.failure is None else clean.failure.log), remark("bundle.log")),
    ]
    kept = [(file, content, told) for file, content, told in made if content]
    files = {file: _bytes(content, identity) for file, content, _ in kept}
    return IssueFiles(files, {file: told for file, _, told in kept}, private)


def scrubbed(found: ModelFound, scrubber: Scrubber, *, private: bool) -> ModelFound:
    """The findings without paths, users and hosts; of a private model without its names and its fingerprint."""
    data = scrubber.data(to_data(found))
    data["model"]["path"] = FILE
    data["bundle"] = None
    if private:
        data["model"]["sha256"] = ""
    for place in ("latency", "profile"):
        if data.get(place):
            data[place]["model"] = dict(data["model"])
    return from_data(ModelFound, data)


def operators_csv(found: ModelFound, graph: Graph, scrubber: Scrubber) -> str:
    """Each node with its time, its kernels, and what each delegate does with it."""
    timed = {} if found.profile is None else {row.index: row for row in found.profile.operators}
    refused = {fit.name: {node: row.why.code for row in fit.refusals for node in row.nodes} for fit in found.delegates}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["node", "operator", "version", "ms", "share", "kernels", *map(cell_text, refused)])
    labels = dict(scrubber.exact)
    for node in graph.main.nodes:
        row = timed.get(node.index)
        figures = ["", "", ""] if row is None else [f"{row.ms:.6f}", f"{row.share:.4f}", row.kernel]
        places = [codes.get(node.index, "taken") for codes in refused.values()]
        texts = [labels.get(node.label, node.label), str(node.version), *figures, *places]
        writer.writerow([node.index, *map(cell_text, texts)])
    return out.getvalue()


def _environment(found: ModelFound) -> dict[str, Any]:
    import numpy as np

    machine = {} if found.machine is None else machine_facts(found.machine)
    return {"hasten": VERSION, "numpy": np.__version__, "plan": found.plan.describe(), **machine}


def _json(data: dict[str, Any]) -> str:
    return json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def _bytes(content: str | bytes, identity: Scrubber) -> bytes:
    """A text goes through the scrubber once more, whatever made it; a model has been looked through before."""
    return content if isinstance(content, bytes) else identity.text(content).encode()

"""Damaged files: 1,000 sessions, 500 bundles and traces, cut off or with flipped bits, through the commands that read.

Wanted: each is read up to the damage, or refused with exit code 3 and a sentence that names it; none ends in a
traceback. Of a session, every line that is undamaged is read, and none that was not written. No file is changed, and
what is added to a damaged session is added behind it. (The 2,000 damaged models are those of `robust`.)
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import platform_traces
from benchmarks.common import ROOT, own_folder, record
from benchmarks.damage import damaged_bytes
from hasten import demo
from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.cli.main import main as hasten_main
from hasten.core.errors import HastenError
from hasten.core.session import SessionWriter, read_session

if TYPE_CHECKING:
    from collections.abc import Callable

    Tried = tuple[str, str]
    """What became of a file, and what is wrong with that; empty if nothing is."""

_SESSIONS: Final = ROOT / "tests" / "data" / "sessions"
_TRACES: Final = ROOT / "tests" / "data" / "platform_traces"
_TRACE_BYTES: Final = 50_000
_FORMS: Final = ("html", "md", "json")
COUNTS: Final = {"sessions": 1000, "bundles": 250, "traces": 250}


def try_session(number: int, folder: Path) -> Tried:
    """Report a damaged session, read it, and add a line to it."""
    whole = _session(number)
    path = folder / f"session_{number}.jsonl"
    path.write_bytes(damaged_bytes(number, whole))
    output = ("-o", str(folder / "report")) if (form := _FORMS[number % len(_FORMS)]) == "html" else ()
    outcome, problem = _command(path, "report", str(path), "--format", form, *output)
    return outcome, problem or _misread(path, whole) or _overwritten(path)


def try_bundle(number: int, folder: Path) -> Tried:
    """Run a bundle whose plan or, each third time, model is damaged."""
    bundle = folder / f"bundle_{number}"
    shutil.copytree(_bundle(), bundle)
    path = bundle / ("model.tflite" if number % 3 == 0 else "plan.json")
    path.write_bytes(damaged_bytes(number, path.read_bytes()))
    return _command(path, "bench", str(bundle), "--seconds", "0.1", "--time-limit", "10", "--json", named=bundle.name)


def try_trace(number: int, folder: Path) -> Tried:
    """Analyze a damaged trace of a platform's tool."""
    traces = _traces()
    source = traces[number % len(traces)]
    path = folder / f"{number}_{source.name}"
    path.write_bytes(damaged_bytes(number, source.read_bytes()))
    return _command(path, "app", "--from", str(path), "--json")


TRIES: Final[dict[str, Callable[[int, Path], Tried]]] = {
    "sessions": try_session,
    "bundles": try_bundle,
    "traces": try_trace,
}


def main() -> int:
    """All of them, or fewer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.damaged_files", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="the share of the files to try (default: all)")
    parser.add_argument("--only", nargs=2, metavar=("KIND", "N"), help="try file number N of a kind alone")
    arguments = parser.parse_args()
    if arguments.only:
        kind, number = arguments.only
        print(*tried(kind, int(number)))
        return 0
    figures: dict[str, Any] = {"problems": []}
    for kind, count in COUNTS.items():
        outcomes: collections.Counter[str] = collections.Counter()
        for number in range(round(count * arguments.share)):
            outcome, problem = tried(kind, number)
            outcomes[outcome] += 1
            if problem:
                figures["problems"].append(f"{kind} {number}: {problem}")
                print(figures["problems"][-1], flush=True)
        figures[kind] = {"tried": sum(outcomes.values()), **outcomes}
    return record("damaged_files", figures, passed=not figures["problems"], whole=arguments.share == 1)


def tried(kind: str, number: int) -> Tried:
    """What became of the file of this kind with this number."""
    with tempfile.TemporaryDirectory(prefix="hasten-damaged-") as folder:
        return TRIES[kind](number, Path(folder))


def _command(path: Path, *words: str, named: str = "") -> Tried:
    """Run a command on a damaged file."""
    before = path.read_bytes()
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = hasten_main(list(words))
    seen = output.getvalue() + errors.getvalue()
    outcome = {0: "read", 3: "refused"}.get(code, f"exit code {code}")
    if path.read_bytes() != before:
        return outcome, "the file was changed"
    if "Traceback" in seen or code not in (0, 3):
        return outcome, f"exit code {code}: {errors.getvalue()[:300]}"
    if code and (named or path.name) not in errors.getvalue():
        return outcome, f"a sentence that does not name the file: {errors.getvalue()[:300]}"
    if code == 0 and words[-1] in ("json", "--json"):
        json.loads(output.getvalue())
    return outcome, ""


def _misread(path: Path, whole: bytes) -> str:
    """Whether an undamaged line is missing, or a damaged one was taken for a measurement."""
    content = path.read_bytes()
    try:
        session = read_session(path)
    except HastenError:
        return "" if content.split(b"\n")[0] != whole.split(b"\n")[0] else "refused, although its first line is whole"
    lines = content.split(b"\n")
    written = [json.loads(line) for line in whole.split(b"\n")[1:] if line]
    known = {json.dumps(line["data"]) for line in written}
    read = {json.dumps(line.data) for line in session.lines}
    if read - known:
        return "a line was read that nobody wrote"
    intact = {json.dumps(json.loads(line)["data"]) for line in whole.split(b"\n")[1:] if line and line in lines}
    return "a line was lost that is whole" if intact - read else ""


def _overwritten(path: Path) -> str:
    before = path.read_bytes()
    with contextlib.suppress(HastenError), contextlib.closing(SessionWriter(path)) as writer:
        writer.add("note", "added", {"n": 1})
        if read_session(path).lines[-1].label != "added":
            return "what was added to a damaged session cannot be read"
    return "" if path.read_bytes().startswith(before) else "the session was overwritten"


@functools.cache
def _sessions() -> list[bytes]:
    """Sessions of all commands, as this release writes them."""
    found = []
    for source in sorted(_SESSIONS.glob("*.jsonl")):
        old = read_session(source)
        with tempfile.TemporaryDirectory(prefix="hasten-damaged-") as folder:
            path = Path(folder) / source.name
            with contextlib.closing(SessionWriter(path, old.header)) as writer:
                for line in old.lines:
                    writer.add(line.kind, line.label, line.data)
            found.append(path.read_bytes())
    return found


def _session(number: int) -> bytes:
    sessions = _sessions()
    return sessions[number // 2 % len(sessions)]


@functools.cache
def _bundle() -> Path:
    folder = own_folder()
    write_bundle(demo.MODEL, Bundle(folder / "bundle"))
    return folder / "bundle"


@functools.cache
def _traces() -> list[Path]:
    folder = own_folder()
    for name, pieces in platform_traces.FORMATS.items():
        platform_traces.write(folder / name, pieces(), _TRACE_BYTES)
    recorded = [path for path in _TRACES.iterdir() if path.suffix in (".json", ".txt")]
    return sorted([*recorded, *folder.iterdir()])


if __name__ == "__main__":
    sys.exit(main())

"""Run the commands of README.md and docs/tour.md and put what they print below them: `make readme`, on an idle machine.

Only commands that show an output there are run, in their order, in one new folder, as a reader would run them;
with arguments (`app quantize`), only those commands. The picture of the report is that of the tuning shown above it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from hasten import demo

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "tour.md")
PICTURE = ROOT / "docs" / "report.png"
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def main() -> int:
    """Renew every output; a command that fails ends the work and changes nothing."""
    texts = {document: document.read_text(encoding="utf-8") for document in DOCUMENTS}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for document, text in texts.items():
            texts[document] = _CONSOLE.sub(lambda match: f"```console\n{_renewed(match[1], Path(folder))}```", text)
        for document, text in texts.items():
            document.write_text(text, encoding="utf-8")
        return renew_picture(Path(folder))


def renew_picture(folder: Path) -> int:
    """Take the picture of the report that the README's tuning has written; nothing where it was not run."""
    report = folder / "tuned" / "report.html"
    if not report.is_file():
        return 0
    command = [sys.executable, str(ROOT / "scripts" / "report_picture.py"), str(report), str(PICTURE)]
    return subprocess.run(command, check=False).returncode


def prepare(folder: Path) -> None:
    """What the reader has at hand: the program of the example, and a picture."""
    (folder / "app.py").write_bytes((ROOT / "docs" / "app.py").read_bytes())
    with np.load(demo.DATA) as data:
        np.save(folder / "image.npy", data["x"][:1].astype(np.float32))


def _renewed(console: str, folder: Path) -> str:
    lines = console.splitlines()
    commands = [line for line in lines if line.startswith("$ ")]
    shows_output = len(lines) > len(commands)
    if (asked := sys.argv[1:]) and not any(command.split()[2] in asked for command in commands):
        return console
    return "".join(
        f"{command}\n{_output(command.removeprefix('$ '), folder) if shows_output else ''}" for command in commands
    )


def _output(command: str, folder: Path) -> str:
    print(f"$ {command}", flush=True)
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    # The command as the reader gives it: a tuning repeats it in its report.
    program = f"import sys; sys.argv = {words!r}; from hasten.cli.start import entry_point; entry_point()"
    # Of a watched program, standard output is its own, and hasten's words are on standard error.
    is_watched = words[1] == "app"
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if is_watched else None,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise SystemExit(f"{command} ended with {finished.returncode}")
    lines = [line for line in finished.stdout.splitlines() if not line.startswith(("hasten: ", "INFO: "))]
    return "\n".join(lines).replace(sys.executable, "python") + "\n"


if __name__ == "__main__":
    sys.exit(main())

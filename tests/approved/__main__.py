"""Write all approved outputs anew: `make approve`. `git diff` then shows what changed; a commit approves it."""

from __future__ import annotations

from tests.approved.cases import FOLDER, cases

FOLDER.mkdir(exist_ok=True)
wanted = {name: f"{make()}\n" for name, make in cases().items()}
for path in FOLDER.iterdir():
    if path.name not in wanted:
        path.unlink()
for name, text in wanted.items():
    (FOLDER / name).write_text(text, encoding="utf-8")
print(f"{len(wanted)} outputs in {FOLDER.name}/; see git diff")

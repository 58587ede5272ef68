"""What a stranger sends: no command runs code of it, or touches files outside, unless the user says so."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from commandline import QUICK, hasten

from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.core.plan import Plan
from hasten.demo import MODEL

if TYPE_CHECKING:
    from pathlib import Path

# Each command that takes a bundle; BUNDLE stands for it.
COMMANDS = [
    ("bench", "BUNDLE", *QUICK),
    ("bench", "BUNDLE@threads=2", *QUICK),
    ("compare", "BUNDLE", "demo", *QUICK),
    ("compare", "demo", "BUNDLE", *QUICK),
    ("run", "BUNDLE", "--input", "x.npy"),
    ("check", "BUNDLE", "--limit", "latency=1 s", *QUICK),
    ("check", "demo", "--baseline-model", "BUNDLE", *QUICK),
    ("profile", "BUNDLE", *QUICK),
    ("trace", "BUNDLE", "-o", "trace.json", *QUICK),
    ("threads", "BUNDLE", *QUICK),
    ("copies", "BUNDLE", *QUICK),
    ("accelerators", "BUNDLE", *QUICK),
    ("quantize", "BUNDLE", "-o", "quantized", *QUICK),
    ("tune", "BUNDLE", "-o", "tuned", "--budget", "1s"),
    ("operators", "BUNDLE", *QUICK),
    ("doctor", "BUNDLE", *QUICK),
    ("doctor", "demo", "--against", "BUNDLE@threads=2", *QUICK),
    ("retrain", "BUNDLE", "-o", "new.tflite", "--data", "demo"),
    ("diff", "BUNDLE", "demo"),
    ("diff", "demo", "BUNDLE"),
    ("choose", "--candidates", "BUNDLE", *QUICK),
]
# A library that leaves a mark as soon as it is loaded, before anybody calls it.
MARKING = """
#include <stdio.h>
__attribute__((constructor)) static void mark(void) { fclose(fopen("%s", "w")); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "evil.c").write_text(MARKING % (folder / "was_loaded"))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "evil.so", folder / "evil.c"], check=True)
    return folder / "evil.so"


@pytest.fixture
def bundle(tmp_path: Path, library: Path) -> Path:
    folder = tmp_path / "bundle"
    write_bundle(MODEL, Bundle(folder))
    shutil.copy(library, folder)
    content = json.loads((folder / "plan.json").read_text())
    content["plan"]["delegate"] = "evil.so"
    (folder / "plan.json").write_text(json.dumps(content))
    np.save(tmp_path / "x.npy", np.zeros((1, 96, 96, 1), np.float32))
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_loads_the_library_of_a_bundle(
    bundle: Path, library: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    shown = hasten(*(word.replace("BUNDLE", str(bundle)) for word in command), cwd=tmp_path)
    assert shown.code == 3, shown.errors
    assert hashlib.sha256(library.read_bytes()).hexdigest() in shown.errors
    assert "--trust-bundle" in shown.errors
    assert not library.with_name("was_loaded").exists()


@pytest.mark.parametrize("command", ["operators", "quantize", "choose"])
def test_no_command_writes_through_a_link_in_its_folder(tmp_path: Path, command: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").touch()
    (tmp_path / "out" / "session.jsonl").symlink_to(tmp_path / "precious")
    model = ("--candidates", "demo") if command == "choose" else ("demo",)
    shown = hasten(command, *model, *QUICK, "-o", "out", cwd=tmp_path)
    assert shown.code == 3, shown.errors
    assert "symbolic link" in shown.errors
    assert not (tmp_path / "precious").stat().st_size


def test_with_trust_the_library_is_named_and_loaded(bundle: Path, library: Path) -> None:
    shown = hasten("bench", bundle, *QUICK, "--trust-bundle")
    mark = library.with_name("was_loaded")
    assert mark.exists(), "the test itself is void if loading leaves no mark"
    mark.unlink()
    assert shown.code == 4, "it is no delegate, which is seen once it is loaded"
    assert hashlib.sha256(library.read_bytes()).hexdigest() in shown.errors


def test_a_bundle_of_ones_own_with_a_delegate_runs_with_trust(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    hasten("accelerators", "--new-delegate", "mine", cwd=tmp_path)
    library, source = tmp_path / "mine" / "libmydelegate.so", tmp_path / "mine" / "delegate.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    folder = write_bundle(MODEL, Bundle(tmp_path / "tuned", plan=Plan(delegate=str(library)))).folder
    assert hasten("bench", folder, *QUICK).code == 3
    shown = hasten("bench", folder, *QUICK, "--trust-bundle", "--json")
    assert shown.code == 0, shown.errors
    assert shown.json()["plan"]["delegate"] == str(library)

"""What is asked for counts more than what a bundle or a file of limits says, and takes nothing else from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hasten import api
from hasten.bundle.folder import write_bundle
from hasten.bundle.record import Bundle
from hasten.cli import main
from hasten.core.errors import UsageError
from hasten.core.plan import Plan, Workload
from hasten.demo import MODEL
from hasten.gate.request import CheckRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Asked = Callable[..., tuple[Plan, Workload]]

OWN = Plan("gpu", 4, "builtin", "fp16", options=(("cpu.flags", "1"),))


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    workload = Workload("serve", (("image", (1, 28, 28)),))
    return str(write_bundle(MODEL, Bundle(tmp_path / "tuned", plan=OWN, workload=workload)).folder)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The plan and the workload that a command line comes to."""

    def of_command(command: str, *words: str) -> tuple[Plan, Workload]:
        seen: list[tuple[Any, ...]] = []

        def measure(*arguments: Any, **_: Any) -> None:
            seen.append(arguments)
            raise UsageError("It is only seen what was asked for.")

        monkeypatch.setattr(api, command, measure)
        assert main.main([command, *words]) == 2
        ((_, what, *rest),) = seen
        return (what.plan, what.workload) if isinstance(what, CheckRequest) else (what, rest[0])

    return of_command


@pytest.mark.parametrize("command", ["bench", "threads", "check"])
@pytest.mark.parametrize(
    ("words", "plan"),
    [
        ((), OWN),
        (("--threads", "1"), replace(OWN, threads=1)),
        (("--kernel", "delegate"), replace(OWN, kernel="delegate")),
        (("--accelerator", "cpu", "--precision", "default"), replace(OWN, accelerator="cpu", precision="default")),
        (("--threads", "2", "--option", "cpu.flags=2"), replace(OWN, threads=2, options=(("cpu.flags", "2"),))),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_counts_more_than_the_bundle_also_if_it_is_the_default(
    bundle: str, asked: Asked, command: str, words: tuple[str, ...], plan: Plan
) -> None:
    limits = ("--limit", "latency=5ms") if command == "check" else ()
    assert asked(command, bundle, *words, *limits)[0] == plan


def test_a_file_of_limits_counts_more_than_the_bundle_and_less_than_an_option(
    bundle: str, asked: Asked, tmp_path: Path
) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('[limits]\nlatency = "5 ms"\n[plan]\nthreads = 1\nkernel = "delegate"\n')
    assert asked("check", bundle, "--limits", str(file))[0] == replace(OWN, threads=1, kernel="delegate")
    three = asked("check", bundle, "--limits", str(file), "--threads", "3")[0]
    assert three == replace(OWN, threads=3, kernel="delegate")
    assert asked("check", str(MODEL), "--limits", str(file), "--threads", "3")[0] == Plan(threads=3)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("", ("mean=1,std=2", 1)),
        ('preprocess = "raw"\nlabel_offset = 0\n', ("raw", 0)),
        ("label_offset = 2\n", ("mean=1,std=2", 2)),
    ],
)
def test_a_file_of_limits_says_how_data_are_fed_also_if_that_is_the_default(
    section: str, expected: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write_bundle(MODEL, Bundle(tmp_path / "tuned", preprocess="mean=1,std=2", label_offset=1))
    file = tmp_path / "limits.toml"
    file.write_text(f'[limits]\nlatency = "5 ms"\n[data]\n{section}')
    seen: list[CheckRequest] = []

    def check(_: object, what: CheckRequest, *rest: object, **options: object) -> None:
        seen.append(what)
        raise UsageError("It is only seen what was asked for.")

    monkeypatch.setattr(api, "check", check)
    assert main.main(["check", str(bundle.folder), "--limits", str(file)]) == 2
    assert [(one.data.preprocess, one.data.label_offset) for one in seen] == [expected]


@pytest.mark.parametrize("command", ["bench", "check"])
@pytest.mark.parametrize(
    ("words", "workload"),
    [
        ((), Workload("serve", (("image", (1, 28, 28)),))),
        (("--shape", "image=2x28x28"), Workload("serve", (("image", (2, 28, 28)),))),
        (("--shape", "mask=1x8"), Workload("serve", (("image", (1, 28, 28)), ("mask", (1, 8))))),
        (("--signature", "train"), Workload("train")),
        (("--signature", "train", "--shape", "x=1x8"), Workload("train", (("x", (1, 8)),))),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_shape_keeps_the_signature_of_the_bundle(
    bundle: str, asked: Asked, command: str, words: tuple[str, ...], workload: Workload
) -> None:
    limits = ("--limit", "latency=5ms") if command == "check" else ()
    assert asked(command, bundle, *words, *limits)[1] == workload


def test_a_shape_keeps_the_signature_of_the_file_of_limits(bundle: str, asked: Asked, tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text('[limits]\nlatency = "5 ms"\n[workload]\nsignature = "train"\n')
    assert asked("check", str(MODEL), "--limits", str(file), "--shape", "x=1x8")[1] == Workload(
        "train", (("x", (1, 8)),)
    )
    file.write_text('[limits]\nlatency = "5 ms"\n[workload]\nshapes = {image = [3, 28, 28]}\n')
    assert asked("check", bundle, "--limits", str(file))[1] == Workload("serve", (("image", (3, 28, 28)),))


@pytest.mark.parametrize(
    ("words", "of_bundle", "of_model"),
    [
        ((), OWN, Plan()),
        (("--threads", "2"), replace(OWN, threads=2), Plan(threads=2)),
        (("--kernel", "reference"), replace(OWN, kernel="reference"), Plan(kernel="reference")),
        (("--accelerator", "npu"), OWN, Plan()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_doctor_compares_with_the_plan_of_a_bundle(
    monkeypatch: pytest.MonkeyPatch, bundle: str, words: tuple[str, ...], of_bundle: Plan, of_model: Plan
) -> None:
    seen: list[Plan] = []

    def examine(*_: Any, options: api.DoctorOptions, **__: Any) -> None:
        assert options.against is not None
        seen.append(options.against[1])
        raise UsageError("It is only seen what was asked for.")

    monkeypatch.setattr(api, "doctor_model", examine)
    for against in (bundle, str(MODEL), f"{bundle}@threads=3"):
        assert main.main(["doctor", str(MODEL), "--minimize", "wrong", "--against", against, *words]) == 2
    assert seen == [of_bundle, of_model, replace(of_bundle, threads=3)]

"""The memory of a container is its limit, not that of the machine below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hasten.runner import memory
from hasten.runner.memory import ContainerMemory, container_memory

if TYPE_CHECKING:
    from pathlib import Path

MB = 2**20


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def test_version_2_with_a_limit_further_up(tmp_path: Path, membership: Path) -> None:
    membership.write_text("0::/slice/app\n")
    write(tmp_path / "groups/slice/app", memory__max="max", memory__current=90 * MB)
    write(tmp_path / "groups/slice", memory__max=512 * MB, memory__current=300 * MB, memory__stat="inactive_file 0")
    assert container_memory(tmp_path / "groups", membership) == ContainerMemory(512 * MB, 212 * MB)


def test_version_1_without_what_is_only_cached(tmp_path: Path, membership: Path) -> None:
    membership.write_text("5:cpu:/\n4:memory:/job\n0::/\n")
    write(
        tmp_path / "groups/memory/job",
        memory__limit_in_bytes=256 * MB,
        memory__usage_in_bytes=200 * MB,
        memory__stat=f"cache 1\ntotal_inactive_file {50 * MB}",
    )
    assert container_memory(tmp_path / "groups", membership) == ContainerMemory(256 * MB, 106 * MB)


def test_a_container_that_sees_the_path_of_its_host(tmp_path: Path, membership: Path) -> None:
    membership.write_text("4:memory:/docker/0123\n")
    write(tmp_path / "groups/memory", memory__limit_in_bytes=128 * MB, memory__usage_in_bytes=28 * MB)
    assert container_memory(tmp_path / "groups", membership) == ContainerMemory(128 * MB, 100 * MB)


def test_no_limit_and_no_groups(tmp_path: Path, membership: Path) -> None:
    assert container_memory(tmp_path / "groups", membership) == ContainerMemory()
    membership.write_text("nonsense\n0::/\n")
    assert container_memory(tmp_path / "groups", membership) == ContainerMemory()


def test_the_limit_is_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "container_memory", lambda: ContainerMemory(64 * MB, 32 * MB))
    assert memory.memory_bytes() == 64 * MB

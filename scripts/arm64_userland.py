"""Make a small ARM64 system in a folder, with Python and LiteRT, which qemu-user and proot run on any Linux machine.

    python -m scripts.arm64_userland FOLDER

It needs no root and no binfmt: packages are fetched by an apt configuration of their own and unpacked, not installed.
The host needs apt, dpkg-deb, pip, qemu-aarch64-static and proot (Debian: qemu-user-static proot). The folder is made
whole or not at all, in about 15 seconds, and takes some 200 MB; one that is there is left as it is.

It looks like a Raspberry Pi 4 to programs. Latencies there say nothing about a real one: what is real is the code.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

LITERT: Final = "2.3.0"
VERSION: Final = f"1-litert-{LITERT}"
"""A folder of another version is of no use."""
PROGRAMS: Final = ("apt-get", "dpkg-deb", "qemu-aarch64-static", "proot")
_PACKAGES: Final = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "busybox")
_APPLETS: Final = ("sh", "cat", "mkdir", "mv", "rm", "ls", "ps", "echo", "env", "sleep", "true", "uname", "kill")
_PLATFORMS: Final = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
# What LiteRT's Python classes import, which hasten's runner uses for some models.
_MODULES: Final = ("numpy", "flatbuffers", "ml_dtypes", "typing-extensions", "backports.strenum", "tqdm", "protobuf")
# As a Raspberry Pi 4 has it. LiteRT dies where it finds an x86 machine's list, and leaves XNNPACK out without /sys.
_CORE: Final = """\
processor	: {number}
BogoMIPS	: 108.00
Features	: fp asimd evtstrm crc32 cpuid
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x0
CPU part	: 0xd08
CPU revision	: 3

"""
_BOARD: Final = "Hardware	: BCM2835\nRevision	: c03112\nModel		: Raspberry Pi 4 Model B Rev 1.2\n"


def main() -> int:
    """Make the folder that the command line names."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    folder = Path(sys.argv[1])
    if lacking := missing_programs():
        print(f"Missing here: {', '.join(lacking)}. Install them: apt-get install qemu-user-static proot")
        return 4
    print("there already" if is_made(folder) else "making it")
    make_userland(folder)
    print(" ".join(enter_command(folder, "/usr/bin/python3", "-c", "'import platform; print(platform.machine())'")))
    return 0


def missing_programs() -> list[str]:
    """What this machine lacks to make and to enter a userland."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def is_made(folder: Path) -> bool:
    """Whether the folder is there, and of this version."""
    try:
        return (folder / "version").read_text() == VERSION
    except OSError:
        return False


def make_userland(folder: Path) -> None:
    """Make the folder, unless it is there. Where several want it at once, the first makes it."""
    if is_made(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made(folder):
            _make(folder)


def _make(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".arm64-", dir=folder.parent) as work:
        made = Path(work) / "made"
        root = made / "root"
        root.mkdir(parents=True)
        _unpack(_fetch(Path(work)), root)
        _furnish(root)
        _install_litert(root)
        (made / "cpuinfo").write_text(cpu_info(os.cpu_count() or 1))
        (made / "version").write_text(VERSION)
        if folder.exists():
            folder.rename(Path(work) / "older")
        made.rename(folder)


def enter_command(folder: Path, *words: str) -> list[str]:
    """The command that runs a program in the userland; `environment` belongs to it."""
    binds = [("/proc", ""), ("/sys", ""), ("/dev", ""), (str(folder / "cpuinfo"), "/proc/cpuinfo")]
    bound = [word for host, there in binds for word in ("-b", f"{host}:{there}" if there else host)]
    return ["proot", "-q", "qemu-aarch64-static", "-r", str(folder / "root"), *bound, "-w", "/tmp", *words]


def environment() -> dict[str, str]:
    """The variables that qemu and proot need: a CPU of a Raspberry Pi 4, and no seccomp, which containers forbid."""
    return {"QEMU_CPU": "cortex-a72", "PROOT_NO_SECCOMP": "1"}


def cpu_info(cores: int) -> str:
    """What /proc/cpuinfo says there."""
    return "".join(_CORE.format(number=number) for number in range(cores)) + _BOARD


def _fetch(work: Path) -> list[Path]:
    """The packages with all that they need, by an apt that knows of nothing but arm64."""
    state, cache = work / "state", work / "cache"
    for folder in (state / "lists" / "partial", cache / "archives" / "partial"):
        folder.mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": "arm64",
        "APT::Sandbox::User": "root",
        "Dir::State": str(state),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache": str(cache),
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    _run("apt-get", *options, "-qq", "update")
    _run("apt-get", *options, "-qq", "-y", "--no-install-recommends", "--download-only", "install", *_PACKAGES)
    return sorted((cache / "archives").glob("*.deb"))


def _unpack(packages: list[Path], root: Path) -> None:
    for package in packages:
        _run("dpkg-deb", "-x", str(package), str(root))


def _furnish(root: Path) -> None:
    """What the packages leave to the installation of a whole system."""
    for name in ("bin", "lib", "sbin"):  # newer releases have all of it below usr
        if not (root / name).exists() and (root / "usr" / name).is_dir():
            (root / name).symlink_to(f"usr/{name}")
    for name in ("tmp", "root", "home", "proc", "sys", "dev", "etc"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in _APPLETS:
        if not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to("busybox")
    if not (root / "usr" / "bin" / "python3").exists():
        (root / "usr" / "bin" / "python3").symlink_to(f"python{_python_version(root)}")


def _install_litert(root: Path) -> None:
    """LiteRT's wheel for ARM64 and what it needs at run time, where the Python there looks for packages."""
    site = root / "usr" / "lib" / "python3" / "dist-packages"
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    limits = [*platforms, "--only-binary=:all:", "--python-version", _python_version(root), "--implementation", "cp"]
    _run(*pip, "--target", str(site), *limits, "--no-deps", f"ai-edge-litert=={LITERT}", *_MODULES)


def _python_version(root: Path) -> str:
    for path in sorted((root / "usr" / "bin").glob("python3.*")):
        if re.fullmatch(r"python3\.\d+", path.name):
            return path.name.removeprefix("python")
    raise SystemExit("The packages hold no Python.")


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout.decode(errors='replace')[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())

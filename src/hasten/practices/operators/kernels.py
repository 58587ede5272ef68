"""Custom kernels in a study of operators: hasten's own and the user's, as rewrites that need a library to run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.errors import UsageError
from hasten.core.failure import Failure
from hasten.core.remark import remark
from hasten.custom_kernels.build import build_file, build_own, build_python, default_folder, kernel_names, toolchain_for
from hasten.custom_kernels.check import CheckRequest, check_kernel
from hasten.custom_kernels.rewrite import KernelRewrite, own_rewrites, user_rewrite
from hasten.custom_kernels.user import NODES_HINT
from hasten.engine.numba_kernels import kernels_in
from hasten.model.edit.model import EditedModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hasten.core.remark import Remark
    from hasten.custom_kernels.build import Toolchain
    from hasten.practices.operators.facts import OperatorOptions
    from hasten.rewrites.rewrite import Rewrite
    from hasten.targets.base import Target

FAILED: Final = "operators.failed"
# Kernels with other options are other kernels; the first few show whether a kind is right.
_MOST_CHECKED: Final = 4


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of a study, by the names of their rewrites, and what a plan names for each."""

    kernels: Mapping[str, KernelRewrite] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    of_user: frozenset[str] = frozenset()
    """Those that the user wrote."""

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """All of them as rewrites."""
        return tuple(kernel.rewrite for kernel in self.kernels.values())

    def libraries_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """What a model needs that these rewrites changed."""
        return tuple(dict.fromkeys(self.libraries[name] for name in names if name in self.libraries))

    def fault(self, name: str, model: Path, request: CheckRequest) -> Remark | None:
        """What is wrong with a kernel, on edge values and other shapes; None where nothing was found."""
        places = self.kernels[name].find(EditedModel.read(model).main)
        offers = {place.offer.custom_code: place.offer for place in places}
        for offer in list(offers.values())[:_MOST_CHECKED]:
            found = check_kernel(model, offer, self.libraries[name], request)
            if isinstance(found, Failure):
                return remark(FAILED, message=found.message)
            if found.wrong is not None:
                return found.wrong
        return None


def fault_folder(kernel: str, model_sha256: str) -> Path:
    """Where the input stays that shows a fault of a kernel."""
    return default_folder() / "checks" / f"{kernel}-{model_sha256[:12]}"


def build_kernels(options: OperatorOptions, model: Path, target: Target) -> Kernels | Failure:
    """Build what was asked for; a Failure where a compiler is missing or does not take a source."""
    folder, toolchain = default_folder(), toolchain_for(target)
    made: list[tuple[KernelRewrite, str]] = []
    of_user: list[str] = []
    if options.kernels:
        built = build_own(folder, toolchain)
        if isinstance(built, Failure):
            return built
        made += [(own, str(built.path)) for own in own_rewrites()]
    for file, replaces in options.kernel_files:
        found = _of_user(Path(file), replaces, folder, toolchain)
        if isinstance(found, Failure):
            return found
        for kernel, _ in found:
            if not list(kernel.find(EditedModel.read(model).main)):
                raise UsageError(f"{model.name} has no nodes that {Path(file).name} could replace.", NODES_HINT)
        made += found
        of_user += [kernel.name for kernel, _ in found]
    kernels = {kernel.name: kernel for kernel, _ in made}
    return Kernels(kernels, {kernel.name: library for kernel, library in made}, frozenset(of_user))


def _of_user(
    file: Path, replaces: str, folder: Path, toolchain: Toolchain | None
) -> list[tuple[KernelRewrite, str]] | Failure:
    if file.suffix == ".py":
        setting = build_python(file, folder)
        if isinstance(setting, Failure):
            return setting
        return [
            (user_rewrite(found.name, replaces or found.replaces, (*found.inputs, *found.outputs)), setting)
            for found in kernels_in(file)
        ]
    if not replaces:
        raise UsageError(f"Nothing says which nodes {file.name} replaces.", "Add --for, for example --for HARD_SWISH.")
    built = build_file(file, folder, toolchain)
    here = built if toolchain is None else build_file(file, folder)  # a library for another machine cannot be asked
    if isinstance(built, Failure):
        return built
    if isinstance(here, Failure):
        return here
    names = kernel_names(here.path)
    if isinstance(names, Failure):
        return names
    if len(names) != 1:
        raise UsageError(f"{file.name} has {len(names)} kernels.", "Write one kernel into each file.")
    return [(user_rewrite(names[0], replaces), str(built.path))]

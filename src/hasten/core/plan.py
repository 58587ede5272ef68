"""How a model is run (`Plan`) and what is run of it (`Workload`): small, hashable, sent to the runner as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from hasten.core.checks import THREADS, WHOLE, check_number, text_of
from hasten.core.codec import convert
from hasten.core.cores import checked_cores, cores_from_text, cores_text
from hasten.core.errors import UsageError

ACCELERATORS: Final = ("cpu", "gpu", "npu")
KERNELS: Final = ("delegate", "builtin", "reference")
PRECISIONS: Final = ("default", "fp16", "fp32")
OPTION_KEY: Final = re.compile(r"[A-Za-z0-9_.]+")
"""The key of an engine option. It becomes the left side of a line, in which `=`, quotes or `#` would write another."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run a model. The defaults are LiteRT's own: one CPU thread, XNNPACK where it takes the operator."""

    accelerator: str = "cpu"
    threads: int = 1
    kernel: str = "delegate"
    precision: str = "default"
    delegate: str = ""
    """An external delegate library, `LIB[:key=value;…]`; it takes the place of the accelerator."""
    options: tuple[tuple[str, str], ...] = ()
    """Options handed to the engine as they are: (`identifier.key`, value as TOML text)."""
    cache: str = ""
    """A folder on the device where the back end may keep what it works out at its start, for the next one."""
    cores: tuple[int, ...] = ()
    """The cores that the runner may use, set before the engine loads; empty: all that it gets."""
    kernels: tuple[str, ...] = ()
    """Libraries with kernels for the model's custom operators, `LIB` or `LIB:FILE.py` (Python for numba)."""

    def __post_init__(self) -> None:
        _one_of("accelerator", self.accelerator, ACCELERATORS)
        _one_of("kernel", self.kernel, KERNELS)
        _one_of("precision", self.precision, PRECISIONS)
        check_number("threads", self.threads, THREADS)
        object.__setattr__(self, "delegate", text_of("delegate", self.delegate))
        object.__setattr__(self, "cache", text_of("cache", self.cache))
        object.__setattr__(self, "options", _checked_options(self.options))
        object.__setattr__(self, "cores", checked_cores(self.cores))
        object.__setattr__(self, "kernels", _checked_kernels(self.kernels))

    @property
    def runs_on_cpu(self) -> bool:
        """Whether the CPU runs it: no accelerator, and no delegate of the user's own."""
        return self.accelerator == "cpu" and not self.delegate

    @property
    def may_keep_cache(self) -> bool:
        """Whether a cache could shorten its start: built-in kernels work nothing out then, and a delegate library is
        not told of the folder."""
        return not self.delegate and (self.accelerator != "cpu" or self.kernel == "delegate")

    @property
    def takes_kernels(self) -> bool:
        """Whether the engine takes kernels for custom operators with it: not where its classic interface runs."""
        return self.runs_on_cpu and self.kernel != "reference"

    def describe(self) -> str:
        """The plan as a person would say it; only what differs from the default, but always device and threads."""
        words = [self.accelerator if not self.delegate else f"delegate {self.delegate.rsplit('/', 1)[-1]}"]
        words.append("1 thread" if self.threads == 1 else f"{self.threads} threads")
        if self.cores:
            words[-1] += f" on core{'s' if len(self.cores) > 1 else ''} {cores_text(self.cores)}"
        if self.kernel != "delegate":
            words.append(f"{self.kernel} kernels")
        if self.precision != "default":
            words.append(self.precision)
        if self.kernels:
            words.append(f"kernels of {', '.join(setting.rsplit('/', 1)[-1] for setting in self.kernels)}")
        if self.cache:
            words.append("with a cache")
        words.extend(f"{key}={value}" for key, value in self.options)
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Workload:
    """What is run of a model: which signature, with which input shapes, on inputs made from which seed."""

    signature: str = ""
    """The signature's key; empty for the model's first one."""
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = field(default=())
    """Shapes for inputs whose file leaves a dimension open, or that are to be resized."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", text_of("signature", self.signature))
        object.__setattr__(self, "shapes", _checked_shapes(self.shapes))
        check_number("seed", self.seed, WHOLE)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape asked for this input, if one was."""
        return dict(self.shapes).get(name)


def plan_from_mapping(values: dict[str, Any]) -> Plan:
    """A plan from plain data, as it arrives at a runner or stands in a session file."""
    known = {item.name for item in fields(Plan)}
    _no_unknown_keys(set(values), known)
    options = tuple((str(key), str(value)) for key, value in values.get("options", ()))
    return Plan(**{**values, "options": options, "cores": tuple(values.get("cores", ()))})


def plan_with(base: Plan, settings: dict[str, str]) -> Plan:
    """The plan with settings given as text (`threads=2,accelerator=npu`); a dotted key is an engine option."""
    known = {item.name for item in fields(Plan)} - {"options"}
    plain = {key: value for key, value in settings.items() if "." not in key}
    _no_unknown_keys(set(plain), known)
    options = {**dict(base.options), **{key: value for key, value in settings.items() if "." in key}}
    values: dict[str, Any] = dict(plain)
    if "threads" in plain:
        values["threads"] = _whole_number("threads", plain["threads"])
    if "cores" in plain:
        values["cores"] = cores_from_text(plain["cores"])
    if "kernels" in plain:
        values["kernels"] = tuple(filter(None, plain["kernels"].split("+")))
    return replace(base, options=tuple(sorted(options.items())), **values)


def workload_from_mapping(values: dict[str, Any]) -> Workload:
    """A workload from plain data."""
    shapes = tuple((str(name), tuple(int(size) for size in shape)) for name, shape in values.get("shapes", ()))
    return Workload(signature=str(values.get("signature", "")), shapes=shapes, seed=int(values.get("seed", 0)))


def _checked_options(options: Any) -> tuple[tuple[str, str], ...]:
    try:
        pairs = tuple((key, value) for key, value in options)
    except (TypeError, ValueError):
        pairs = ((None, None),)
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        raise UsageError(
            f"The value of options cannot be {options!r}.", 'Pass pairs of texts, such as (("cpu.flags", "1"),).'
        )
    return pairs


def _checked_kernels(kernels: Any) -> tuple[str, ...]:
    if isinstance(kernels, str | bytes) or not isinstance(kernels, Iterable):
        raise UsageError(
            f"The value of kernels cannot be {kernels!r}.", 'Pass paths of libraries, such as ("libkernels.so",).'
        )
    return tuple(text_of("kernels", kernel) for kernel in kernels)


def _checked_shapes(shapes: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    try:
        found = tuple((name, tuple(shape)) for name, shape in shapes)
    except (TypeError, ValueError):
        found = ((None, ()),)
    if not all(isinstance(name, str) and all(map(WHOLE.fits, shape)) for name, shape in found):
        raise UsageError(
            f"The value of shapes cannot be {shapes!r}.",
            'Pass names and sizes, such as (("input", (1, 224, 224, 3)),).',
        )
    return found


def _no_unknown_keys(given: set[str], known: set[str]) -> None:
    if unknown := sorted(given - known):
        raise UsageError(f"A plan has no setting {unknown[0]!r}.", f"Use one of: {', '.join(sorted(known))}.")


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"There is no {what} {value!r}.", f"Use one of: {', '.join(allowed)}.")


def _whole_number(what: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{what} must be a whole number, not {text!r}.", f"Example: {what}=2") from None


# A plan from elsewhere is checked: a misspelt setting must not be lost.
convert(Plan, asdict, plan_from_mapping)
convert(Workload, asdict, workload_from_mapping)

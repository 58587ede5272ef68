"""The explanation in a sentence, made of measured causes only; and what a CPU's instruction sets have to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Verdict
from hasten.core.units import milliseconds, percent
from hasten.explain.facts import CauseKind, Instructions
from hasten.explain.rules import gains, losses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.comparison import Comparison
    from hasten.core.machine import Machine
    from hasten.explain.facts import Cause

_MOST_NAMED: Final = 3
_ENOUGH: Final = 0.9
# Below this part of a run's time nobody asks for a cause.
_SMALLEST_PART: Final = 0.02
# (flag as Linux lists it, what people call it)
_X86_INT8: Final = (("avx512_vnni", "AVX-512 VNNI"), ("avx_vnni", "AVX-VNNI"), ("amx_int8", "AMX int8"))
_X86_HALF: Final = (("f16c", "F16C conversions"), ("avx512_fp16", "AVX-512 fp16"), ("avx512_bf16", "AVX-512 bf16"))
_ARM_INT8: Final = (("asimddp", "dot product"), ("i8mm", "i8mm"))
_ARM_HALF: Final = (("asimdhp", "fp16"), ("bf16", "bf16"))
_INT8_HINT: Final = (
    "without int8 dot-product instructions, integer kernels gain little over float ones; other chips may differ"
)


def verdict_sentences(comparison: Comparison, causes: Sequence[Cause], before_ms: float) -> str:
    """What happened and why, in a sentence or two. Only causes that the rounds agree on are named."""
    smallest = before_ms * _SMALLEST_PART
    lost = _telling(losses(causes), smallest)
    won = _telling(gains(causes), smallest)
    speed = _speed(comparison)
    if comparison.leaning is Verdict.SLOWER:
        return _joined(speed, lost, "Against that, ", won)
    if comparison.leaning is Verdict.FASTER:
        return _joined(speed, won, "Against that, ", lost)
    if not lost and not won:
        return f"{speed}, and no group of operators changed its time by more than {percent(_SMALLEST_PART)} of the run."
    what = f"{speed}; what changed"
    return _joined(what, lost, "Against that, ", won) if lost else _joined(what, won, "", [])


def speed_sentence(comparison: Comparison) -> str:
    """What happened, where nothing is known of the causes."""
    return f"{_speed(comparison)}."


def hints_of(causes: Sequence[Cause], before_ms: float) -> tuple[str, ...]:
    """What to try against operators that surely lost by leaving the delegate, when the model itself was changed."""
    lost = [cause.op for cause in losses(causes) if cause.kind is CauseKind.LEFT_DELEGATE and _counts(cause, before_ms)]
    names = ", ".join(dict.fromkeys(lost))
    return (f"leave {names} as it was in the original, where the delegate took it, and measure again",) if lost else ()


def instructions_of(machine: Machine) -> Instructions:
    """What the machine's CPU brings along for eight bits and half precision. Hints are no measurement."""
    flags = set(machine.instructions)
    arm = machine.architecture.lower().startswith(("arm", "aarch"))
    int8, half = (_ARM_INT8, _ARM_HALF) if arm else (_X86_INT8, _X86_HALF)
    known = [*int8, *half]
    without_int8 = not any(flag in flags for flag, _ in int8)
    return Instructions(
        cpu=machine.cpu or "unknown",
        has=tuple(name for flag, name in known if flag in flags),
        lacks=tuple(name for flag, name in known if flag not in flags) if flags else (),
        hint=_INT8_HINT if without_int8 and flags else "",
    )


def cause_words(cause: Cause) -> str:
    """What happened to the nodes, without times."""
    several = f"{cause.nodes} {cause.op}" if cause.nodes > 1 else f"one {cause.op}"
    if cause.kind is CauseKind.LEFT_DELEGATE:
        return f"{several} left the delegate for the engine's built-in kernel"
    if cause.kind is CauseKind.ENTERED_DELEGATE:
        return f"{several} came into the delegate"
    if cause.kind is CauseKind.CONVERSIONS:
        return _conversion_words(cause)
    if cause.kind is CauseKind.OPAQUE:
        return f"{several} in a delegate that does not tell what happens inside"
    if cause.kind is CauseKind.ADDED:
        return f"{several} added"
    if cause.kind is CauseKind.REMOVED:
        return f"{several} gone"
    pace = "slower" if cause.change_ms.estimate > 0 else "quicker"
    return f"{several} {pace} in {'the same' if cause.kernel_before == cause.kernel_after else 'another'} kernel"


def _conversion_words(cause: Cause) -> str:
    nodes = "1 node" if cause.nodes == 1 else f"{cause.nodes} nodes"
    if cause.op == "inputs of layers":
        verb = "convert" if cause.nodes > 1 else "converts"
        return f"{nodes} {verb} the input at each run" if cause.ms_after else f"{nodes} no longer converted at each run"
    return f"{cause.nodes} {cause.op} {'added' if cause.kernel_after else 'gone'}"


def _counts(cause: Cause, before_ms: float) -> bool:
    return abs(cause.change_ms.estimate) >= _SMALLEST_PART * before_ms


def _telling(causes: list[Cause], smallest_ms: float) -> list[Cause]:
    """The largest ones, until they make up nearly all of it."""
    total = sum(cause.change_ms.estimate for cause in causes)
    named: list[Cause] = []
    for cause in causes:
        so_far = sum(one.change_ms.estimate for one in named)
        enough = abs(so_far) >= _ENOUGH * abs(total)
        if len(named) == _MOST_NAMED or enough or abs(cause.change_ms.estimate) < smallest_ms:
            break
        named.append(cause)
    return named


def _speed(comparison: Comparison) -> str:
    ratio = comparison.ratio
    few = f" by {comparison.rounds} pairs of processes, too few for a verdict" if comparison.lacks_rounds else ""
    verb = "looks" if few else "is"
    if comparison.leaning is Verdict.SLOWER:
        return f"It {verb} {_times(ratio)} slower{few}"
    if comparison.leaning is Verdict.FASTER:
        return f"It {verb} {_times(1 / ratio)} faster{few}"
    if comparison.verdict is Verdict.SAME:
        return "It is as fast as before"
    return "Whether it is faster or slower is undecided"


def _times(ratio: float) -> str:
    """`1.9 times`; `4.0 %` for small differences, which factors do not show."""
    return f"{ratio:.1f} times" if ratio >= 1.2 else percent(ratio - 1)


def _joined(speed: str, main: list[Cause], link: str, other: list[Cause]) -> str:
    first = f"{speed}: {_listed(main)}." if main else f"{speed}; no single group of operators explains it."
    return f"{first} {link}{_listed(other)}." if other else first


def _listed(causes: list[Cause]) -> str:
    parts = [f"{cause_words(cause)} ({_kernels(cause)}{_signed(cause.change_ms.estimate)})" for cause in causes]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _signed(ms: float) -> str:
    return f"{'-' if ms < 0 else '+'}{milliseconds(abs(ms))}"


def _kernels(cause: Cause) -> str:
    """Which kernel took the place of which, where that is what happened."""
    if cause.kind is not CauseKind.KERNEL or cause.kernel_before == cause.kernel_after:
        return ""
    return f"{cause.kernel_before} → {cause.kernel_after}, "

"""A profile as text: where the time goes, by operator and by kind, and what could still be won."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hasten.core.units import count, milliseconds, percent
from hasten.report.text import doubts_text, printable, wrapped
from hasten.show.tables import rendered, table

if TYPE_CHECKING:
    from rich.table import Table

    from hasten.core.profile import OperatorTime, Profile

_NARROW: Final = 80
_ROOM_FOR_KERNELS: Final = 120
_WIDTH_OF_NUMBERS: Final = 88
_KINDS_SHOWN: Final = 8
_REWRITTEN: Final = "The accelerator's compiler rewrote the graph: what it runs cannot be told node by node."
_MARKS: Final = {"ambiguous": "~", "guess": "?", "engine": "*", "partition": "+"}


def profile_text(profile: Profile, top: int, width: int | None = None) -> str:
    """The whole profile, for a terminal of that width."""
    columns = width or max(_NARROW, shutil.get_terminal_size((_NARROW, 24)).columns)
    shown = sorted(profile.operators, key=lambda operator: -operator.ms)[:top]
    parts = [
        _head(profile),
        rendered(_operator_table(shown, columns), columns),
        _rest(profile, shown),
        rendered(_kind_table(profile), columns),
        _partitions(profile),
        *doubts_text(profile.doubts),
    ]
    return "\n".join(part for part in parts if part is not None)


def _head(profile: Profile) -> str:
    lines = [
        *wrapped(f"{Path(profile.model.path).name} on {profile.plan.describe()}"),
        f"  {milliseconds(profile.latency_ms)} a run; profiling costs {profile.profiling_cost:+.1%},"
        f" operators explain {percent(profile.coverage)} of the time",
    ]
    if profile.peaks is not None:
        peaks = profile.peaks
        lines.append(
            f"  this machine at its best: {peaks.float_gflops:.0f} GFLOP/s float, {peaks.int8_gops:.0f} GOP/s int8,"
            f" {peaks.bandwidth[-1][1]:.0f} GB/s"
        )
    return "\n".join([*lines, ""])


def _operator_table(operators: list[OperatorTime], columns: int) -> Table:
    wide = columns >= _ROOM_FOR_KERNELS
    grid = table()
    grid.add_column("#", justify="right", width=4)
    grid.add_column("operator", no_wrap=True, overflow="ellipsis", width=26 if wide else 19)
    grid.add_column("output", no_wrap=True, overflow="ellipsis", width=16)
    for title, width in (("ms", 7), ("share", 5), ("GFLOP/s", 7)):
        grid.add_column(title, justify="right", width=width)
    grid.add_column("bound", width=7)
    grid.add_column("to win", justify="right", width=6)
    if wide:
        # Long names must not squeeze the numbers: these two share what the columns before leave.
        room = columns - _WIDTH_OF_NUMBERS
        kernel = min(44, room // 2)
        grid.add_column("kernel", no_wrap=True, overflow="ellipsis", max_width=kernel)
        grid.add_column("location", no_wrap=True, overflow="ellipsis", max_width=room - kernel - 1)
    for operator in operators:
        grid.add_row(*_operator_row(operator, wide=wide))
    return grid


def _operator_row(operator: OperatorTime, *, wide: bool) -> list[str]:
    name = printable(operator.op) + _MARKS.get(operator.mapped, "")
    row = [
        str(operator.index) if operator.index >= 0 else "",
        f"{name} +{len(operator.fused)}" if operator.fused else name,
        operator.shapes.rpartition("→ ")[2],
        _ms(operator.ms),
        percent(operator.share),
        _rate(operator.gflops),
        operator.bound or "-",
        "-" if operator.headroom_ms is None else _ms(operator.headroom_ms),
    ]
    return [*row, printable(" + ".join(operator.kernels)), printable(operator.location)] if wide else row


def _ms(value: float) -> str:
    """Milliseconds in a column of six."""
    return f"{value:.3f}" if value < 99.9995 else f"{value:.1f}" if value < 9999.95 else f"{value:.0f}"


def _rate(gflops: float | None) -> str:
    """Three digits, never an exponent."""
    if not gflops:
        return "-"
    return f"{gflops:.3g}" if gflops < 999.5 else f"{gflops:.0f}"


def _rest(profile: Profile, shown: list[OperatorTime]) -> str:
    left = len(profile.operators) - len(shown)
    lines = []
    if left > 0:
        rest = sum(operator.ms for operator in profile.operators) - sum(operator.ms for operator in shown)
        lines.append(f"and {left} more with {milliseconds(rest)} in all (--top {len(profile.operators)} shows them)")
    used = {operator.mapped for operator in shown}
    meanings = {
        "engine": "* not taken by XNNPACK: runs on the engine's own kernel",
        "ambiguous": "~ another node explains this kernel as well",
        "guess": "? no rule explains this kernel",
        "partition": "+ a delegate that does not say what happens inside",
    }
    lines += [text for word, text in meanings.items() if word in used]
    if any(operator.fused for operator in shown):
        lines.append("+1 one more operator runs inside this one's kernel")
    total = sum(operator.headroom_ms or 0.0 for operator in profile.operators)
    if profile.peaks is not None:
        lines.append(f"at this machine's peak the operators would take {milliseconds(total)} less in all")
    return "\n".join([*lines, ""])


def _kind_table(profile: Profile) -> Table:
    grid = table()
    grid.add_column("kind", no_wrap=True, overflow="ellipsis", max_width=36)
    for title in ("count", "ms", "share", "MACs"):
        grid.add_column(title, justify="right", min_width=7)
    for kind, number, ms, macs in profile.by_kind()[:_KINDS_SHOWN]:
        share = ms / profile.invoke_ms if profile.invoke_ms else 0.0
        grid.add_row(printable(kind), str(number), _ms(ms), percent(share), count(macs))
    return grid


def _partitions(profile: Profile) -> str:
    delegated = [partition for partition in profile.partitions if partition.delegated]
    own = [partition for partition in profile.partitions if not partition.delegated]
    if not delegated:
        return "No operator was delegated: the engine's own kernels ran all of them."
    nodes = sum(len(partition.nodes) for partition in delegated)
    if not nodes:
        return "\n".join(wrapped(_REWRITTEN, other=""))
    total = nodes + sum(len(partition.nodes) for partition in own)
    text = f"{nodes} of {total} operators delegated, in {len(delegated)} partition{'s' if len(delegated) > 1 else ''}"
    if own:
        names = ", ".join(
            f"#{i} {op}" for partition in own for i, op in zip(partition.nodes, partition.operators, strict=True)
        )
        text += f"; left to the engine: {names}"
    return "\n".join(wrapped(text + ".", other=""))

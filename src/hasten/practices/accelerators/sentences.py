"""What the examination of accelerators came to, in sentences that a person can act on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from hasten.core.comparison import Comparison, Verdict
from hasten.core.doubts import DOUBTS, MORE_CORES
from hasten.core.finding import Finding, Standing, told_finding
from hasten.core.units import milliseconds
from hasten.measure.race import OUT_OF_THE_RACE
from hasten.practices.accelerators.facts import FAILED, IMPRECISE, MISSING, PARTIAL, RUNS, WRONG, AcceleratorRow
from hasten.practices.accelerators.placement import is_on_cpu
from hasten.practices.accelerators.race import BASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.core.failure import Failure
    from hasten.core.plan import Plan

_LARGE_ERROR: Final = 0.05
_FAR: Final = 10.0
_REFUSED_NAMED: Final = 4
_LONGEST_MESSAGE: Final = 240


def why_of(row: AcceleratorRow, *, chooses: bool) -> str:
    """One sentence that a person can act on."""
    parts = [_error_words(row, chooses=chooses), _left_words(row)]
    if row.against_cpu is not None:
        parts.append(speed(row.against_cpu, row.break_even_runs))
    parts += [DOUBTS.text(doubt) for doubt in row.doubts if doubt.code == MORE_CORES]
    if row.cached_start_ms is not None and row.start_ms is not None:
        parts.append(f"starts in {milliseconds(row.start_ms)}, with its cache in {milliseconds(row.cached_start_ms)}")
    if row.stand_in:
        parts.append(f"this is {row.stand_in}")
    return "; ".join(part for part in parts if part)


def why_failed(failure: Failure) -> str:
    """The failure's sentence, and its hint as another."""
    message = failure.message
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE].rsplit(" ", 1)[0] + " …"
    closed = message if message.endswith((".", "!", "?", "…")) or not failure.hint else f"{message}."
    return f"{closed} {failure.hint}".strip()


def speed(against: Comparison, repaid_after: int | None) -> str:
    """The comparison with XNNPACK."""
    if against.verdict is Verdict.FASTER:
        repaid = "from the first run on" if not repaid_after else f"once {_runs(repaid_after)} repaid its start"
        return f"{1 / against.ratio:.2f} times as fast as XNNPACK, {repaid}"
    if against.verdict is Verdict.SLOWER:
        return f"takes {against.ratio:.2f} times as long as XNNPACK"
    if against.verdict is Verdict.SAME:
        return "as fast as XNNPACK"
    if against.ratio > OUT_OF_THE_RACE:
        return f"takes about {against.ratio:.1f} times as long as XNNPACK"
    return f"about {against.ratio:.2f} times XNNPACK's time, not sure yet: give it more --seconds"


def recommend(rows: Sequence[AcceleratorRow]) -> tuple[str | None, str]:
    """The accelerator to use and why, in a sentence. XNNPACK stays unless another is right and surely faster."""
    base = next((row for row in rows if row.name == BASE), None)
    if base is None or base.latency is None:
        return _without_base(rows, base)
    tried = [row for row in rows if row.latency is not None and row is not base and _is_an_option(row)]
    faster = [row for row in tried if _is_trusted(row) and _is_faster(row)]
    if faster:
        best = min(faster, key=_median_ms)
        assert best.against_cpu is not None
        return best.name, f"use {best.name}: {speed(best.against_cpu, best.break_even_runs)}{_reservations(best)}."
    beaten = f" (against {', '.join(row.name for row in tried)})" if tried else ""
    return BASE, f"stay with XNNPACK on the CPU; nothing that runs here is surely faster{beaten}.{_untrusted(rows)}"


def finding_of(rows: Sequence[AcceleratorRow]) -> Finding:
    """What the practice came to, for a model that runs on XNNPACK now."""
    recommended, why = recommend(rows)
    evidence = why[:1].upper() + why[1:]
    row = next((row for row in rows if row.name == recommended), None)
    if row is None:
        return told_finding("accelerators", Standing.NOT_EXAMINED, evidence)
    if row.name != BASE:
        return told_finding("accelerators", Standing.TO_DO, evidence, f"Run the model with {_settings(row.plan)}.")
    beyond = [row for row in rows if not is_on_cpu(row.plan)]
    if not any(row.latency is not None for row in beyond):
        none = "; ".join(f"{row.name}: {row.why}" for row in beyond if row.status in (MISSING, FAILED))
        return told_finding(
            "accelerators", Standing.NOT_EXAMINED, f"No accelerator runs the model here. {none}".strip()
        )
    return told_finding("accelerators", Standing.GOOD, evidence)


def _without_base(rows: Sequence[AcceleratorRow], base: AcceleratorRow | None) -> tuple[str | None, str]:
    absent = "XNNPACK was not timed" if base is None else f"XNNPACK does not run this model ({base.why.rstrip('.')})"
    running = [row for row in rows if row.latency is not None]
    trusted = [row for row in running if _is_trusted(row)]
    trusted = [row for row in trusted if _is_an_option(row)] or trusted
    if trusted:
        best = min(trusted, key=_median_ms)
        return best.name, f"use {best.name}, the quickest of those that run it; {absent}."
    if running:
        names = ", ".join(row.name for row in running)
        return None, f"only {names} runs this model, and its outputs are wrong or cannot be checked; {absent}."
    return None, f"nothing here runs this model; {absent}."


def _untrusted(rows: Sequence[AcceleratorRow]) -> str:
    """Those that would be faster, if only their outputs could be trusted."""
    names = [row.name for row in rows if row.status == IMPRECISE and _is_faster(row)]
    return f" Faster, but to be tested for accuracy first: {', '.join(names)}." if names else ""


def _error_words(row: AcceleratorRow, *, chooses: bool) -> str:
    if row.error is None:
        return ""
    if row.status == WRONG and math.isinf(row.error.worst):
        return "its outputs are no numbers, or of another size than the reference's: do not use it"
    if row.status == WRONG:
        return f"its outputs are off by {_share(row.error.typical)} their range: do not use it"
    if row.status == IMPRECISE:
        tipped = " (choices that a little rounding may tip over)" if chooses else ""
        return f"some outputs are off by {_share(row.error.worst)} their range{tipped}: test its accuracy first"
    if chooses and row.error.worst > _LARGE_ERROR:
        return "its outputs are choices that rounding tips over on the CPU, too, so their error says little"
    return ""


def _left_words(row: AcceleratorRow) -> str:
    where = "the engine's own kernels" if is_on_cpu(row.plan) else "the CPU"
    if row.refused:
        more = len(row.refused) - _REFUSED_NAMED
        return f"left to {where}: {', '.join(row.refused[:_REFUSED_NAMED])}" + (f", {more} more" if more > 0 else "")
    if row.placed_ops is None:
        return "LiteRT does not tell which operators it takes"
    left = (row.total_ops or 0) - row.placed_ops
    if not left:
        return ""
    return f"left to {where}: {left} operator{'s' if left > 1 else ''}, and its compiler does not tell which"


def _share(error: float) -> str:
    return f"{error:.0%} of" if error < _FAR else "more than ten times"


def _runs(number: int) -> str:
    return "1 run has" if number == 1 else f"{number} runs have"


def _settings(plan: Plan) -> str:
    if plan.delegate:
        return f"--delegate {plan.delegate}"
    if plan.accelerator != "cpu":
        return f"--accelerator {plan.accelerator}"
    options = " ".join(f"--option {key}={value}" for key, value in plan.options)
    return options or f"--kernel {plan.kernel}"


def _is_trusted(row: AcceleratorRow) -> bool:
    """Whether its outputs were compared and found right."""
    return row.status in (RUNS, PARTIAL) and row.error is not None


def _reservations(row: AcceleratorRow) -> str:
    """What the recommended one must not be used without knowing."""
    found = [DOUBTS.text(doubt) for doubt in row.doubts if doubt.code == MORE_CORES]
    if row.error is not None and row.error.worst > _LARGE_ERROR:
        found.append(f"some outputs differ by {_share(row.error.worst)} their range: test its accuracy")
    return f", but {' and '.join(found)}" if found else ""


def _is_an_option(row: AcceleratorRow) -> bool:
    """The reference kernels are the yardstick for outputs; on tiny models only their thinner interface is quicker."""
    return row.plan.kernel != "reference"


def _is_faster(row: AcceleratorRow) -> bool:
    return row.against_cpu is not None and row.against_cpu.verdict is Verdict.FASTER


def _median_ms(row: AcceleratorRow) -> float:
    return row.latency.estimate if row.latency else math.inf

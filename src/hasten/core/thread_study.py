"""All that a study of threads came to: rows, the choice for each situation, and the finding."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hasten.core.cores import cores_text
from hasten.core.doubts import Doubt, Reason
from hasten.core.finding import Finding, Standing
from hasten.core.thread_rows import SITUATIONS, Effect, Option

if TYPE_CHECKING:
    from hasten.core.measurement import Model
    from hasten.core.plan import Plan
    from hasten.core.thread_rows import Condition, EffectOfOption, Row
    from hasten.core.threads import Choice


@dataclass(frozen=True, slots=True)
class Trouble:
    """An option or a condition that could not be measured, and why."""

    where: str
    message: str


@dataclass(frozen=True, slots=True)
class ThreadStudy:
    """Threads measured, and what to use."""

    model: Model
    plan: Plan
    """The plan in use now; its threads are what the finding judges."""
    situation: str
    cores: int
    clusters: tuple[tuple[int, ...], ...]
    rows: tuple[Row, ...]
    choices: tuple[Choice, ...]
    effects: tuple[EffectOfOption, ...]
    troubles: tuple[Trouble, ...] = ()
    seconds: float = 0.0

    @property
    def current(self) -> Option:
        """What the plan says now."""
        return Option(self.plan.threads, self.plan.cores)

    @property
    def choice(self) -> Choice | None:
        """The choice for the situation that the user named."""
        return self.choice_for(self.situation)

    def choice_for(self, situation: str) -> Choice | None:
        """The choice for a situation; None if nothing was measured there."""
        return next((choice for choice in self.choices if choice.situation == situation), None)

    def row(self, option: Option, condition: Condition) -> Row | None:
        """One row, if it was measured."""
        return next((row for row in self.rows if (row.option, row.condition) == (option, condition)), None)

    @property
    def conditions(self) -> list[Condition]:
        """The conditions that have rows, in their order."""
        return list(dict.fromkeys(row.condition for row in self.rows))

    @property
    def doubts(self) -> list[Doubt]:
        """Reasons to doubt the choice: those of the rows that it stands on, each once, and its own."""
        rows = [row for row in self.rows if row.condition.situation == self.situation]
        # Ratios within rounds cancel what moves all options alike; these touch the latencies, not the choice.
        latency_only = (Reason.NOISY, Reason.PROCESSES_DIFFER, Reason.OUTLIERS, Reason.FREQUENCY_CHANGE)
        found = {doubt.reason: doubt for row in rows for doubt in row.doubts if doubt.reason not in latency_only}
        if self.choice is not None and not self.choice.sure:
            found[Reason.NOISY] = Doubt(Reason.NOISY, "more rounds could still change the recommendation")
        return list(found.values())

    @property
    def finding(self) -> Finding:
        """What the practice came to."""
        choice = self.choice
        if choice is None:
            return Finding("threads", Standing.NOT_EXAMINED, f"nothing was measured {SITUATIONS[self.situation]}")
        evidence = f"{choice.why}{self._not_alone()}"
        if choice.option == self.current:
            return Finding("threads", Standing.GOOD, evidence)
        return Finding("threads", Standing.TO_DO, evidence, f"Run the model with {choice.option.plan_text()}.")

    def _not_alone(self) -> str:
        """A recommendation for a quiet device that was not quiet says so itself, wherever it is printed."""
        doubt = next((doubt for doubt in self.doubts if doubt.reason is Reason.OTHER_LOAD), None)
        return "" if doubt is None else f" It was not alone, though: {doubt.evidence}."

    def as_data(self) -> dict[str, Any]:
        """The study with the keys that the command line promises, and more."""
        choice = self.choice
        return {
            "model": asdict(self.model),
            "plan": asdict(self.plan),
            "load": self.situation,
            "rows": [row.as_data() for row in self.rows],
            "recommended": None if choice is None else choice.option.threads,
            "recommended_cores": [] if choice is None else list(choice.option.cores),
            "why": self.finding.evidence,
            "by_load": {choice.situation: choice.as_data() for choice in self.choices},
            "effect": [effect.as_data() for effect in self.effects],
            "energy": "counter" if any(row.joules is not None for row in self.rows) else "cpu_seconds as a proxy",
            "cores": self.cores,
            "clusters": [list(cluster) for cluster in self.clusters],
            "finding": self.finding.as_data(),
            "plot": self._plot(),
            "troubles": [asdict(trouble) for trouble in self.troubles],
            "doubts": [doubt.as_data() for doubt in self.doubts],
            "seconds": self.seconds,
        }

    def effect_sentence(self) -> str:
        """Whether the setting takes effect, and how that was seen."""
        judged = [effect for effect in self.effects if effect.option.threads > 1]
        if not judged:
            return ""
        without = [effect for effect in judged if effect.effect is Effect.NONE]
        shown = (without or judged)[0]
        words = {Effect.TAKEN: "takes effect", Effect.NONE: "has no effect", Effect.UNKNOWN: "cannot be judged"}
        return f"The setting {words[shown.effect]}: {shown.evidence}."

    def energy_sentence(self) -> str:
        """What a run costs with each option, alone; or what stands for it."""
        told = [(row.option.describe(), row.joules) for row in self.rows if row.joules is not None]
        if not told:
            return "This machine has no energy counter; the CPU time of a run stands for it."
        return "Energy of a run: " + ", ".join(f"{joules * 1e3:.3g} mJ with {option}" for option, joules in told) + "."

    def _plot(self) -> dict[str, Any]:
        """Latency against threads, a line for each condition and set of cores."""
        series: dict[tuple[Condition, tuple[int, ...]], list[Row]] = {}
        for row in self.rows:
            series.setdefault((row.condition, row.option.cores), []).append(row)
        return {
            "x": "threads",
            "y": "median_ms",
            "series": [
                {
                    "label": condition.describe() + (f", cores {cores_text(cores)}" if cores else ""),
                    "load": condition.situation,
                    "load_kind": condition.kind or None,
                    "cores": list(cores),
                    "points": [
                        {
                            "threads": row.option.threads,
                            "median_ms": row.latency.estimate,
                            "low_ms": row.latency.low,
                            "high_ms": row.latency.high,
                            "p95_ms": row.p95_ms,
                        }
                        for row in sorted(rows, key=lambda row: row.option)
                    ],
                }
                for (condition, cores), rows in series.items()
            ],
        }

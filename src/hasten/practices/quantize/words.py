"""The phrases about variants, and about a search for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hasten.core import accuracy_notes, doubts
from hasten.core.comparison import Verdict
from hasten.core.phrases import Phrase, Phrasebook
from hasten.core.trial import REWRITTEN
from hasten.core.units import duration, percent, several, size, speedup
from hasten.evaluate import trial_words, words
from hasten.evaluate.trial_words import why_words
from hasten.variants.recipes import RECIPE_NAMES, recipe_from_name
from hasten.variants.words import PHRASES as MADE

if TYPE_CHECKING:
    from collections.abc import Mapping


def made_words(made: Mapping[str, Any]) -> str:
    """What was done to the model: `Quantized to int8, with 9 operators kept in float`."""
    name, recipe = made["variant"], made.get("recipe", "")
    if name == REWRITTEN:
        return "Graph rewritten"
    is_rewritten = made.get("rewritten", False)
    if recipe not in RECIPE_NAMES:
        return f"Graph rewritten ({name})" if is_rewritten else str(name)
    known = recipe_from_name(recipe)
    if known.is_static_int8:
        text = "Quantized to int8"
    elif known.activations is not None:
        text = f"Quantized to {known.weights} weights and {known.activations} activations"
    else:
        text = f"Weights {'quantized to' if known.computes_in_integers else 'stored as'} {known.weights}"
    count = made.get("float_nodes", 0)
    kept = f", with {several(count, 'operator')} kept in float" if count else ""
    return f"{text}{kept}{', graph rewritten' if is_rewritten else ''} ({name})"


OPTIMISTIC: Final = "This figure is slightly optimistic, as the reporting part of the data had a say in the choice."


_SPEEDS: Final = {Verdict.SAME.value: "as fast as the original", Verdict.UNDECIDED.value: "speed undecided"}


def _size_words(change: float) -> str:
    return f"{percent(abs(change))} {'smaller' if change <= 0 else 'larger'}"


def _chosen(facts: Mapping[str, Any]) -> str:
    parts = []
    if facts["verdict"] in _SPEEDS:
        parts.append(_SPEEDS[facts["verdict"]])
    elif facts["ratio"] is not None:
        parts.append(speedup(facts["ratio"]["ratio"], facts["ratio"]["ci95"]))
    if facts["size"] is not None:
        parts.append(_size_words(facts["size"]))
    return f"{made_words(facts)}: {', '.join([*parts, accuracy_words(facts.get('accuracy'))])}{_rest(facts)}"


def accuracy_words(known: Mapping[str, Any] | None) -> str:
    """How the choice stands against the floor; sessions of before knew no interval."""
    return words.verdict_text(known) if known else "accuracy floor kept"


def _rest(facts: Mapping[str, Any]) -> str:
    """What to know of the accuracy of the choice."""
    known = facts.get("accuracy")
    if not known:
        return "."
    told = [words.samples_text(known), OPTIMISTIC if known["optimistic"] else ""]
    return " ".join((".", *filter(None, told)))


def _undecided(facts: Mapping[str, Any]) -> str:
    return f"{facts['variant']} would be {speedup(facts['ratio']['ratio'])}. {why_words(facts['why'])}".strip()


def _breaks(facts: Mapping[str, Any]) -> str:
    gain = speedup(facts["ratio"]["ratio"])
    return f"{facts['variant']} would be {gain}, but it breaks the accuracy floor. {why_words(facts['why'])}".strip()


def _proven(facts: Mapping[str, Any]) -> str:
    text = "Keep the original: no variant that is accurate enough is proven faster."
    if facts["smallest"] is None:
        return text
    return f"{text} {facts['smallest']['variant']} needs only {size(facts['smallest']['size'])} (--for size)."


def _setbacks(facts: Mapping[str, Any]) -> str:
    names = facts["variants"]
    return (
        f"{', '.join(names)} passed on the choosing part of the data and failed on the reporting part, so"
        f" {'it was' if len(names) == 1 else 'they were'} not chosen. The accuracy shown for the final choice is"
        " slightly optimistic."
    )


def _io_types(facts: Mapping[str, Any]) -> str:
    left = facts["left_out"]
    return f"Variants have {facts['types']}." + (
        f" These recipes do not support that and were left out: {', '.join(left)}." if left else ""
    )


def _sparsity(facts: Mapping[str, Any]) -> str:
    how = f"in blocks of {', '.join(facts['blocks'])}" if facts["blocks"] else "unstructured"
    kernels = "Whether XNNPACK's sparse kernels run is unknown, as the model cannot be profiled."
    if facts["sparse_nodes"] is not None:
        nodes = several(facts["sparse_nodes"], "node") if facts["sparse_nodes"] else "no node"
        kernels = f"XNNPACK's sparse kernels run {nodes}."
    return f"{percent(facts['share'])} of the weights are zero ({how}). {kernels}"


def _slow_nodes(facts: Mapping[str, Any]) -> str:
    more = f" and {several(facts['more'], 'other kind')}" if facts["more"] else ""
    return (
        f"{several(facts['nodes'], 'node')} stay{'s' if facts['nodes'] == 1 else ''} in float, because integers were"
        f" {facts['ms']:.2g} ms slower there: {', '.join(facts['kinds'])}{more}."
    )


def _kernels(facts: Mapping[str, Any]) -> str:
    if not facts["kernels"]:
        layers = "The pruned layer runs" if facts["pruned"] == 1 else f"All {facts['pruned']} pruned layers run"
        return f"{layers} on the same kernels as before: no sparse kernel is used."
    kernels = ", ".join(facts["kernels"])
    run = "runs" if facts["other"] == 1 else "run"
    return f"{facts['other']} of {several(facts['pruned'], 'pruned layer')} {run} on other kernels ({kernels})."


def _skipped(facts: Mapping[str, Any]) -> str:
    count, shown = facts["count"], facts["first"]
    told = ((reason if name in reason else f"{name}: {reason}").rstrip(".") for name, reason in shown)
    more = f"; and {count - len(shown)} more (see --json)" if count > len(shown) else ""
    return f"{several(count, 'bad sample')} {'was' if count == 1 else 'were'} left out: {'; '.join(told)}{more}."


PHRASES: Final[dict[str, Phrase]] = {
    "quantize.not-examined": Phrase("No variant was made.", "Raise --budget and continue with --resume."),
    "quantize.none-runs": Phrase(lambda facts: f"No variant runs. {why_words(facts['why'])}"),
    "quantize.chosen": Phrase(_chosen),
    "quantize.no-data": Phrase(
        "{variant} would be {ratio:speedup}, but without data its accuracy is unknown.",
        "Give labeled data with --data.",
    ),
    "quantize.breaks-floor": Phrase(_breaks, "Use quantization-aware training, or raise --max-drop."),
    "quantize.floor-undecided": Phrase(_undecided, "Give more data with --data."),
    "quantize.none-faster": Phrase("No variant ({count} tried) is both faster on this device and accurate enough."),
    "quantize.undecided": Phrase(
        "Whether {variant} beats the chosen plan is undecided ({count} variants tried).",
        "Raise --budget, or measure on an idle machine.",
    ),
    "quantize.none-judged": Phrase("Keep the original: no variant has been judged yet."),
    "quantize.none-made": Phrase(
        lambda facts: (
            f"Keep the original: no variant could be made and run. {facts['variant']}: {why_words(facts['why'])}"
        )
    ),
    "quantize.undecidable": Phrase(
        lambda facts: f"Keep the original: no variant can be judged by this data. {why_words(facts['why'])}",
        "Give more labeled data, and check that the labels fit.",
    ),
    "quantize.unknown-accuracy": Phrase(
        "Keep the original: without data, nothing shows that a variant keeps its accuracy.",
        "Give labeled data with --data.",
    ),
    "quantize.none-keeps-floor": Phrase("Keep the original: no variant keeps the accuracy floor."),
    "quantize.all-undecided": Phrase(
        "Keep the original: no variant is proven to keep the accuracy floor.", "Give more data with --data."
    ),
    "quantize.none-smaller": Phrase("Keep the original: no variant that is accurate enough is smaller."),
    "quantize.none-proven-faster": Phrase(_proven),
    "quantize.slow-nodes": Phrase(_slow_nodes),
    "quantize.kernels": Phrase(_kernels),
    "quantize.refitted": Phrase(
        "The last layer was fitted again to {samples:count labeled sample} of the choosing part."
    ),
    "quantize.refit-needs-classes": Phrase(
        "The last layer was not fitted again: that needs labeled classes, and the metric is {metric}."
    ),
    "quantize.refit-needs-softmax": Phrase(
        "The last layer was not fitted again: no softmax makes the probabilities of output {output!r}."
    ),
    "quantize.refit-needs-samples": Phrase(
        "The last layer was not fitted again: a class has only {fewest:count sample} to choose by.",
        "Give at least {needed} of each class.",
    ),
    "quantize.refit-worse": Phrase(
        "The last layer was not fitted again: a new one is right on {right} of {samples} samples that it had not seen,"
        " the one that is there on {before}.",
        "Give more labeled samples of each class.",
    ),
    "quantize.skipped": Phrase(_skipped),
    "search.resumed": Phrase("This run continued the search in {folder}."),
    "search.content-not-recorded": Phrase(
        "The session did not record the content of {name}, so it may have changed since the search began."
    ),
    "search.calibration-from-choosing": Phrase(
        "Activation ranges come from samples of the choosing part of the data, because --calibration was not given."
    ),
    "search.calibration-from-noise": Phrase(
        "Activation ranges come from random inputs, because neither --data nor --calibration was given.",
        "Give real samples with --calibration.",
    ),
    "search.samples-limited": Phrase(
        lambda facts: (
            f"Accuracy is judged on {facts['samples']:,} of {facts['total']:,} samples ({facts['choosing']:,} to choose"
            f" by, {facts['reporting']:,} to report on): all would take too much of the budget of"
            f" {duration(facts['budget_s'])}."
        ),
        "A larger --budget in a new folder uses more; --resume continues with the same samples.",
    ),
    "search.one-output-judged": Phrase(
        "{metric} judges only {output!r}, 1 of {count} outputs. A variant that is far off in another is not chosen.",
        "Use --metric module:function to judge all outputs.",
    ),
    "search.spread": Phrase(
        "Accuracy was evaluated on these devices of the cluster, which compute alike: {devices:list}."
    ),
    "search.not-spread": Phrase(
        "No device of the cluster computes as the target does, so the target evaluated accuracy alone.",
        "Start workers on machines with the same processor architecture, instructions and LiteRT release.",
    ),
    "search.setbacks": Phrase(_setbacks, "Give more data."),
    "search.io-types": Phrase(_io_types),
    "search.io-type-kept": Phrase("The {end} {name!r} stays {dtype}: only float32 becomes {wanted}."),
    "search.types-still": Phrase("The {ends} of the chosen model are still {dtypes:list}, not {wanted}."),
    "search.sparsity": Phrase(_sparsity),
    "search.clustered": Phrase("{clustered} of {layers:count layer} have clustered weights, which compress well."),
    "search.mix-out-of-time": Phrase(
        "The budget ended before a mix of {variant} with float was found.", "Continue with --resume."
    ),
    "search.rewritten": Phrase("Rewrites that apply to this graph: {rewrites:list}."),
    "search.no-kernel-applies": Phrase("None of hasten's kernels applies to this model."),
    "search.not-rewritten": Phrase("The graph was not rewritten. {message}"),
    "search.no-variants": Phrase("No variants were made. {message}", "{hint}"),
}
BOOK: Final = Phrasebook(PHRASES, trial_words.PHRASES, words.PHRASES, MADE, accuracy_notes.PHRASES, doubts.PHRASES)

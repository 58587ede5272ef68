"""Pruning checked against reality: sparsity that is there, variants with more of it, and which kernels run them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hasten.core.failure import Failure
from hasten.core.quantization import FAILED
from hasten.core.units import percent
from hasten.measure.profiling import profile_model
from hasten.measure.rounds import no_progress
from hasten.practices.slow_nodes import gains_of
from hasten.variants.pruning import Pruning
from hasten.variants.sparsity import layer_sparsities, model_sparsity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hasten.explain.node_gains import NodeGain
    from hasten.practices.quantize.run import QuantizePractice

# Fewer zeros than this are chance.
_WORTH_A_NOTE: Final = 0.05
# XNNPACK's sparse path computes with channels first; no other kernel of its does.
_SPARSE_KERNEL: Final = "NCHW"
_PROFILE_SECONDS: Final = 1.0
_PRUNED: Final = "pruned layers have"


def judge_pruned(practice: QuantizePractice) -> None:
    """Make and judge two variants for each share asked for: zeros in their places, and dense layers without them."""
    for pruning in _asked_for(practice):
        practice.judge(pruning.name, pruning, share=0.5)


def note_kernels(practice: QuantizePractice) -> None:
    """Say of each pruned variant which kernels its pruned layers run on, as a profile beside the original shows."""
    for pruning in _asked_for(practice):
        row = practice.folder.rows[pruning.name]
        if row.floor == FAILED or not row.path or any(_PRUNED in note for note in row.notes):
            continue
        gains = gains_of(practice, row)
        if gains is not None:
            mine = [gains.nodes[node] for node in row.nodes if node in gains.nodes]
            practice.folder.save(replace(row, notes=(*row.notes, kernel_note(mine))))


def kernel_note(pruned: Sequence[NodeGain]) -> str:
    """Whether pruned layers run on other kernels than before, in a sentence."""
    other = [gain for gain in pruned if gain.kernel_before != gain.kernel_after]
    if not other:
        return f"its {len(pruned)} {_PRUNED} the kernels of before: no sparse path is taken"
    names = ", ".join(dict.fromkeys(gain.kernel_after for gain in other))
    return f"{len(other)} of its {len(pruned)} {_PRUNED} other kernels than before ({names})"


def note_sparsity(practice: QuantizePractice) -> None:
    """Say what is found in the weights as they are, and whether XNNPACK's sparse path makes use of it."""
    layers = layer_sparsities(practice.graph)
    zeros, clustered = model_sparsity(layers), sum(layer.clustered for layer in layers)
    if zeros >= _WORTH_A_NOTE:
        blocks = sorted({f"{layer.block[0]}x{layer.block[1]}" for layer in layers if layer.block is not None})
        how = f"in blocks of {', '.join(blocks)}" if blocks else "one by one"
        practice.note(f"{percent(zeros)} of the model's weights are zero, {how}; {_sparse_path(practice)}")
    if clustered:
        practice.note(f"{clustered} of {len(layers)} layers have clustered weights, which zip well")


def _sparse_path(practice: QuantizePractice) -> str:
    practice.tell(0.0, "profiling the original")
    found = profile_model(practice.target, practice.candidate, practice.graph, _PROFILE_SECONDS, None, no_progress)
    if isinstance(found, Failure):
        return "whether that makes it faster cannot be seen, as it cannot be profiled"
    sparse = sum(any(_SPARSE_KERNEL in tag for tag in operator.kernels) for operator in found[0].operators)
    return f"XNNPACK's sparse path is taken by {sparse} nodes" if sparse else "XNNPACK's sparse path is not taken"


def _asked_for(practice: QuantizePractice) -> list[Pruning]:
    return [Pruning(share, encode) for share in practice.settings.prune for encode in (False, True)]

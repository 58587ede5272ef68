"""Edits that a file needs before the quantizer reads it correctly: they change no output and report what they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.remark import Remark, remark
from hasten.model.build import DEFAULT_SIGNATURE
from hasten.model.edit.model import EditedModel
from hasten.model.edit.outputs import add_signature
from hasten.variants.words import FLOAT16_FOLDED, OPERATOR_CODES, SIGNATURE_ADDED, UNUSED_TENSORS

if TYPE_CHECKING:
    from pathlib import Path

    from hasten.model.edit.graph import EditedGraph


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file with the same outputs that the quantizer reads rightly. Tensors keep their indices."""

    path: Path
    done: tuple[Remark, ...]


def prepare(model_path: Path, out_path: Path) -> Prepared:
    """Write a copy that newer tools read rightly, and tell what had to be done for it."""
    model = EditedModel.read(model_path)
    codes = remark(OPERATOR_CODES, codes=model.parts.filled_codes) if model.parts.filled_codes else None
    edits = (_add_signature, _fill_unused_tensors, _fold_float16_constants)
    done = [codes, *(edit(model) for edit in edits)]
    model.parts.drop_unused_buffers()
    model.write(out_path)
    return Prepared(out_path, tuple(found for found in done if found is not None))


def _add_signature(model: EditedModel) -> Remark | None:
    """Calibration goes through signatures."""
    if model.record.signatureDefs or not add_signature(model.main, by_tensor=True):
        return None
    return remark(SIGNATURE_ADDED, signature=DEFAULT_SIGNATURE)


def _fold_float16_constants(model: EditedModel) -> Remark | None:
    """Turn float16 constants behind a DEQUANTIZE into float32 ones: the quantizer finds no weights behind them."""
    folded = sum(_fold(graph, operator) for graph in model.graphs for operator in list(graph.operators))
    if folded:
        _fill_unused_tensors(model)
    return remark(FLOAT16_FOLDED, constants=folded) if folded else None


def _fold(graph: EditedGraph, operator: Any) -> bool:
    if not graph.is_op(operator, "DEQUANTIZE") or operator.outputs[0] in graph.outputs:
        return False
    halves = graph.constant(operator.inputs[0])
    if halves is None or halves.dtype != np.float16:
        return False
    data = np.frombuffer(halves.astype(np.float32).tobytes(), np.uint8)
    graph.tensor(operator.outputs[0]).buffer = graph.parts.add_buffer(data)
    graph.remove(operator)
    return True


def _fill_unused_tensors(model: EditedModel) -> Remark | None:
    """Make tensors that nothing reads or writes constants of one element.

    They have no memory at run time, and calibration, which looks at every tensor, fails on them. Constants among them
    only make the file larger. All keep their places, so that the indices of others stay what they were.
    """
    filled = 0
    for graph in model.graphs:
        used = graph.used_tensors()
        for index, tensor in enumerate(graph.record.tensors):
            if index not in used and not tensor.isVariable:
                _empty(model, tensor)
                filled += 1
    return remark(UNUSED_TENSORS, tensors=filled) if filled else None


def _empty(model: EditedModel, tensor: Any) -> None:
    tensor.buffer, tensor.shape, tensor.shapeSignature = model.parts.add_buffer(np.zeros(4, np.uint8)), [1], None
    # A plain integer: it must not count as a weight.
    tensor.type, tensor.quantization, tensor.sparsity = model.parts.schema.TensorType.INT32, None, None

"""Edits that a file needs before the quantizer reads it correctly: they change no output and report what they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hasten.core.remark import Remark, remark
from hasten.model.build import DEFAULT_SIGNATURE
from hasten.model.model_object import constant_bytes, operator_number, operators_of, read_object, text, write_object
from hasten.variants.words import FLOAT16_FOLDED, OPERATOR_CODES, SIGNATURE_ADDED, UNUSED_TENSORS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file with the same outputs that the quantizer reads rightly. Tensors keep their indices."""

    path: Path
    done: tuple[Remark, ...]


def prepare(model_path: Path, out_path: Path) -> Prepared:
    """Write a copy that newer tools read rightly, and tell what had to be done for it."""
    model = read_object(model_path)
    done = prepare_object(model)
    write_object(model, out_path, model_path)
    return Prepared(out_path, done)


def prepare_object(model: Any) -> tuple[Remark, ...]:
    """Make all edits on a `ModelT`, and tell which ones were needed."""
    edits = (fill_operator_codes, add_signature, fill_unused_tensors, fold_float16_constants)
    before = _tensors_buffers(model)
    done = tuple(found for found in (edit(model) for edit in edits) if found is not None)
    _empty_buffers(model, before - _tensors_buffers(model))
    return done


def fill_operator_codes(model: Any) -> Remark | None:
    """Write operator codes where newer tools look for them: they read those of files of before 2020 as ADD."""
    filled = 0
    for code in model.operatorCodes or []:
        number = operator_number(code)
        filled += code.builtinCode != number
        code.builtinCode = number
    return remark(OPERATOR_CODES, codes=filled) if filled else None


def add_signature(model: Any) -> Remark | None:
    """Give a model without a signature one with the names of its tensors: calibration goes through signatures."""
    if model.signatureDefs:
        return None
    from ai_edge_litert import schema_py_generated as schema

    main = model.subgraphs[0]
    model.signatureDefs = [
        schema.SignatureDefT(
            signatureKey=DEFAULT_SIGNATURE,
            subgraphIndex=0,
            inputs=_tensor_maps(schema, main, main.inputs, "input"),
            outputs=_tensor_maps(schema, main, main.outputs, "output"),
        )
    ]
    return remark(SIGNATURE_ADDED, signature=DEFAULT_SIGNATURE)


def _tensor_maps(schema: Any, subgraph: Any, tensors: Sequence[int], kind: str) -> list[Any]:
    names = [text(subgraph.tensors[index].name) for index in tensors]
    maps = []
    for position, (index, name) in enumerate(zip(tensors, names, strict=True)):
        usable = name if name and names.count(name) == 1 else f"{kind}_{position}"
        maps.append(schema.TensorMapT(name=usable, tensorIndex=int(index)))
    return maps


def fold_float16_constants(model: Any) -> Remark | None:
    """Turn float16 constants behind a DEQUANTIZE into float32 ones: the quantizer finds no weights behind them."""
    from ai_edge_litert import schema_py_generated as schema

    folded = 0
    for subgraph, operator in operators_of(model, schema.BuiltinOperator.DEQUANTIZE):
        source, target = (subgraph.tensors[indices[0]] for indices in (operator.inputs, operator.outputs))
        raw = constant_bytes(model, source)
        is_half = source.type == schema.TensorType.FLOAT16 and raw is not None and source.sparsity is None
        if not is_half or operator.outputs[0] in subgraph.outputs:
            continue
        assert raw is not None
        model.buffers.append(schema.BufferT(data=raw.view(np.float16).astype(np.float32).view(np.uint8)))
        target.buffer = len(model.buffers) - 1
        subgraph.operators.remove(operator)
        folded += 1
    if folded:
        fill_unused_tensors(model)
    return remark(FLOAT16_FOLDED, constants=folded) if folded else None


def fill_unused_tensors(model: Any) -> Remark | None:
    """Make tensors that nothing reads or writes constants of one element.

    They have no memory at run time, and calibration, which looks at every tensor, fails on them. Constants among them
    only make the file larger. All keep their places, so that the indices of others stay what they were.
    """
    filled = 0
    for subgraph in model.subgraphs:
        used = _used_tensors(subgraph)
        for index, tensor in enumerate(subgraph.tensors):
            if index not in used and not tensor.isVariable:
                _empty(model, tensor)
                filled += 1
    return remark(UNUSED_TENSORS, tensors=filled) if filled else None


def _empty(model: Any, tensor: Any) -> None:
    from ai_edge_litert import schema_py_generated as schema

    model.buffers.append(schema.BufferT(data=np.zeros(4, np.uint8)))
    tensor.buffer, tensor.shape, tensor.shapeSignature = len(model.buffers) - 1, [1], None
    # A plain integer: it must not count as a weight.
    tensor.type, tensor.quantization, tensor.sparsity = schema.TensorType.INT32, None, None


def _used_tensors(subgraph: Any) -> set[int]:
    used = {int(index) for index in (*subgraph.inputs, *subgraph.outputs)}
    for operator in subgraph.operators or []:
        for indices in (operator.inputs, operator.outputs, operator.intermediates):
            used.update(int(index) for index in (indices if indices is not None else ()))
    return used


def _tensors_buffers(model: Any) -> set[int]:
    return {int(tensor.buffer) for subgraph in model.subgraphs for tensor in subgraph.tensors}


def _empty_buffers(model: Any, abandoned: set[int]) -> None:
    """Drop the bytes of buffers that edits took from the last tensor that used them; every index stays what it was.

    Other buffers may hold bytes for readers that hasten does not know.
    """
    entries = {int(entry.buffer) for entry in model.metadata or []}
    listed = model.metadataBuffer if model.metadataBuffer is not None else ()
    for index in abandoned - entries - {int(number) for number in listed}:
        model.buffers[index].data = None

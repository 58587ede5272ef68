"""OpenVINO's own counters: the time of each layer in the partitions that LiteRT's Intel plugin has compiled.

The plugin's dispatch library switches no counters on and hands none out. LiteRT can keep what the plugin compiled,
though, and that is what the dispatch library imports: the same bytes are imported here, with counters. Needs OpenVINO's
Python package, which brings the libraries that the plugin needs anyway, and NumPy.
"""

from __future__ import annotations

import io
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from hasten.core.errors import AcceleratorError
from hasten.engine.accelerators import npu_options
from hasten.engine.compiled import CompiledModel
from hasten.engine.tensors import plausible_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hasten.core.plan import Plan, Workload

_DISPATCH: Final = "DISPATCH_OP"
# What the plugin puts before OpenVINO's bytes: this name, and three numbers of 32 bits, the first of them a version.
_MAGIC: Final = b"LRTOVHDR\x01\x00\x00\x00"
_HEADER_BYTES: Final = 20
_WARM_UP_RUNS: Final = 3
_MOST_RUNS: Final = 200


@dataclass(frozen=True, slots=True)
class CountedLayer:
    """A layer that was run, and what OpenVINO counted."""

    partition: int
    name: str
    kind: str
    kernel: str
    elements: int
    """Of its first output; 0 where that is not known."""
    us: float
    """The median over the runs."""


def counted_layers(path: Path, plan: Plan, workload: Workload, seconds: float) -> list[CountedLayer]:
    """The layers of a model on the NPU plan, in the order in which they run; none where the plugin took nothing.

    On seeded inputs, for about that time.
    """
    try:
        import openvino
    except ImportError as error:
        raise AcceleratorError(
            f"OpenVINO's Python package cannot be imported: {error}.", "Run pip install 'hasten[openvino]'."
        ) from error
    with tempfile.TemporaryDirectory(prefix="hasten-") as folder:
        CompiledModel(path, replace(plan, cache=folder), workload, profiling=False).close()
        blobs = [blob for kept in sorted(Path(folder).rglob("*.tflite")) for blob in _partitions(kept.read_bytes())]
    core = openvino.Core()
    found: list[CountedLayer] = []
    device = "CPU" if npu_options() else "NPU"
    try:
        for place, blob in enumerate(blobs):
            compiled = core.import_model(io.BytesIO(blob), device, {"PERF_COUNT": True})
            found += _counted(openvino, compiled, place, workload.seed, seconds / len(blobs))
    except RuntimeError as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise AcceleratorError(f"OpenVINO does not count the layers: {reason}") from error
    return found


def _partitions(file: bytes) -> Iterator[bytes]:
    """What the plugin compiled, one for each operator of the kept model that dispatches a partition."""
    from ai_edge_litert import schema_py_generated as schema
    from flatbuffers import flexbuffers

    model = schema.Model.GetRootAs(file)
    for graph in (model.Subgraphs(place) for place in range(model.SubgraphsLength())):
        for operator in (graph.Operators(place) for place in range(graph.OperatorsLength())):
            if model.OperatorCodes(operator.OpcodeIndex()).CustomCode() != _DISPATCH.encode():
                continue
            options = flexbuffers.Loads(operator.CustomOptionsAsNumpy().tobytes())
            begin = options["bytecode_offset"]
            code = file[begin : begin + options["bytecode_size"]]
            if not code.startswith(_MAGIC):
                raise AcceleratorError(
                    "LiteRT's Intel plugin keeps its partitions in a form that hasten does not know."
                )
            yield code[_HEADER_BYTES:]


def _counted(openvino: Any, compiled: Any, partition: int, seed: int, seconds: float) -> Iterator[CountedLayer]:
    import numpy as np

    request = compiled.create_infer_request()
    for place, port in enumerate(compiled.inputs):
        dtype = port.get_element_type().to_dtype()
        shape = [int(size) for size in port.shape]
        raw = plausible_bytes(np.dtype(dtype).name, int(np.prod(shape)) * np.dtype(dtype).itemsize, seed + place)
        request.set_tensor(port, openvino.Tensor(np.frombuffer(raw, dtype).reshape(shape).copy()))
    counts: dict[str, list[float]] = {}
    told: dict[str, Any] = {}
    until = time.monotonic() + seconds
    for run in range(_WARM_UP_RUNS + _MOST_RUNS):
        request.infer()
        if run < _WARM_UP_RUNS:
            continue
        for layer in request.get_profiling_info():
            counts.setdefault(layer.node_name, []).append(layer.real_time.total_seconds() * 1e6)
            told[layer.node_name] = layer
        if time.monotonic() > until:
            break
    sizes = _sizes(compiled)
    for name, layer in told.items():
        if layer.status == openvino.ProfilingInfo.Status.EXECUTED:
            kind, kernel = str(layer.node_type), str(layer.exec_type)
            yield CountedLayer(partition, name, kind, kernel, sizes.get(name, 0), median(counts[name]))


def _sizes(compiled: Any) -> dict[str, int]:
    """The elements of each layer's first output, where the back end shows the graph that it runs."""
    try:
        layers = compiled.get_runtime_model().get_ordered_ops()
    except RuntimeError:
        return {}
    found = {}
    for layer in layers:
        shape = layer.get_output_partial_shape(0) if layer.get_output_size() else None
        if shape is not None and shape.is_static:
            size = 1
            for dimension in shape:
                size *= dimension.get_length()
            found[layer.friendly_name] = size
    return found

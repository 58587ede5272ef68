"""A script that reproduces a problem with LiteRT alone, and the commands that do it with hasten."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from hasten.core.cores import cores_text
from hasten.core.plan import Plan

if TYPE_CHECKING:
    from hasten.practices.help.facts import ModelFound

_RESOLVERS: Final = {"delegate": "AUTO", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}
# Only what every release of the package has. Random numbers are seeded, so that all see the same inputs.
_SCRIPT: Final = '''"""pip install ai-edge-litert=={release} numpy && python reproduce.py"""

import time

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

WIDE = ("int16", "int32", "int64", "bool", "uint16", "uint32", "uint64")


def load(resolver):
    model = Interpreter("{model}", num_threads={threads}, experimental_op_resolver_type=resolver)
    model.allocate_tensors()
    source = np.random.default_rng(0)
    for details in model.get_input_details():
        shape, dtype = tuple(details["shape"]), np.dtype(details["dtype"])
        if dtype.kind == "f":
            values = source.random(shape).astype(dtype)
        elif dtype.name in ("int8", "uint8"):
            values = source.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
        else:
            values = source.integers(0, 2, shape).astype(dtype) if dtype.name in WIDE else np.zeros(shape, dtype)
        model.set_tensor(details["index"], values)
    model.invoke()
    return model


def outputs(model):
    return [model.get_tensor(details["index"]).astype(np.float64) for details in model.get_output_details()]


def milliseconds(model):
    taken = []
    for _ in range(100):
        begin = time.perf_counter()
        model.invoke()
        taken.append(1e3 * (time.perf_counter() - begin))
    return np.median(taken)


model = load(OpResolverType.{resolver})
reference = load(OpResolverType.BUILTIN_REF)
for number, (one, other) in enumerate(zip(outputs(model), outputs(reference))):
    error = np.abs(one - other).max(initial=0.0)
    print(f"output {{number}}: largest difference from the reference kernels {{error:.6g}}")
print(f"median latency {{milliseconds(model):.3f}} ms, reference kernels {{milliseconds(reference):.3f}} ms")
'''


def script(found: ModelFound, model: str) -> str:
    """The script; plans of other devices than the CPU need more than the classic interpreter, and get none."""
    if not found.plan.runs_on_cpu:
        return ""
    release = found.machine.engine if found.machine is not None else ""
    text = _SCRIPT if release else _SCRIPT.replace("=={release}", "")
    return text.format(release=release, model=model, threads=found.plan.threads, resolver=_RESOLVERS[found.plan.kernel])


def commands(found: ModelFound, model: str) -> list[str]:
    """The commands that reproduce the figures, on the model of the bundle."""
    asked = shlex.quote(f"{model}@{plan}" if (plan := plan_text(found.plan)) else model)
    reference = shlex.quote(f"{model}@kernel=reference")
    lines = [f"hasten bench {asked}", f"hasten profile {asked}", f"hasten compare {reference} {asked} --explain"]
    releases = [] if found.releases is None else [row.release for row in found.releases.rows]
    if releases:
        lines.append(f"hasten doctor {asked} --versions {','.join(releases)}")
    return [*lines, f"hasten doctor {asked}"]


def plan_text(plan: Plan) -> str:
    """What differs from the usual plan, as `threads=2,kernel=builtin`; a delegate by its file name only."""
    parts = []
    for item in fields(Plan):
        value = getattr(plan, item.name)
        if item.name == "options":
            parts += [f"{key}={setting}" for key, setting in value]
        elif item.name == "cores":
            parts += [f"cores={cores_text(value)}"] if value else []
        elif item.name == "delegate":
            parts += [f"delegate={value.rsplit('/', 1)[-1]}"] if value else []
        elif item.name != "cache" and value != item.default:
            parts.append(f"{item.name}={value}")
    return ",".join(parts)

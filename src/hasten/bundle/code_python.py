"""Python that runs a bundle's model. On a plain CPU plan it needs LiteRT and NumPy only, and works on tensor() views,
which LiteRT's own Python offers without a copy; other plans go through hasten.Runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hasten.bundle.code_shared import headline, tensor_comment
from hasten.core.plan import Plan

if TYPE_CHECKING:
    from hasten.bundle.record import Bundle, BundleTensor

_RESOLVERS: Final = {"builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}

_VIEWS: Final = '''"""Runs {headline}. Written by hasten; needs ai-edge-litert and numpy.

Inputs are written into the model's own memory and outputs are read from it, so that nothing is copied. A view is good
until the next run: take it anew each time, and copy what is to be kept. One thread at a time.
"""

{imports}

MODEL = {path}


class FastModel:
    """The model, ready to run."""

    def __init__(self, path=MODEL):
        {affinity}self._interpreter = interpreter = Interpreter(str(path), num_threads={threads}{resolver})
        inputs, outputs = _tensor_indices(interpreter)
{resizes}        interpreter.allocate_tensors()
        self._inputs = {{name: interpreter.tensor(index) for name, index in inputs.items()}}
        self._outputs = {{name: interpreter.tensor(index) for name, index in outputs.items()}}

    def input(self, name):
        """The input's memory: write into it."""
        return self._inputs[name]()

    def output(self, name):
        """The output's memory after a run."""
        return self._outputs[name]()

    def run(self):
        """One inference on what stands in the inputs. Let go of all views first."""
        self._interpreter.invoke()


def _tensor_indices(interpreter):
    """The names that the model's signature uses, with the numbers of their tensors."""
    for key in interpreter.get_signature_list():
        signature = interpreter.get_signature_runner(key)
        sides = signature.get_input_details(), signature.get_output_details()
        return tuple({{name: entry["index"] for name, entry in side.items()}} for side in sides)
    sides = interpreter.get_input_details(), interpreter.get_output_details()
    return tuple({{entry["name"]: entry["index"] for entry in side}} for side in sides)


if __name__ == "__main__":
    model = FastModel()
{fill}
    model.run()
{read}
'''

_RUNNER: Final = '''"""Runs {headline}. Written by hasten; needs hasten and numpy.

Inputs are written into the model's own memory and outputs are read from it: on the CPU nothing is copied. A GPU or NPU
has memory of its own, to which each run copies once.
"""

{imports}

MODEL = {path}


def load(path=MODEL):
    """The model, ready to run; close it when it is not needed any more, or use it in a `with`."""
    return hasten.Runner(
        path,
        {plan},{workload}
    )


if __name__ == "__main__":
    with load() as model:
{fill}
        model.run()
{read}
'''


def python_code(bundle: Bundle, path: str = "", *, runner: bool = False) -> str:
    """A module, and an example that runs the model on zeros.

    The model is found beside the module's folder, as in a bundle, or at the path given. `runner` goes through
    hasten.Runner where LiteRT's own Python would do.
    """
    place = f"Path({path!r})" if path else f"Path(__file__).resolve().parent.parent / {bundle.model_file!r}"
    return _runner(bundle, place) if runner or not is_plain(bundle) else _views(bundle, place)


def is_plain(bundle: Bundle) -> bool:
    """Whether LiteRT's classic interface can do all that the plan asks for."""
    plan = bundle.plan
    return Plan(threads=plan.threads, kernel=plan.kernel, cores=plan.cores) == plan and not bundle.workload.signature


def _views(bundle: Bundle, place: str) -> str:
    resolver = _RESOLVERS.get(bundle.plan.kernel)
    imported = "Interpreter, OpResolverType" if resolver else "Interpreter"
    standard = ["import os"] if bundle.plan.cores else []
    imports = [*standard, "from pathlib import Path", "", f"from ai_edge_litert.interpreter import {imported}"]
    affinity = f"os.sched_setaffinity(0, {set(bundle.plan.cores)})  # before LiteRT starts its threads\n        "
    return _VIEWS.format(
        headline=headline(bundle),
        imports="\n".join(imports),
        path=place,
        affinity=affinity if bundle.plan.cores else "",
        threads=bundle.plan.threads,
        resolver=f",\n            experimental_op_resolver_type=OpResolverType.{resolver}" if resolver else "",
        resizes="".join(
            f"        interpreter.resize_tensor_input(inputs[{name!r}], {list(shape)})\n"
            for name, shape in bundle.workload.shapes
        ),
        fill="\n".join(_fill("input({name!r})", tensor, "    ") for tensor in bundle.inputs),
        read="\n".join(_read("output({name!r})", tensor, "    ") for tensor in bundle.outputs),
    )


def _runner(bundle: Bundle, place: str) -> str:
    plain, workload = Plan(), bundle.workload
    asked = [
        f"{name}={getattr(bundle.plan, name)!r}"
        for name in ("accelerator", "threads", "kernel", "precision", "delegate", "options", "cache", "cores")
        if getattr(bundle.plan, name) != getattr(plain, name)
    ]
    what = f"\n        hasten.Workload(signature={workload.signature!r}, shapes={workload.shapes!r}),"
    return _RUNNER.format(
        headline=headline(bundle),
        imports="from pathlib import Path\n\nimport hasten",
        path=place,
        plan=f"hasten.Plan({', '.join(asked)})",
        workload=what if workload.signature or workload.shapes else "",
        fill="\n".join(_fill("inputs[{name!r}]", tensor, "        ") for tensor in bundle.inputs),
        read="\n".join(_read("outputs[{name!r}]", tensor, "        ") for tensor in bundle.outputs),
    )


def _fill(access: str, tensor: BundleTensor, indent: str) -> str:
    return f"{indent}model.{access.format(name=tensor.name)}[...] = 0  # {tensor_comment(tensor)}"


def _read(access: str, tensor: BundleTensor, indent: str) -> str:
    place = access.format(name=tensor.name)
    return f"{indent}print({tensor.name!r}, model.{place}.ravel()[:5])  # {tensor_comment(tensor)}"

"""A made-up session of `hasten tune`, of any length, to render: no figure in it was ever measured.

Also a program, for tests and benchmarks that want the file: `python tune_session.py OUT.jsonl --trials 500`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from hasten.core import session as session_file
from hasten.core.plan import Plan
from hasten.core.session import Session

Line = tuple[str, str, dict[str, Any]]

ORIGINAL_MS: Final = 12.4
PRACTICES: Final = ("choose", "profile", "operators", "quantize", "threads", "copies", "app", "accelerators", "help")
_VARIANTS: Final = {
    # recipe → share of the original's time, top-1, size
    "original": (1.0, 0.921, 14_000_000),
    "float16": (0.99, 0.921, 7_010_000),
    "dynamic_wi8_afp32": (0.74, 0.919, 3_650_000),
    "static_wi8_ai8": (0.52, 0.918, 3_690_000),
    "static_wi8_ai16": (0.81, 0.9205, 3_720_000),
    "weight_only_wi4_afp32": (1.07, 0.897, 1_960_000),
    "mixed 3 nodes float": (0.55, 0.9204, 3_900_000),
}


def tune_lines(trials: int = 60, seed: int = 0, name: str = "mobilenet_v2.tflite") -> list[Line]:
    """The lines of a session: settings, environment, trials, profiles, practices, findings, the result."""
    draw = random.Random(seed)
    tried = [_trial(draw, number) for number in range(trials)]
    chosen = min((data for data in tried if data["status"] == "kept"), key=lambda data: data["latency"]["median_ms"])
    chosen.update(status="chosen", stage="final")
    model = f"models/{name}"
    lines: list[Line] = [
        (
            "settings",
            "tune",
            {
                "model": model,
                "sha256": "ab" * 32,
                "size": 14_000_000,
                "data": "images/",
                "max_drop": 0.01,
                "limit": "",
                "budget_s": 300.0,
                "target": "local",
                "seed": 0,
                "command": f"hasten tune {model} --data images/ --budget 5m -o tuned",
            },
        ),
        ("environment", "", _environment()),
        *(("trial", data["id"], data) for data in tried),
        ("profile", "before", _profile(draw, 1.0)),
        ("profile", "after", _profile(draw, 0.5)),
        ("threads", model, _threads(model)),
        ("accelerators", model, _accelerators(model)),
        ("copies", model, _copies()),
        *(("step", step["practice"], step) for step in _steps(chosen["latency"]["median_ms"])),
        *(("finding", finding["practice"], finding) for finding in _findings()),
        ("result", "tune", _result(model, tried, chosen)),
    ]
    return lines


def session_of(lines: list[Line], lost_lines: int = 0, header: dict[str, Any] | None = None) -> Session:
    """The lines as if read from a file."""
    trials = tuple(
        session_file.Line(kind, label, _stamp(number), data) for number, (kind, label, data) in enumerate(lines)
    )
    return Session(header or {"hasten_session": 1, "hasten": "0.1.0", "command": "tune"}, trials, lost_lines)


def write(path: Path, lines: list[Line]) -> None:
    """The lines as a session file."""
    entries: list[dict[str, Any]] = [{"hasten_session": 1, "created": _stamp(0), "hasten": "0.1.0", "command": "tune"}]
    for number, (kind, label, data) in enumerate(lines):
        entries.append({"kind": kind, "label": label, "at": _stamp(number), "data": data})
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")


def _stamp(number: int) -> str:
    return f"2026-11-15T{10 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}+00:00"


def _trial(draw: random.Random, number: int) -> dict[str, Any]:
    variants = list(_VARIANTS)
    variant, threads = variants[number % len(variants)], 1 + number // len(variants) % 4
    share, accuracy, size = _VARIANTS[variant]
    options = () if number < 28 else (("cpu.flags", str(number)),)
    plan = Plan(threads=threads, options=options)
    ratio = share / (1 + 0.55 * math.log2(threads)) * draw.uniform(0.97, 1.03 if number < 28 else 1.4)
    ratio = 1.0 if number == 0 else ratio
    latency = ORIGINAL_MS * ratio
    status = "broken" if accuracy < 0.911 else "kept" if number % 3 == 0 or number < 4 else "dropped"
    failed = number % 17 == 11
    known = status in ("kept", "broken") and not failed
    return {
        "id": f"{variant}@{plan.describe()}",
        "variant": variant,
        "plan": asdict(plan),
        "status": "failed" if failed else status,
        "stage": "race" if status == "dropped" else "accuracy",
        "latency": None if failed else {"median_ms": latency, "ci95_ms": [latency * 0.985, latency * 1.015]},
        "against_original": None
        if failed or number == 0
        else {
            "verdict": "faster" if ratio < 1 else "slower",
            "ratio": ratio,
            "ci95": [ratio * 0.98, ratio * 1.02],
            "smallest_detectable": 0.02,
            "rounds": 6,
        },
        "accuracy": {
            "metric": "top-1",
            "value": accuracy,
            "ci95": [accuracy - 0.012, accuracy + 0.011],
            "samples": 2000,
            "data": "images/",
            "kind": "accuracy",
            "notes": [],
        }
        if known
        else None,
        "accuracy_on": "reporting" if known else "",
        "size": size,
        "zipped_size": int(size * 0.9),
        "peak_memory_mb": None if failed else 9.5 + size / 1e6,
        "init_ms": None if failed else 18.0,
        "why": "the runner crashed while loading it"
        if failed
        else "surely slower than the best"
        if status == "dropped"
        else "loses 2.4 % of top-1, more than 1 %"
        if status == "broken"
        else "",
        "doubts": [{"reason": "noisy", "evidence": "the interval is ±2.1 % wide", "hint": "Give it more time."}]
        if number % 7 == 3
        else [],
        "elapsed_s": 2.0 + number * 1.3,
    }


def _environment() -> dict[str, Any]:
    return {
        "system": "Linux",
        "release": "6.1.0",
        "architecture": "x86_64",
        "python": "3.11.2",
        "cpu": "A made-up CPU",
        "cores": 4,
        "memory_mb": 16000,
        "instructions": ["avx2", "fma", "avx512_vnni"],
        "governor": None,
        "hypervisor": False,
        "hasten": "0.1.0",
        "litert": "2.3.0",
        "platform": "Linux-6.1.0-x86_64",
    }


def _profile(draw: random.Random, share: float) -> dict[str, Any]:
    kinds = ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "MEAN", "FULLY_CONNECTED", "SOFTMAX", "PAD", "RESHAPE")
    weights = (6.0, 2.0, 0.2, 0.1, 0.9, 0.05, 0.3, 0.01)
    raw = [(kinds[i % 3 if i < 60 else 3 + i % 5], draw.uniform(0.5, 1.5)) for i in range(66)]
    times = [weights[kinds.index(kind)] * factor for kind, factor in raw]
    scale = ORIGINAL_MS * share / sum(times)
    operators = []
    for index, ((kind, _), weight) in enumerate(zip(raw, times, strict=True)):
        ms = weight * scale
        macs = int(weight * 1.1e6) if weight > 0.5 else None
        operators.append(
            {
                "index": index,
                "op": kind,
                "kernel": "Convolution (NHWC, F32) IGEMM" if "CONV" in kind else None,
                "location": f"model/block_{index // 3}/{kind.lower()}",
                "shapes": "1x28x28x32 -> 1x28x28x64",
                "ms": ms,
                "share": ms / ORIGINAL_MS / share,
                "macs": macs,
                "flops": macs and 2 * macs,
                "bytes": int(8e5 * draw.uniform(0.4, 2.5)),
                "gflops": macs and 2 * macs / ms / 1e6,
                "bound": "compute" if weight > 2 else "memory",
                "headroom_ms": ms * 0.4,
                "mapped": "exact",
                "partition": 0,
                "fused": [],
            }
        )
    total = ORIGINAL_MS * share
    return {
        "invoke_ms": total * 1.02,
        "latency_ms": total,
        "plain_ms": total,
        "profiled_ms": total * 1.03,
        "coverage": 0.985,
        "runs": 160,
        "ops": operators,
        "partitions": [{"number": 0, "delegated": True, "nodes": list(range(66)), "operators": [], "ms": total}],
        "peaks": {
            "threads": 1,
            "float_gflops": 74.0,
            "int8_gops": 210.0,
            "bandwidth": [[100_000, 60.0], [10**8, 11.0]],
        },
        "doubts": [],
    }


def _threads(model: str) -> dict[str, Any]:
    rows = []
    conditions = (
        ("quiet", None, 0, 1.0),
        ("shared", "compute", 2, 1.35),
        ("shared", "memory", 2, 1.5),
        ("busy", "compute", 4, 2.3),
        ("busy", "memory", 4, 2.6),
    )
    for load, kind, workers, slow in conditions:
        for threads in (1, 2, 3, 4):
            ms = 6.4 * slow * (1 / (1 + 0.6 * math.log2(threads)) if slow < 2 else 1 + 0.1 * threads)
            rows.append(
                {
                    "threads": threads,
                    "load": load,
                    "median_ms": ms,
                    "p95_ms": ms * 1.2,
                    "cpu_seconds": ms * threads / 1e3,
                    "cores": [],
                    "load_kind": kind,
                    "load_workers": workers,
                    "ci95_ms": [ms * 0.96, ms * 1.05],
                    "doubts": [],
                }
            )
    why = "4 threads are 2.20 times as fast as 1 alone (at least 5 % for each doubling is asked for)."
    return {
        "model": {"path": model, "size_bytes": 14_000_000, "sha256": ""},
        "plan": {"threads": 1},
        "load": "quiet",
        "rows": rows,
        "recommended": 4,
        "by_load": {"quiet": {"threads": 4, "cores": [], "sure": True, "why": why}},
        "effect": [],
        "cores": 4,
        "doubts": [],
        "why": why,
    }


def _accelerators(model: str) -> dict[str, Any]:
    def row(name: str, status: str, ms: float | None, ratio: float | None, why: str) -> dict[str, Any]:
        latency = None if ms is None else {"median_ms": ms, "ci95_ms": [ms * 0.97, ms * 1.04], "p95_ms": ms * 1.2}
        return {
            "name": name,
            "status": status,
            "placed_ops": 66,
            "total_ops": 66,
            "partitions": 1,
            "max_error": 0.002,
            "latency": latency,
            "init_ms": 20.0,
            "break_even_runs": 12,
            "why": why,
            "doubts": [],
            "against_cpu": None
            if ratio is None
            else {
                "verdict": "slower",
                "ratio": ratio,
                "ci95": [ratio * 0.97, ratio * 1.03],
                "smallest_detectable": 0.02,
                "rounds": 6,
            },
            "first_run_ms": 14.0,
            "plan": {"accelerator": name if name in ("gpu", "npu") else "cpu", "threads": 4},
        }

    rows = [
        row("xnnpack", "runs", 12.4, None, ""),
        row("builtin", "runs", 31.0, 2.5, "2.50 times the time of XNNPACK"),
        row("gpu", "imprecise", 24.1, 1.94, "some outputs are off by 31 % of the range"),
        row("npu", "missing", None, None, "no plugin for this device"),
    ]
    return {"model": model, "rows": rows, "recommended": "xnnpack", "why": "XNNPACK on the CPU is the fastest."}


def _copies() -> dict[str, Any]:
    ways = (
        ("copying", "set_tensor", "in", 84.0),
        ("buffers", "TensorBuffer.write", "in", 30.0),
        ("views", "tensor() view", "in", 2.1),
        ("copying", "get_tensor", "out", 11.0),
        ("buffers", "TensorBuffer.read", "out", 5.0),
        ("views", "tensor() view", "out", 1.4),
        ("copying", "set_tensor + get_tensor", "both", 95.0),
        ("views", "tensor() view", "both", 3.5),
    )
    rows = [
        {
            "key": key,
            "way": way,
            "direction": side,
            "us": us,
            "ci95_us": [us * 0.97, us * 1.03],
            "share": us / 12400,
            "reason": "",
            "fault": False,
        }
        for key, way, side, us in ways
    ]
    return {
        "model": {"path": "models/mobilenet_v2.tflite", "size_bytes": 14_000_000, "sha256": ""},
        "plan": {"accelerator": "cpu", "threads": 4},
        "rows": rows,
        "recommended": "tensor() views",
        "snippet": "with hasten.Runner('tuned') as model:\n    ...",
        "language": "python",
        "inference_us": 12400.0,
        "inference_ci95_us": [12300.0, 12500.0],
        "input_bytes": 602_112,
        "output_bytes": 4_000,
        "processes": 3,
        "finding": {"practice": "copies", "verdict": "good", "evidence": "It costs little.", "what_to_do": ""},
        "doubts": [],
    }


def _steps(final_ms: float) -> list[dict[str, Any]]:
    stations = [
        ("quantize", ORIGINAL_MS, 6.6, "static_wi8_ai8"),
        ("threads", 6.6, final_ms + 0.08, "4 threads"),
        ("copies", final_ms + 0.08, final_ms, "inputs written in place"),
    ]
    return [
        {
            "practice": practice,
            "from_ms": a,
            "to_ms": b,
            "ratio": b / a,
            "ci95": [b / a * 0.98, b / a * 1.02],
            "what": what,
        }
        for practice, a, b, what in stations
    ]


def _findings() -> list[dict[str, Any]]:
    said = {
        "choose": ("good", "No other model for the task is faster at this accuracy.", ""),
        "profile": ("good", "98.5 % of the time is mapped to operators; CONV_2D takes 71 %.", ""),
        "operators": ("to do", "PAD before 4 convolutions takes 0.3 ms.", "Fuse the padding: worth about 2 %."),
        "quantize": ("improved", "static_wi8_ai8 is 1.88 times faster, 95 % interval 1.85 to 1.92.", ""),
        "threads": ("improved", "4 threads are 2.10 times faster than 1, 95 % interval 2.05 to 2.16.", ""),
        "copies": ("improved", "Written in place, inputs cost 2 µs in place of 84 µs.", ""),
        "app": ("not examined", "No application was named.", "Run hasten app -- python app.py."),
        "accelerators": ("good", "XNNPACK on the CPU is the fastest.", ""),
        "help": ("good", "No operator of this model has a known problem.", ""),
    }
    return [
        {"practice": name, "verdict": said[name][0], "evidence": said[name][1], "what_to_do": said[name][2]}
        for name in PRACTICES
    ]


def _result(model: str, tried: list[dict[str, Any]], chosen: dict[str, Any]) -> dict[str, Any]:
    speedup = ORIGINAL_MS / chosen["latency"]["median_ms"]
    top = chosen["accuracy"]["value"]
    return {
        "model": model,
        "verdict": f"{speedup:.1f} times faster, 95 % interval {speedup * 0.98:.1f}-{speedup * 1.02:.1f}, "
        f"top-1 92.1 % → {top:.1%}, {1 - chosen['size'] / 14e6:.0%} smaller.",
        "verdicts": _findings(),
        "best": {
            "model": "tuned/model.tflite",
            "variant": chosen["variant"],
            "plan": chosen["plan"],
            "speedup": speedup,
            "ci95": [speedup * 0.98, speedup * 1.02],
            "accuracy": chosen["accuracy"],
            "size": chosen["size"],
            "size_ratio": chosen["size"] / 14e6,
        },
        "front": [],
        "trials": len(tried),
        "seconds": 287.0,
        "interrupted": False,
    }


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--name", default="mobilenet_v2.tflite")
    given = parser.parse_args()
    write(given.output, tune_lines(given.trials, name=given.name))


if __name__ == "__main__":
    _main()

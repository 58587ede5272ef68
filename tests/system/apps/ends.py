"""A program that runs a model for a while and then ends in the way that its first argument names."""

import asyncio
import ctypes
import importlib
import multiprocessing
import os
import sys
import threading
import time

import numpy as np


def interpreter(package, model):
    module = importlib.import_module(package)
    made = getattr(module, "lite", module).Interpreter(model)
    made.allocate_tensors()
    return made


def infer(model, count=400, package="ai_edge_litert.interpreter"):
    made = interpreter(package, model)
    inputs, outputs = made.get_input_details(), made.get_output_details()
    values = [np.ones(entry["shape"], np.float32) for entry in inputs]
    for _ in range(count):
        for entry, value in zip(inputs, values):
            made.set_tensor(entry["index"], value)
        made.invoke()
        result = made.get_tensor(outputs[0]["index"])
    return float(result.sum())


def in_processes(model, method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        print(sum(pool.starmap(infer, [(model, 400)] * 4)) > 0)


def in_threads(model):
    workers = [threading.Thread(target=infer, args=(model, 20_000), name=f"worker {i}") for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


async def in_executor(model):
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, infer, model) for _ in range(2)))


def main(how, model):
    print("out", flush=True)
    print("err", file=sys.stderr, flush=True)
    if how == "processes-fork":
        in_processes(model, "fork")
    elif how == "processes-spawn":
        in_processes(model, "spawn")
    elif how == "threads":
        in_threads(model)
    elif how == "asyncio":
        asyncio.run(in_executor(model))
    elif how == "forever":
        while True:
            infer(model)
            print("round", flush=True)
    elif how.startswith("package:"):
        infer(model, package=how.partition(":")[2])
    elif how != "crash at once":
        infer(model)
    if how == "exception":
        interpreter("ai_edge_litert.interpreter", model).set_tensor(10**6, np.ones(1))
    if how == "exit":
        sys.exit(7)
    if how == "os._exit":
        os._exit(9)
    if how == "crash":
        begin = time.monotonic()
        while time.monotonic() - begin < 0.8:  # longer than it takes until what was seen is written
            infer(model)
        ctypes.string_at(0)
    if how == "crash at once":
        interpreter("ai_edge_litert.interpreter", model)
        ctypes.string_at(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

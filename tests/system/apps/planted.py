"""An application with ten planted faults, one in each stage; `# fault: RULE` marks the line that is to be named.

    python planted.py MODELS [--repaired all|STAGE,…] [--only STAGE,…] [--rounds X] [--cpu] [--threads N]

Prints the seconds of each stage as JSON. It knows nothing of hasten.
"""

import argparse
import asyncio
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

SIDE = 64
REPAIRED_THREADS = 1
now = time.perf_counter


def ready(path, threads=1):
    interpreter = Interpreter(str(path), num_threads=threads)
    interpreter.allocate_tensors()
    return interpreter


def indices(interpreter):
    inputs = [entry["index"] for entry in interpreter.get_input_details()]
    return inputs, [entry["index"] for entry in interpreter.get_output_details()]


def reload(models, repaired, rounds):
    image = np.ones((1, SIDE, SIDE, 3), np.float32)
    kept = ready(models / "small.tflite")
    inputs, outputs = indices(kept)
    begin = now()
    for _ in range(150 * rounds):
        if repaired:
            interpreter = kept
        else:
            interpreter = Interpreter(str(models / "small.tflite"), num_threads=1)  # fault: model loaded again
            interpreter.allocate_tensors()
        interpreter.set_tensor(inputs[0], image)
        interpreter.invoke()
        interpreter.get_tensor(outputs[0])[0].argmax()
    return now() - begin


def resize(models, repaired, rounds):
    shapes = ([1, 8, 8, 16], [1, 8, 16, 16])
    images = [np.ones(shape, np.float32) for shape in shapes]
    interpreters = [ready(models / "deep.tflite") for _ in shapes]
    for interpreter, shape in zip(interpreters, shapes):
        interpreter.resize_tensor_input(indices(interpreter)[0][0], shape)
        interpreter.allocate_tensors()
        interpreter.invoke()
    index = indices(interpreters[0])[0][0]
    begin = now()
    for number in range(600 * rounds):
        interpreter = interpreters[number % 2 if repaired else 0]
        if not repaired:
            interpreter.resize_tensor_input(index, shapes[number % 2])  # fault: resized on every frame
            interpreter.allocate_tensors()
        interpreter.set_tensor(index, images[number % 2])
        interpreter.invoke()
    return now() - begin


def convert(models, repaired, rounds):
    frames = [np.random.default_rng(seed).random((1, 1 << 18)) for seed in range(4)]
    if repaired:
        frames = [frame.astype(np.float32) for frame in frames]
    interpreter = ready(models / "wide.tflite")
    inputs, _ = indices(interpreter)
    begin = now()
    for number in range(2000 * rounds):
        frame = frames[number % 4]
        if not repaired:
            frame = frame.astype(np.float32)  # fault: input converted
        interpreter.set_tensor(inputs[0], frame)
        interpreter.invoke()
    return now() - begin


def stride(models, repaired, rounds):
    frames = [np.random.default_rng(seed).random((1 << 9, 1 << 9), np.float32) for seed in range(4)]
    frames = [frame.T for frame in frames]
    if repaired:
        frames = [np.ascontiguousarray(frame) for frame in frames]
    interpreter = ready(models / "square.tflite")
    inputs, _ = indices(interpreter)
    begin = now()
    for number in range(200 * rounds):
        interpreter.set_tensor(inputs[0], frames[number % 4])  # fault: input converted
        interpreter.invoke()
    return now() - begin


def unused(models, repaired, rounds):
    interpreter = ready(models / "two.tflite")
    _, outputs = indices(interpreter)
    small, large = sorted(outputs, key=lambda index: interpreter.get_tensor(index).size)
    total = 0.0
    begin = now()
    for _ in range(2000 * rounds):
        interpreter.invoke()
        total += interpreter.get_tensor(small).sum()
        if not repaired:
            mask = interpreter.get_tensor(large)  # fault: output never used
    return now() - begin


def copied(models, repaired, rounds):
    interpreter = ready(models / "square.tflite")
    _, outputs = indices(interpreter)
    view = interpreter.tensor(outputs[0])
    best = 0.0
    begin = now()
    for _ in range(5000 * rounds):
        interpreter.invoke()
        if repaired:
            best = max(best, view()[::64].max())
        else:
            best = max(best, interpreter.get_tensor(outputs[0])[::64].max())  # fault: output copied
    return now() - begin


def normalised(pixels):
    """Slow: a loop over pixels."""
    values = np.empty(len(pixels), np.float32)
    for place, pixel in enumerate(pixels):
        values[place] = (pixel - 127.5) / 127.5  # fault: pre-processing dominates
    return values.reshape(1, SIDE, SIDE, 3)


def normalised_at_once(pixels):
    return ((pixels - np.float32(127.5)) / np.float32(127.5)).reshape(1, SIDE, SIDE, 3)


def preprocess(models, repaired, rounds):
    image = np.arange(SIDE * SIDE * 3, dtype=np.float32) % 255
    pixels = image.tolist()
    interpreter = ready(models / "small.tflite")
    inputs, outputs = indices(interpreter)
    begin = now()
    for _ in range(300 * rounds):
        value = normalised_at_once(image) if repaired else normalised(pixels)
        interpreter.set_tensor(inputs[0], value)
        interpreter.invoke()
        interpreter.get_tensor(outputs[0])[0].argmax()
    return now() - begin


def threads(models, repaired, rounds):
    if repaired:
        interpreter = ready(models / "threads.tflite", REPAIRED_THREADS)
    else:
        interpreter = Interpreter(str(models / "threads.tflite"), num_threads=8)  # fault: more threads than cores
        interpreter.allocate_tensors()
    interpreter.invoke()
    begin = now()
    for _ in range(300 * rounds):
        interpreter.invoke()
    return now() - begin


def fight(models, repaired, rounds):
    def work(interpreter):
        for _ in range(300 * rounds):
            interpreter.invoke()

    crew = []
    for _ in range(2):
        path = str(models / "fight.tflite")
        crew.append(Interpreter(path, num_threads=1 if repaired else 4))  # fault: interpreters fight for cores
    for interpreter in crew:
        interpreter.allocate_tensors()
        interpreter.invoke()
    begin = now()
    workers = [threading.Thread(target=work, args=(interpreter,)) for interpreter in crew]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return now() - begin


def event_loop(models, repaired, rounds):
    """Runs of a model, and answers to somebody who asks every few milliseconds: the time until both are through."""
    interpreter = ready(models / "conv.tflite")
    interpreter.invoke()
    count = 60 * rounds
    each = 0.004

    def run():
        interpreter.invoke()  # fault: inference on the event loop

    async def infer():
        for _ in range(count):
            if repaired:
                await asyncio.get_running_loop().run_in_executor(None, run)
            else:
                run()

    async def answer():
        end = time.perf_counter() + count * each
        while time.perf_counter() < end:
            await asyncio.sleep(each)

    async def both():
        await asyncio.gather(infer(), answer())

    begin = now()
    asyncio.run(both())
    return now() - begin


def cold(models, repaired, rounds):
    interpreter = ready(models / "cold.tflite")
    if repaired:
        interpreter.invoke()
    begin = now()
    for _ in range(12):
        interpreter.invoke()  # fault: first run not warmed up
    return now() - begin


STAGES = {
    "reload": reload,
    "resize": resize,
    "convert": convert,
    "stride": stride,
    "unused": unused,
    "copied": copied,
    "preprocess": preprocess,
    "threads": threads,
    "fight": fight,
    "event_loop": event_loop,
    "cold": cold,
}


def chosen(text):
    return set(STAGES) if text == "all" else set(filter(None, text.split(",")))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("--repaired", type=chosen, default=set())
    parser.add_argument("--only", type=chosen, default=set(STAGES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="seconds of CPU of this thread: others move them less")
    parser.add_argument("--threads", type=int, default=1, help="of the stage threads, once repaired")
    arguments = parser.parse_args()
    global now, REPAIRED_THREADS
    REPAIRED_THREADS = arguments.threads
    # Of this thread alone: the threads of BLAS spin for some 40 ms once numpy is imported.
    now = time.thread_time if arguments.cpu else time.perf_counter
    seconds = {}
    for name, stage in STAGES.items():
        if name in arguments.only:
            seconds[name] = stage(arguments.models, name in arguments.repaired, arguments.rounds)
    json.dump(seconds, sys.stdout)
    print()


if __name__ == "__main__":
    main()

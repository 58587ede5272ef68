"""An ordinary pipeline: a camera thread fills a queue, a worker runs the model on views of its memory."""

import queue
import sys
import threading
import time

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def camera(frames, count):
    generator = np.random.default_rng(0)
    for _ in range(count):
        time.sleep(0.005)
        frames.put(generator.random((1, 64, 64, 32), np.float32))
    frames.put(None)


class Detector:
    def __init__(self, path):
        self.interpreter = Interpreter(path, num_threads=1)
        self.interpreter.allocate_tensors()
        self.image = self.interpreter.tensor(self.interpreter.get_input_details()[0]["index"])
        self.result = self.interpreter.tensor(self.interpreter.get_output_details()[0]["index"])
        self.interpreter.invoke()

    def detect(self, frame):
        self.image()[...] = frame
        self.interpreter.invoke()
        return float(self.result().max())


def work(frames, path):
    detector = Detector(path)
    best = 0.0
    while (frame := frames.get()) is not None:
        best = max(best, detector.detect(frame))
    print(best >= 0)


def main(models):
    frames = queue.Queue(4)
    worker = threading.Thread(target=work, args=(frames, f"{models}/conv.tflite"), name="worker")
    worker.start()
    camera(frames, 60)
    worker.join()


main(sys.argv[1])

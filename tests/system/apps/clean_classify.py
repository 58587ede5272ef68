"""An ordinary script: load a model once, classify images one after the other, count the classes."""

import sys
from collections import Counter

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def images(count):
    generator = np.random.default_rng(0)
    frames = generator.integers(0, 255, (8, 64, 64, 32), np.uint8)
    for number in range(count):
        yield frames[number % len(frames)]


def prepared(image):
    return (image[np.newaxis].astype(np.float32) - np.float32(127.5)) / np.float32(127.5)


def main(models):
    interpreter = Interpreter(model_path=f"{models}/conv.tflite", num_threads=1)
    interpreter.allocate_tensors()
    image_index = interpreter.get_input_details()[0]["index"]
    scores_index = interpreter.get_output_details()[0]["index"]
    interpreter.invoke()
    seen = Counter()
    for image in images(60):
        interpreter.set_tensor(image_index, prepared(image))
        interpreter.invoke()
        scores = interpreter.get_tensor(scores_index)
        seen[int(scores[0, 0, 0].argmax())] += 1
    print(sum(seen.values()))


main(sys.argv[1])

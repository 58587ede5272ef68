"""An ordinary program on the new API: buffers made once, written, run and read in a loop; pauses between requests."""

import sys
import time

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel


def main(models):
    model = CompiledModel.from_file(f"{models}/conv.tflite")
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    frame = np.ones((1, 64, 64, 32), np.float32)
    model.run_by_index(0, inputs, outputs)
    total = 0.0
    for number in range(60):
        frame[0, 0, 0, 0] = number
        inputs[0].write(frame)
        model.run_by_index(0, inputs, outputs)
        total += outputs[0].read(64 * 64 * 32, np.float32)[0]
        time.sleep(0.002)
    print(total >= 0)


main(sys.argv[1])

"""Reads digits, one picture after the other, with a mistake that is easily made."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from hasten.demo import DATA, MODEL


def digit(picture):
    interpreter = Interpreter(str(MODEL))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, picture[np.newaxis].astype(np.float32))
    interpreter.invoke()
    return int(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).argmax())


digits = [digit(picture) for picture in np.load(DATA)["x"][:200]]
print(f"{len(digits)} pictures, {len(set(digits))} kinds of digits")

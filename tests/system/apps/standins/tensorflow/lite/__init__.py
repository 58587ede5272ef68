"""A stand-in. See README.md."""

from tensorflow.lite.python.interpreter import Interpreter

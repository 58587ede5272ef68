"""Changing a `.tflite` file: a model of schema objects, what can be asked and changed in it, and the file of it."""

"""The .tflite file: read its graph, count its cost, build small ones. Runs nothing."""

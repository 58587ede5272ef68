"""Transfer learning on a .tflite file: a new head for the user's own classes, without TensorFlow."""

from hasten.retraining.view import sections
from hasten.retraining.words import PHRASES

__all__ = ["PHRASES", "sections"]

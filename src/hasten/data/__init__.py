"""Labeled data: read it, prepare it for a model, score the model's predictions. Runs nothing."""

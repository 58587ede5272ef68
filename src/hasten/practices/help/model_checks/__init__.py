"""Static checks of a model file: what delegates refuse of it, and what in it costs time, memory or numbers."""

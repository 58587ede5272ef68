"""Data and metrics to accuracy: a model scored on samples, with an interval, and against a floor."""

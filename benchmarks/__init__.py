"""Benchmarks of hasten itself. Each prints ratios measured in one run and keeps them in `results/`."""

"""A gate for CI: limits and a baseline, decided by measurement."""

"""A trace that a platform's tool recorded: Perfetto, perf, Instruments and others."""

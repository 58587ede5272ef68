"""LiteRT through its C interface: load, run, profile, accelerators. Lives only inside a runner."""

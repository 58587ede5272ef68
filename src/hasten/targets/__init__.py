"""Where a runner runs. One module for each kind of place, one protocol."""

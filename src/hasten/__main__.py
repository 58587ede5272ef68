"""`python -m hasten`: the same as the command `hasten`."""

from hasten.cli.start import entry_point

entry_point()

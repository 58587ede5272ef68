"""The command line: one file a command. The only place that prints or exits."""

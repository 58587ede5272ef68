"""The start of the console script, before any slow import, so that an early Ctrl-C shows no traceback."""

import sys


def entry_point() -> None:
    """The console script."""
    try:
        from hasten.cli.main import main

        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are loading; later ones are dealt with where they come
        sys.stderr.write("hasten: Interrupted.\n")
        code = 130
    sys.exit(code)

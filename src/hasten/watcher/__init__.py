"""What lives inside a watched program: patches of LiteRT's classes, a sampling profiler, a writer of what was seen.

Needs the standard library only, as the program may run in an environment that has no hasten.
"""

"""The code inside a watched program: patches of LiteRT's classes, a sampling profiler, and a recorder.

Needs the standard library only, as the program may run in an environment that has no hasten.
"""

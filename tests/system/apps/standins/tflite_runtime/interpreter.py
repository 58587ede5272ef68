"""A stand-in: the module of ai_edge_litert once more, under this name. See README.md."""

import importlib.util

_path = importlib.util.find_spec("ai_edge_litert").submodule_search_locations[0] + "/interpreter.py"
__file__ = _path
exec(compile(open(_path).read(), _path, "exec"), globals())

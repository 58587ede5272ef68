"""What `make check` proves about the shape of hasten, beyond style, types and layers.

- No code decides by English: it compares, searches and splits codes, never sentences. Words are made in `words.py`,
  `cli` and `show`; what other programs wrote (an engine's log, a trace) may be read where ALLOWED says so.
- No function takes more than seven parameters.
- Fewer than ten `# fmt: skip`.
- No cycle among modules, with imports for type checking counted.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "hasten"
MOST_PARAMETERS: Final = 7
MOST_SKIPS: Final = 9
# Path below src/hasten (a file, or a folder with a slash) → why it may read sentences.
ALLOWED: Final = {
    "cli/": "shows words, and reads those of the user",
    "show/": "lays out words",
    "traces/": "reads what other tools wrote",
    "watcher/": "reads what Python and users' programs wrote",
    "engine/": "reads the engine's messages",
    "targets/diagnosis.py": "reads the engine's log",
    "targets/ssh_diagnosis.py": "reads what the ssh client wrote",
    "practices/app/recorded/names.py": "reads the names that TFLite and Android give to sections and functions",
}
# The same for single lines: a file and a part of the line.
ALLOWED_LINES: Final = {
    ("core/platform_trace.py", '"main thread"'): "the name that a platform gives to a thread",
    ("practices/app/recorded/rules.py", '"main thread"'): "the name that Instruments gives to a thread",
    ("practices/app/watched/split.py", '"<frozen importlib"'): "the file name of Python's own frames",
    ("explanation/rules.py", '"Static Reshape"'): "the name of a kernel of XNNPACK",
    ("variants/maker_process.py", '"out of memory"'): "the kind of a failure, which is a code",
}
_METHODS: Final = frozenset(
    [
        "startswith",
        "endswith",
        "partition",
        "rpartition",
        "split",
        "rsplit",
        "replace",
        "removeprefix",
        "removesuffix",
        "find",
        "rfind",
        "index",
        "count",
        "lower",
        "upper",
        "capitalize",
    ]
)
_SAYING: Final = frozenset({"evidence", "why", "hint", "message", "text", "note", "what_to_do", "sentence"})
_REGULAR: Final = frozenset({"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"})
_SENTENCE: Final = re.compile(r"[A-Za-z]{2,}[^A-Za-z]* +[^A-Za-z]*[A-Za-z]{2,}")


def main() -> int:
    """Print what is open; 1 if anything is."""
    found = [*_decided_by_english(), *_too_many_parameters(), *_skips(), *_cycles()]
    for line in found:
        print(line)
    print(f"{len(found)} open" if found else "Words, parameters, formatting and imports are as they should be.")
    return 1 if found else 0


def _trees() -> Iterator[tuple[str, ast.Module, list[str]]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield str(path.relative_to(SOURCE)), ast.parse(text), text.splitlines()


def _decided_by_english() -> Iterator[str]:
    for name, tree, lines in _trees():
        folders = [key for key in ALLOWED if key.endswith("/")]
        if name.endswith("words.py") or name in ALLOWED or any(map(name.startswith, folders)):
            continue
        for node in ast.walk(tree):
            what = _english_in(node)
            line = lines[node.lineno - 1] if what and isinstance(node, ast.expr) else ""
            if what and not any(file == name and part in line for file, part in ALLOWED_LINES):
                yield f"src/hasten/{name}:{getattr(node, 'lineno', 0)}: decides by English: {what}: {line.strip()}"


def _english_in(node: ast.AST) -> str:
    """What this expression does with a sentence; empty for nothing."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if any(map(_is_sentence, sides)):
            return "compares with a sentence"
        searched = any(isinstance(one, ast.In | ast.NotIn) for one in node.ops)
        if searched and any(map(_says, node.comparators)):
            return "searches a sentence"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _english_in_call(node, node.func)
    if isinstance(node, ast.Subscript) and _says(node.value) and isinstance(node.ctx, ast.Load):
        return "cuts a sentence"
    return ""


def _english_in_call(call: ast.Call, method: ast.Attribute) -> str:
    if method.attr in _METHODS:
        if any(_is_sentence(argument) for argument in call.args[:1]):
            return f"{method.attr} of a sentence"
        if _says(method.value):
            return f"{method.attr} on a sentence"
    of_re = isinstance(method.value, ast.Name) and method.value.id == "re" and method.attr in _REGULAR
    return "a pattern for a sentence" if of_re and call.args and _is_sentence(call.args[0]) else ""


def _is_sentence(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_sentence, node.elts))
    if isinstance(node, ast.JoinedStr):
        return any(map(_is_sentence, node.values))
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_SENTENCE.search(node.value))


def _says(node: ast.expr) -> bool:
    """Whether this is an attribute that holds a sentence."""
    return isinstance(node, ast.Attribute) and node.attr in _SAYING


def _too_many_parameters() -> Iterator[str]:
    for name, tree, _ in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            given = node.args
            names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs) if one.arg not in _OWN]
            many = len(names) + sum(one is not None for one in (given.vararg, given.kwarg))
            if many > MOST_PARAMETERS:
                yield f"src/hasten/{name}:{node.lineno}: {node.name} takes {many} parameters"


_OWN: Final = ("self", "cls")


def _skips() -> Iterator[str]:
    files = [path for folder in ("src", "tests", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")]
    mark = "# fmt: " + "skip"
    many = sum(path.read_text(encoding="utf-8").count(mark) for path in files)
    if many > MOST_SKIPS:
        yield f"{many} times {mark}: at most {MOST_SKIPS}"


def _cycles() -> Iterator[str]:
    """Groups of modules that import each other, directly or not."""
    import grimp

    graph = grimp.build_graph("hasten", exclude_type_checking_imports=False, cache_dir=None)
    below = {module: sorted(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    for group in _strongly_connected(below):
        if len(group) > 1:
            yield f"import cycle of {len(group)} modules: {', '.join(sorted(group))}"


def _strongly_connected(below: dict[str, list[str]]) -> Iterator[list[str]]:
    """Tarjan's algorithm, without recursion."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    for start in below:
        if start in number:
            continue
        work = [(start, iter(below[start]))]
        number[start] = lowest[start] = len(number)
        stack.append(start)
        while work:
            module, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[module])
                if lowest[module] == number[module]:
                    place = stack.index(module)
                    yield stack[place:]
                    del stack[place:]
            elif following not in number:
                number[following] = lowest[following] = len(number)
                stack.append(following)
                work.append((following, iter(below[following])))
            elif following in stack:
                lowest[module] = min(lowest[module], number[following])


if __name__ == "__main__":
    sys.exit(main())

"""The source keeps its shape: short functions and files, nothing dead, nothing half.

Lists of exceptions may only shrink: an entry that is not needed any more fails, too.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from hookline_testing.structure.sources import called, parsed

ROOT = Path(__file__).parents[2]
MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 80
MOST_CONSTRUCTOR_LINES = 40

LONG_FILES = {
    "tools/testing/src/hookline_testing/scripted_server.py",
}
"""Files of more lines than `MOST_FILE_LINES`."""
LONG_FUNCTIONS: set[str] = set()
"""Functions of more lines than `MOST_FUNCTION_LINES`."""
LONG_CONSTRUCTORS = {
    "tools/testing/src/hookline_testing/scripted_server.py FakeEngine",
}
"""Constructors of more lines than `MOST_CONSTRUCTOR_LINES`."""
COMPLETED_LATER = {
    # What completes them needs them: the phases of the start, and a handshake.
    "core/src/hookline/engine_setup/building.py EngineCore.facts",
    (
        "plugins/connectors/kv_transfer/src/hookline_kv_transfer/worker_side.py "
        "KVBlocks.layout"
    ),
    # argparse's own way.
    "server/src/hookline_server/cli/options/parser.py Parser.operand",
    # Fields of C.
    "core/kernels/src/hookline_kernels/cpu/time_slices.py _Attributes.runtime",
}
"""Attributes that a function sets of an object that it has just made."""
TASKS_THAT_GO_ON = {
    # Whoever asked may leave meanwhile.
    "plugins/scale/cluster/src/hookline_cluster/scaling/scaling.py changing",
    # It ends with its connection.
    "server/src/hookline_server/connections/accepting.py task",
    # It loads a model in a thread, which nothing can end but the process.
    "server/src/hookline_server/serving.py starting",
}
"""Tasks in a variable that the function leaves running if it is broken off."""
PRODUCT = (
    *("core/", "metrics/", "offline/", "plugins/", "processes/", "registry/"),
    "server/",
)
"""Folders of what users install."""
FOLDERS = (*PRODUCT, "benchmarks/", "models/", "tools/")


OVERRIDES = {
    # numba's
    *("_index_key", "from_function", "get_cache_path", "ensure_cache_path"),
    *("get_disambiguator", "get_source_stamp", "_to_string"),
    "handle_error",  # aiohttp's
    # OpenTelemetry's
    *("generate_span_id", "generate_trace_id", "is_trace_id_random", "_translate_data"),
}
"""Functions that libraries call by their names."""


@cache
def sources() -> dict[str, ast.Module]:
    """Each source file but tests, by its path."""
    files = [each for folder in FOLDERS for each in (ROOT / folder).rglob("*.py")]
    return {str(each.relative_to(ROOT)): parsed(each) for each in files}


@cache
def functions(
    tree: ast.Module,
) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Returns all functions in a file, each with the class that it belongs to."""
    return list(functions_below(tree))


def functions_below(
    node: ast.AST, owner: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield owner, child
        name = child.name if isinstance(child, ast.ClassDef) else owner
        yield from functions_below(child, name)


def body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without the parameters, of which a GPU's kernel has one for each stride."""
    return (function.end_lineno or function.lineno) - function.body[0].lineno + 1


def length(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_no_source_file_is_long() -> None:
    """One concept a file, within 400 lines."""
    found = {
        name
        for name in sources()
        if len((ROOT / name).read_text().splitlines()) > MOST_FILE_LINES
    }

    assert found == LONG_FILES


def test_no_function_is_long() -> None:
    """A function fits on a screen or two, within 80 lines."""
    found = {
        f"{name} {function.name}"
        for name, tree in sources().items()
        for _, function in functions(tree)
        if function.name != "__init__" and body_length(function) > MOST_FUNCTION_LINES
    }

    assert found == LONG_FUNCTIONS


def test_no_constructor_is_long() -> None:
    """What takes more than 40 lines to make is several things."""
    found = {
        f"{name} {owner}"
        for name, tree in sources().items()
        for owner, function in functions(tree)
        if function.name == "__init__" and length(function) > MOST_CONSTRUCTOR_LINES
    }

    assert found == LONG_CONSTRUCTORS


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield body


def is_text(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def is_assignment(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)


def test_each_text_is_under_what_it_describes() -> None:
    """A text that stands alone begins a body, or follows the constant that it is of."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources().items()
        for body in bodies(tree)
        for before, node in pairwise(body)
        if is_text(node)
        and not (is_assignment(before) and node.lineno - (before.end_lineno or 0) == 1)
    ]

    assert found == []


def own_classes() -> set[str]:
    return {
        node.name
        for name, tree in sources().items()
        if name.startswith(PRODUCT)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def completed(
    function: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, classes: set[str]
) -> Iterator[str]:
    """Yields attributes that a function sets of objects that it has made itself."""
    made: dict[str, set[str]] = defaultdict(set)
    changed: list[tuple[str, str]] = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                made_by = node.value.func if isinstance(node.value, ast.Call) else None
                kind = "" if made_by is None else ast.unparse(made_by)
                made[target.id].add(owner if kind == "cls" else kind)
            value = target.value if isinstance(target, ast.Attribute) else None
            if isinstance(value, ast.Name) and isinstance(target, ast.Attribute):
                changed.append((value.id, target.attr))
    for name, attribute in changed:
        for kind in made[name] if made[name] <= classes else ():
            yield f"{kind}.{attribute}"


def test_objects_are_complete_once_they_are_made() -> None:
    """Whoever makes an object gives its constructor all that it needs."""
    classes = own_classes()
    found = {
        f"{name} {attribute}"
        for name, tree in sources().items()
        if name.startswith(PRODUCT)
        for owner, function in functions(tree)
        for attribute in completed(function, owner, classes)
    }

    assert found == COMPLETED_LATER


def test_no_name_of_ours_is_used_nowhere() -> None:
    """What is defined is called, overrides something, or is documented for users."""
    others = ("tests/", "docs/")
    texts = [
        each.read_text()
        for folder in (*FOLDERS, *others)
        for each in (ROOT / folder).rglob("*.*")
        if each.suffix in {".py", ".toml", ".md"}
    ]
    words = Counter(word for text in texts for word in re.findall(r"\w+", text))
    definitions = Counter(
        function.name
        for name, tree in sources().items()
        if name.startswith(PRODUCT)
        for _, function in functions(tree)
        if not function.name.startswith("__")
    )

    unused = {name for name, count in definitions.items() if words[name] == count}

    assert unused <= OVERRIDES


def tasks_left(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yields variables of tasks that no `finally` of a function mentions."""
    ended = {
        node.id
        for each in ast.walk(function)
        if isinstance(each, ast.Try)
        for last in each.finalbody
        for node in ast.walk(last)
        if isinstance(node, ast.Name)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if called(node.value) not in {"create_task", "ensure_future"}:
            continue
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        if len(names) == len(node.targets):  # else it is an attribute, too
            yield from set(names) - ended


def test_tasks_end_however_their_function_ends() -> None:
    """A task beside a function is ended in a `finally`, as errors come in between."""
    found = {
        f"{name} {task}"
        for name, tree in sources().items()
        if name.startswith(PRODUCT)
        for _, function in functions(tree)
        for task in tasks_left(function)
    }

    assert found == TASKS_THAT_GO_ON

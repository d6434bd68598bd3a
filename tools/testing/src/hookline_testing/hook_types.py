"""The types of a hook's arguments, which its specification names without importing."""

import ast
import importlib
import inspect
from collections.abc import Callable
from functools import cache

from hookline import hookspecs


def types_of(hook: Callable[..., object]) -> dict[str, object]:
    """Returns the annotations of a specification, evaluated."""
    return inspect.get_annotations(hook, eval_str=True, locals=_names())


@cache
def _names() -> dict[str, object]:
    """What the specifications import for type checkers only."""
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(hookspecs))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            module = importlib.import_module(node.module)
            for each in node.names:
                found[each.name] = getattr(module, each.name)
    return found

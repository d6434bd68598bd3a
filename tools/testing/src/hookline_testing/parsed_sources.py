"""Sources that several tests look at."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the tree of a file, which is parsed once in each process."""
    return ast.parse(path.read_text("utf-8"))

"""Imports a script of the repository that is in no package."""

import importlib.util
from pathlib import Path
from types import ModuleType


def script_module(path: Path) -> ModuleType:
    """Returns the script as a module of its own; nobody else gets it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

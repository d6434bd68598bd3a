"""Where an author has declared something: a line of a project or of a source file."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from inspect import getsourcelines, unwrap
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit


class _Declared(Protocol):
    @property
    def distribution(self) -> str: ...


def line_of(code: Callable[..., object] | type) -> str:
    """Returns ` (FILE:LINE)` of a function or a class, or nothing if it has no file."""
    if not isinstance(code, type):
        found = getattr(unwrap(code), "__code__", None)
        return "" if found is None else at(found.co_filename, found.co_firstlineno)
    with suppress(OSError, TypeError):
        module = sys.modules[code.__module__]
        return at(module.__file__ or "", getsourcelines(code)[1])
    return ""


def at(file: str, line: int | None) -> str:
    """Returns ` (FILE:LINE)`, for the end of a sentence."""
    return f" ({file}:{line})"


def declared_at(plugin: _Declared, text: str) -> str:
    """Returns ` (FILE:LINE)` of a text in the declarations of a plugin's distribution.

    It is a line of the author's pyproject.toml if that is on this machine, as it is for
    editable installations; else one of the installed metadata; nothing if none has it.
    """
    try:
        found = distribution(plugin.distribution)
    except (PackageNotFoundError, ValueError):
        return ""
    for file in _declarations(found):
        with suppress(OSError, UnicodeDecodeError):
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                if text in line:
                    return at(str(file), number)
    return ""


def _declarations(found: Distribution) -> list[Path]:
    stem = f"{found.name.replace('-', '_')}-{found.version}.dist-info"
    metadata = Path(str(found.locate_file(stem)))
    files = [metadata / "entry_points.txt", metadata / "METADATA"]
    with suppress(ValueError, KeyError, TypeError):
        url = urlsplit(json.loads(found.read_text("direct_url.json") or "")["url"])
        if url.scheme == "file":
            files.insert(0, Path(unquote(url.path)) / "pyproject.toml")
    return files

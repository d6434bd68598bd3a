"""Folders of benchmarks that stay: in the user's cache, where nobody else can write.

A folder of a known name in the temporary one could be made by anybody first, with
models of theirs. XDG_CACHE_HOME puts the cache elsewhere.
"""

import os
from pathlib import Path

from hookline_processes.private_files import make_private_folder


def own_folder(name: str) -> Path:
    """Returns a folder of this user's, which it makes; refuses one of somebody else."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = given if given.is_absolute() else Path.home() / ".cache"
    folder = cache / "hookline" / "benchmarks" / name
    make_private_folder(folder)
    return folder

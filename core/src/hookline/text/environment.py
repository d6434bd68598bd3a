"""The environment variables of processes that handle texts of others."""

import os

_KEPT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "TZ",
)
"""Variables that Python needs to find its modules, the language and the time zone; the
others may hold secrets."""


def small_environment() -> dict[str, str]:
    """Returns the variables of a process that tokenizes or renders templates."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "TOKENIZERS_PARALLELISM": "false"}

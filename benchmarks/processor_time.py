"""Processor time of a server's processes, by what each of them is."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hookline_testing.server_process import descendants_of

_TICKS = os.sysconf("SC_CLK_TCK")
_KINDS = {
    "api_servers.child": "API servers",
    "engine_process": "engine",
    "rank_process": "ranks",
    "observer": "observer",
    "text.process": "texts",
    "VLLM::EngineCore": "engine",
    "VLLM::Worker": "workers",
    "VLLM::APIServer": "API servers",
}


def processor_seconds(pid: int) -> dict[str, float]:
    """Processor time that a server's processes have used so far, by their kind.

    Args:
        pid: The process that was started; the others are below it.
    """
    found: dict[str, float] = {}
    for each in (pid, *descendants_of(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(") ")[2].split()
            kind = "main" if each == pid else _kind(each)
            spent = (int(fields[11]) + int(fields[12])) / _TICKS
            found[kind] = found.get(kind, 0.0) + spent
    return found


def spent_since(
    before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, float]:
    """What was used between two looks; a process that ended in between counts 0."""
    return {
        kind: max(0.0, seconds - before.get(kind, 0.0))
        for kind, seconds in after.items()
    }


def per_1000_tokens(spent: Mapping[str, float], tokens: int) -> str:
    """Milliseconds of each kind for 1000 output tokens, to be printed."""
    return ", ".join(
        f"{kind} {1e6 * seconds / tokens:.0f}"
        for kind, seconds in sorted(spent.items())
    )


def _kind(pid: int) -> str:
    line = Path(f"/proc/{pid}/cmdline").read_text()
    return next((kind for part, kind in _KINDS.items() if part in line), "other")

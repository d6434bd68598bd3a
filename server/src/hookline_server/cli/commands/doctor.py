"""`hookline doctor`: what the machine or container gives to a server."""

from typing import NamedTuple

from hookline_host.cache_folders import keep_cache
from hookline_host.cpu_quota import CpuQuota, usable_cores
from hookline_host.folders import make_temporary
from hookline_host.memory import read_memory
from hookline_host.oom_kills import oom_kills
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say, table

HEADINGS = ("what", "is", "verdict")
_OK = "ok"
_GIB = 2**30


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        what: What a server needs.
        found: What there is.
        verdict: `ok`, or the problem.
    """

    what: str
    found: str
    verdict: str = _OK


def run(argv: list[str]) -> int:
    """Prints a table; returns 1 if a server would lack something."""
    description = "Shows the memory, cores and folders that a server gets here."
    parse(make_parser("doctor", description, []), argv)
    rows = [_memory(), _kills(), _cores(), _caches(), _temporary()]
    say(table([HEADINGS, *rows]))
    return int(any(row.verdict != _OK for row in rows))


def _memory() -> Row:
    memory = read_memory()
    if memory is None:
        return Row("memory", "unknown", "set --kv-cache-memory")
    found = f"{memory.available / _GIB:.1f} GiB can be taken"
    if memory.limit is not None:
        found += f" of a limit of {memory.limit / _GIB:.1f} GiB"
    return Row("memory", found)


def _kills() -> Row:
    return Row("kills", f"{oom_kills().count()} because memory ran out")


def _cores() -> Row:
    quota = CpuQuota().cores()
    limit = "without a quota" if quota is None else f"by a quota of {quota:g}"
    return Row("cores", f"{usable_cores()}, {limit}")


def _caches() -> Row:
    kept = keep_cache("kernels", given=("NUMBA_CACHE_DIR",))
    if kept.is_writable:
        return Row("caches", str(kept))
    return Row("caches", str(kept), "kernels are compiled at each start")


def _temporary() -> Row:
    try:
        folder = make_temporary("hookline-")
    except OSError as error:
        return Row("temporary files", "no folder", str(error))
    folder.rmdir()
    return Row("temporary files", str(folder.parent))

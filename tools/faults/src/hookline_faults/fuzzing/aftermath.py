"""What is left of a storm: leaked requests, memory, and what the log says."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from hookline_testing.server_process import Server

QUIET_SECONDS = 30.0
"""By then nothing of the storm may be left."""
MOST_LOG_BYTES = 64 << 20
_SUMS = (
    "hookline_requests_running",
    "hookline_requests_waiting",
    "hookline_conservation_residue",
    "hookline_kv_transfer_held_blocks",
)


@dataclass(slots=True)
class Aftermath:
    """A server after a storm.

    Attributes:
        leaked: What is not 0 though it should be, by its name.
        faults: Everything else that is wrong.
        memory_mb: Anonymous memory of each process.
        log_bytes: Size of the log.
    """

    leaked: Mapping[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    memory_mb: Mapping[str, float] = field(default_factory=dict)
    log_bytes: int = 0


def memory_mb(server: Server) -> dict[str, float]:
    """Returns the memory of the front end and of the engine."""
    return {
        "front end": server.resident_mb(),
        "engine": server.resident_mb(server.engine_pid),
    }


def aftermath(server: Server, headers: Mapping[str, str] | None = None) -> Aftermath:
    """Waits until the server has come to rest, and returns how it is then."""
    found = Aftermath()
    try:
        found.leaked = _wait_for_rest(server, headers)
        found.memory_mb = memory_mb(server)
    except (OSError, AssertionError) as error:
        found.faults.append(f"the server does not answer: {error!r}")
    if server.process.poll() is not None:
        found.faults.append(f"the server has ended: {server.process.returncode}")
    found.log_bytes = server.log.stat().st_size
    if found.log_bytes > MOST_LOG_BYTES:
        found.faults.append(f"the log has {found.log_bytes} bytes")
    found.faults += faults_in(server.log.read_text("utf-8", "replace"))
    return found


def faults_in(log: str) -> list[str]:
    """Returns the tracebacks in a log, and lines with the bytes of terminal escapes."""
    found = []
    for place, part in enumerate(log.split("Traceback (most recent call last)")[1:]):
        if place < 5:
            found.append("traceback: " + part[:3000])
    if "\x1b[31mred" in log:
        found.append("a client's escape sequence is in the log")
    return found


def _wait_for_rest(
    server: Server, headers: Mapping[str, str] | None
) -> Mapping[str, float]:
    deadline = time.monotonic() + QUIET_SECONDS
    while True:
        status, page = server.get("/metrics", headers)
        assert status == 200, f"/metrics returned {status}"
        left = _left(page)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def _left(page: str) -> dict[str, float]:
    left: dict[str, float] = {}
    for line in page.splitlines():
        if not line.startswith("hookline_"):
            continue
        name, value = line.split("{", 1)[0], float(line.rsplit(" ", 1)[1])
        is_used = name == "hookline_kv_blocks" and 'state="used"' in line
        is_open = name == "hookline_http_requests_in_flight" and "/metrics" not in line
        if value and (name in _SUMS or is_used or is_open):
            left[line.rsplit(" ", 1)[0]] = value
    return left

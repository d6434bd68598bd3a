"""A saturated server beside one hostile client of each kind, and a thousand streams.

`make soak ARGS='tests/soak/test_hostile_soak.py -s --soak-minutes 30'`
"""

import sys
from pathlib import Path

import pytest

from hookline_faults.hostile.soak import soak
from hookline_testing.server_process import serving

KEY = "a-key-of-the-soak-test"
# So many blocks that nothing is preempted: a stream that is waits for its turn, however
# healthy the server is.
SERVE = [
    *("--model", "demo", "--dtype", "float32", "--num-kv-blocks", "8192"),
    *("--threads", "1", "--port", "0", "--log-level", "warning"),
    *("--api-key", KEY, "--write-timeout", "15", "--header-timeout", "10"),
]
AT_ONCE = 32
SETTLED_SECONDS = 300.0
"""Memory may still grow before."""
ALLOWED_MB_A_MINUTE = 1.0


@pytest.mark.soak
def test_nothing_grows_or_sticks_beside_hostile_clients(
    request: pytest.FixtureRequest,
) -> None:
    """
    Well-behaved clients get right answers, nothing is left over, and memory is level.
    """
    minutes = float(request.config.getoption("--soak-minutes", 30.0))
    csv = request.config.getoption("--soak-csv", None)

    with serving(*SERVE) as server:
        seen = soak(server, KEY, seconds=minutes * 60, at_once=AT_ONCE, seed=7)

    sys.stdout.write("\n".join(seen.lines()))
    if csv is not None:
        Path(csv).write_text(seen.memory.csv(), "utf-8")
    assert seen.crowd.wrong == []
    assert seen.crowd.counts["right"] > 10 * minutes
    assert seen.watched.faults == {}
    assert seen.watched.worst_own_seconds < 1.0
    assert (seen.after.leaked, seen.after.faults) == ({}, [])
    for name in ("front end", "engine", "others"):
        slope = seen.memory.slope(name, SETTLED_SECONDS)
        assert slope < ALLOWED_MB_A_MINUTE, (name, slope)

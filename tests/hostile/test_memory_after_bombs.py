"""Bodies that inflate beyond the limit leave no memory behind."""

import time
import zlib

import pytest

from hookline_testing.own_time import Deadline
from hookline_testing.server_process import serving

pytestmark = pytest.mark.hostile

BOMB = zlib.compress(b" " * (64 << 20))
NUM_BOMBS = 12
ALLOWED_MB = 30.0
DEADLINE_SECONDS = 20.0


def test_refused_bombs_leave_no_memory_behind() -> None:
    """
    Each is a 413, and soon afterwards the server is as small as before.
    """
    with serving("--port", "0", "--executor", "simulated") as server:
        server.post("/v1/completions", {"model": "demo", "prompt": "a"})
        before = server.resident_mb()
        for _ in range(NUM_BOMBS):
            status, answer = server.post(
                "/v1/completions", BOMB, {"Content-Encoding": "deflate"}
            )
            assert (status, answer["error"]["code"]) == (413, "body_too_large")

        deadline = Deadline(DEADLINE_SECONDS)
        while server.resident_mb() > before + ALLOWED_MB:
            assert deadline.is_ahead, (before, server.resident_mb())
            time.sleep(0.1)

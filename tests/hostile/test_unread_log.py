"""Nobody reads the server's log: nothing stops for it."""

import os

import pytest

from hookline_testing.server_process import serving

pytestmark = pytest.mark.hostile

PIPE_BYTES = 65536
LONG_PATH = "/v1/" + "x" * 4000


def test_a_log_that_nobody_reads_stops_nothing() -> None:
    """Requests are answered and SIGTERM ends the server while its log pipe is full."""
    read, write = os.pipe()
    try:
        with serving(
            *("--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"),
            stderr=write,
        ) as server:
            for _ in range(8 * PIPE_BYTES // len(LONG_PATH)):
                assert server.get(LONG_PATH, timeout_seconds=20)[0] == 404

            status, answer = server.post(
                "/v1/completions",
                {"model": "demo", "prompt": "a", "max_tokens": 4},
                timeout_seconds=20,
            )
            assert (status, len(answer["choices"])) == (200, 1)
            assert server.get("/health", timeout_seconds=20)[0] == 200
            assert server.end() == 0
    finally:
        os.close(read)
        os.close(write)

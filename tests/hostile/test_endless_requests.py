"""A request ends at its deadline, running or waiting, and gives its blocks back."""

import json
from http.client import HTTPConnection

import pytest

from hookline_testing.server_process import serving

pytestmark = pytest.mark.hostile

LATEST_SECONDS = 40
"""The deadline is 2 s; without one the requests take some minutes."""

LONG = {"model": "demo", "prompt": [3, 4, 5], "max_tokens": 1900}


def test_requests_end_at_their_deadlines() -> None:
    """One place in the batch: the first request runs and the second waits for it."""
    with serving(
        *("--executor", "simulated", "--port", "0", "--max-num-seqs", "1"),
        *("--simulated-step-seconds", "0.1"),
    ) as server:
        connections = []
        for _ in range(2):
            connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
            headers = {"X-Request-Timeout": "2"}
            body = json.dumps(LONG)
            connection.request("POST", "/v1/completions", body, headers)
            connections.append(connection)
        try:
            for connection in connections:
                assert connection.sock is not None
                connection.sock.settimeout(LATEST_SECONDS)
                connection.getresponse().read()
        finally:
            for connection in connections:
                connection.close()

        server.wait_for("hookline_requests_running", 0)
        server.wait_for("hookline_requests_waiting", 0, reason="capacity")
        server.wait_for("hookline_kv_blocks", 0, state="used")
        # On a machine so busy that the engine is late, the server ends them itself.
        server.wait_for_sum(
            "hookline_requests_finished_total",
            2,
            [{"reason": "timeout"}, {"reason": "abort"}],
        )

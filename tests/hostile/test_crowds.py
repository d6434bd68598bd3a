"""A client with very many choices, or a tenant with very many requests, is not alone.

Its requests would take minutes; others are served meanwhile, in their share.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest

from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

ANSWER_SECONDS = 40
SIMULATED = (
    *("--executor", "simulated", "--port", "0", "--num-kv-blocks", "8192"),
    *("--simulated-step-seconds", "0.05", "--heartbeat-seconds", "0.2"),
)


def send(
    stack: ExitStack,
    server: Server,
    body: Mapping[str, object],
    headers: Mapping[str, str] | None = None,
) -> None:
    """Sends a request and leaves its answer for later."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_SECONDS)
    stack.callback(connection.close)
    text = json.dumps({"model": "demo", **body})
    connection.request("POST", "/v1/completions", text, dict(headers or {}))


def wait_for_waiting(server: Server, least: int) -> None:
    waiting = 0.0
    while waiting < least:
        waiting = server.metric("hookline_requests_waiting", reason="capacity")


def answer(server: Server, headers: Mapping[str, str] | None = None) -> Sequence[str]:
    """Asks for a few tokens; fails if they do not come in time."""
    status, got = server.post(
        "/v1/completions",
        {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 4},
        headers,
        timeout_seconds=ANSWER_SECONDS,
    )
    assert status == 200, got
    return [each["text"] for each in got["choices"]]


def test_eight_thousand_choices_do_not_keep_another_client_waiting() -> None:
    """Eight requests of 8 prompts with 128 choices each would take three minutes."""
    large = {
        "prompt": [[3, index] for index in range(8)],
        "n": 128,
        "max_tokens": 100,
        "temperature": 1.0,
    }
    with serving(*SIMULATED) as server, ExitStack() as stack:
        for _ in range(8):
            send(stack, server, large)
        wait_for_waiting(server, 7000)

        for _ in range(3):
            answer(server)

        assert server.metric("hookline_requests_waiting", reason="capacity") > 5000


def test_a_tenant_that_floods_does_not_delay_another_one() -> None:
    """Under the policy `fair` a guest's requests pass hundreds of another's."""
    options = ("--scheduling-policy", "fair", "--tenant-header", "X-Tenant")
    with (
        serving(*SIMULATED, *options, "--max-num-seqs", "8") as server,
        ExitStack() as stack,
    ):
        for _ in range(300):
            body = {"prompt": [3, 4], "max_tokens": 40}
            send(stack, server, body, {"X-Tenant": "flood"})
        wait_for_waiting(server, 250)

        for _ in range(3):
            answer(server, {"X-Tenant": "guest"})

        assert server.metric("hookline_requests_waiting", reason="capacity") > 150
        assert server.metric("hookline_tenant_requests_waiting", tenant="flood") > 150


def test_a_low_priority_is_not_for_ever() -> None:
    """With aging a request is served although urgent ones wait all the time."""
    options = ("--scheduling-policy", "priority", "--priority-aging", "0.5")
    is_over = threading.Event()
    with serving(*SIMULATED, *options, "--max-num-seqs", "1") as server:

        def keep_asking() -> None:
            while not is_over.is_set():
                answer(server)

        clients = [threading.Thread(target=keep_asking) for _ in range(4)]
        for each in clients:
            each.start()
        try:
            wait_for_waiting(server, 2)

            status, _ = server.post(
                "/v1/completions",
                {"model": "demo", "prompt": [9], "max_tokens": 1, "priority": 3},
                timeout_seconds=ANSWER_SECONDS,
            )
        finally:
            is_over.set()
            for each in clients:
                each.join()

        assert status == 200

"""Texts of 8 MB, which no context holds: others are served, and no memory stays."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

LONGEST_WAIT_SECONDS = 15.0
"""For another client's answer; it once took 40 to 100 seconds."""
MAX_GROWTH_MB = 50
LONG = "def add(a, b): return a + b\n" * 280_000
SMALL = {"model": "demo", "prompt": "def main(", "max_tokens": 4}
CHAT = {"model": "demo", "messages": [{"role": "user", "content": LONG}]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--port=0", "--executor=simulated", "--stat-logger=none") as running:
        # The first answers and an 8 MB body reserve memory that is used again.
        running.post("/v1/completions", SMALL)
        running.post("/v1/completions", {**SMALL, "user": LONG})
        yield running


class Clients:
    """Requests that are sent at once, and their answers."""

    def __init__(self, server: Server, *requests: tuple[str, object]) -> None:
        self.answers: list[tuple[int, Any]] = []
        self._server = server
        self._threads = [
            threading.Thread(target=self._post, args=each, daemon=True)
            for each in requests
        ]
        for thread in self._threads:
            thread.start()

    def _post(self, path: str, body: object) -> None:
        self.answers.append(self._server.post(path, body, timeout_seconds=280))

    def wait(self) -> list[tuple[int, Any]]:
        for thread in self._threads:
            thread.join()
        return self.answers


def longest_wait(server: Server, seconds: float) -> float:
    """The longest time for an answer to another client, over some time."""
    longest, begun = 0.0, time.monotonic()
    while time.monotonic() - begun < seconds:
        stopwatch = server.stopwatch()
        status, _ = server.post("/v1/completions", SMALL, timeout_seconds=280)
        assert status == 200
        longest = max(longest, stopwatch.own_seconds)
    return longest


def growth_mb(server: Server, before: float) -> float:
    """How much more memory the server has than before, once it had time to free it."""
    for _ in range(50):
        if server.resident_mb() < before + MAX_GROWTH_MB:
            break
        time.sleep(0.1)
    return server.resident_mb() - before


def test_ten_texts_of_8_mb_to_tokenize_hold_up_nobody(server: Server) -> None:
    """They are refused, other clients are answered, and the memory is free again."""
    before = server.resident_mb()

    clients = Clients(server, *[("/tokenize", {"model": "demo", "prompt": LONG})] * 10)
    waited = longest_wait(server, 2.0)
    answers = clients.wait()

    assert waited < LONGEST_WAIT_SECONDS
    assert [status for status, _ in answers] == [400] * 10
    assert "can be tokenized at once" in answers[0][1]["error"]["message"]
    assert growth_mb(server, before) < MAX_GROWTH_MB


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {**SMALL, "prompt": LONG}),
        ("/v1/completions", {**SMALL, "prompt": LONG, "add_special_tokens": False}),
        ("/v1/chat/completions", CHAT),
    ],
    ids=["completion", "without special tokens", "chat"],
)
def test_a_prompt_of_8_mb_is_too_long(
    server: Server, path: str, body: dict[str, object]
) -> None:
    """The error is that of any prompt that is too long, and nothing stays."""
    before = server.resident_mb()

    clients = Clients(server, (path, body))
    waited = longest_wait(server, 1.0)
    [(status, answer)] = clients.wait()

    assert waited < LONGEST_WAIT_SECONDS
    assert status == 400
    assert answer["error"]["code"] == "context_length_exceeded"
    assert answer["error"]["message"].startswith(
        "This model's maximum context length is 2048 tokens."
    )
    assert growth_mb(server, before) < MAX_GROWTH_MB


def test_the_longest_text_to_tokenize_holds_up_nobody(server: Server) -> None:
    """Its tokens are counted elsewhere, and the memory of that is free again."""
    before = server.resident_mb()
    body = {"model": "demo", "prompt": LONG[: 2**20]}

    clients = Clients(server, ("/tokenize", body), ("/tokenize", body))
    waited = longest_wait(server, 1.0)
    answers = clients.wait()

    assert waited < LONGEST_WAIT_SECONDS
    assert all(status == 200 and answer["count"] > 2**17 for status, answer in answers)
    assert growth_mb(server, before) < MAX_GROWTH_MB

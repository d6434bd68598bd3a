"""One request of up to 8 MB that names millions of parameters, values or choices."""

import json
import operator
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from hookline_testing.server_process import Server, serving
from hookline_testing.waiting import wait_for_value

pytestmark = pytest.mark.hostile

GIB = 2**30
LONGEST_WAIT_SECONDS = 5.0
"""For one token, or for `/health`; some bodies below once took 50 to 120 seconds."""

COMPLETION = {"model": "demo", "prompt": "def main(", "max_tokens": 4}
CHAT = {"model": "demo", "max_tokens": 4}
FAST = {**COMPLETION, "temperature": 0, "ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The demo model in an address space of 6 GiB for each process."""
    with serving(
        "--port=0",
        "--num-kv-blocks=512",
        "--stat-logger=none",
        limits={resource.RLIMIT_AS: 6 * GIB},
    ) as running:
        running.post("/v1/completions", COMPLETION)
        yield running


class Watch:
    """The longest times that another client has waited for something."""

    def __init__(self, server: Server) -> None:
        self.longest = 0.0
        self.count = 0
        self._server = server
        self._since_last = server.stopwatch()

    def tick(self) -> None:
        self.longest = max(self.longest, self._since_last.own_seconds)
        self.count += 1
        self._since_last = self._server.stopwatch()


def stream_tokens(server: Server, watch: Watch, is_over: threading.Event) -> None:
    while not is_over.is_set():
        connection, response = server.stream(
            "/v1/completions", {**FAST, "max_tokens": 200}
        )
        while line := response.readline():
            if line.startswith(b"data: {"):
                assert b'"error"' not in line, line
                watch.tick()
            if is_over.is_set():
                break
        connection.close()


def ask_for_health(server: Server, watch: Watch, is_over: threading.Event) -> None:
    while not is_over.is_set():
        status, _ = server.get("/health")
        assert status == 200
        watch.tick()
        is_over.wait(0.01)


def await_more(watches: Sequence[Watch]) -> None:
    """Waits until each client has got something several times more."""
    wanted = [watch.count + 3 for watch in watches]
    wait_for_value(
        lambda: [watch.count for watch in watches],
        lambda counts: all(map(operator.ge, counts, wanted)),
        "a neighbour gets nothing",
    )


@contextmanager
def neighbours(server: Server) -> Iterator[None]:
    """Another client's stream and health checks, which must not have to wait."""
    is_over = threading.Event()
    watches = Watch(server), Watch(server)
    threads = [
        threading.Thread(target=work, args=(server, watch, is_over), daemon=True)
        for work, watch in zip((stream_tokens, ask_for_health), watches, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        await_more(watches)
        yield
        await_more(watches)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(LONGEST_WAIT_SECONDS * 2)
    for watch in watches:
        watch.tick()
        assert watch.longest < LONGEST_WAIT_SECONDS
    assert not any(thread.is_alive() for thread in threads)


def refused(server: Server, path: str, body: bytes) -> Any:
    """The error of a body, which must come at once."""
    stopwatch = server.stopwatch()
    status, answer = server.post(path, body, timeout_seconds=60)
    assert stopwatch.own_seconds < LONGEST_WAIT_SECONDS
    assert status == 400, answer
    return answer["error"]


def encoded(base: dict[str, object], **fields: object) -> bytes:
    return json.dumps({**base, **fields}, separators=(",", ":")).encode()


HUGE: dict[str, tuple[str, Callable[[], bytes], str | None]] = {
    "millions of stop tokens for 512 choices": (
        "/v1/completions",
        lambda: encoded(
            COMPLETION,
            prompt=[[1], [2], [3], [4]],
            n=128,
            max_tokens=2,
            stop_token_ids=[1] * 2_600_000,
        ),
        None,
    ),
    "millions of allowed tokens for 64 choices": (
        "/v1/completions",
        lambda: encoded(COMPLETION, n=64, allowed_token_ids=[1] * 2_600_000),
        None,
    ),
    "a million allowed tokens": (
        "/v1/completions",
        lambda: encoded(COMPLETION, n=64, allowed_token_ids=[1] * 1_000_000),
        "allowed_token_ids",
    ),
    "a hundred thousand bad words": (
        "/v1/completions",
        lambda: encoded(COMPLETION, bad_words=[f"w{i:x}" for i in range(100_000)]),
        "bad_words",
    ),
    "a hundred thousand stop strings": (
        "/v1/chat/completions",
        lambda: encoded(
            CHAT,
            messages=[{"role": "user", "content": "x"}],
            stop=["stop"] * 100_000,
        ),
        "stop",
    ),
    "a stop string of eight million characters": (
        "/v1/completions",
        lambda: encoded(COMPLETION, stop="x" * 8_000_000),
        "stop",
    ),
    "millions of empty prompts": (
        "/v1/completions",
        lambda: encoded(COMPLETION, prompt=[[]] * 2_700_000),
        None,
    ),
    "millions of lists in a field that is not supported": (
        "/v1/completions",
        lambda: encoded(COMPLETION, suffix=[[]] * 2_700_000),
        None,
    ),
    "millions of strings": (
        "/v1/completions",
        lambda: encoded(COMPLETION, prompt=["a"] * 2_000_000),
        None,
    ),
    "hundreds of thousands of messages": (
        "/v1/chat/completions",
        lambda: encoded(CHAT, messages=[{"role": ""}] * 600_000),
        None,
    ),
    "a prompt of a million tokens": (
        "/v1/completions",
        lambda: encoded(COMPLETION, prompt=[5] * 1_500_000, echo=True),
        "prompt",
    ),
    "a role of eight million characters": (
        "/v1/chat/completions",
        lambda: encoded(CHAT, messages=[{"role": "r" * 8_000_000}]),
        "messages[0].role",
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_nobody_waits_for_a_huge_request(server: Server, name: str) -> None:
    """
    It is a 400 at once; others get their tokens and `/health` meanwhile, both processes
    live, and their memory is given back.
    """
    path, make, param = HUGE[name]
    body = make()
    assert len(body) < 8 * 2**20
    engine_pid = server.engine_pid
    before = server.resident_mb(), server.resident_mb(engine_pid)

    with neighbours(server):
        error = refused(server, path, body)

    assert error["param"] == param
    assert server.engine_pid == engine_pid
    after = server.resident_mb(), server.resident_mb(engine_pid)
    growth = [new - old for old, new in zip(before, after, strict=True)]
    assert max(growth) < 50


def test_parameters_at_all_limits_delay_nobody(server: Server) -> None:
    """
    128 choices with the most and longest lists that are allowed run beside others.
    """
    words = [f"{i:04}{'ab' * 6}" for i in range(1024)]
    body = encoded(
        COMPLETION,
        n=128,
        max_tokens=16,
        min_tokens=8,
        logprobs=20,
        allowed_token_ids=list(range(4096)),
        stop_token_ids=list(range(2, 1026)),
        logit_bias={str(token_id): 0.5 for token_id in range(4096)},
        bad_words=words,
        stop=["a" * 255 + chr(97 + i) for i in range(16)],
    )

    with neighbours(server):
        status, answer = server.post("/v1/completions", body)

    assert status == 200, answer
    assert len(answer["choices"]) == 128

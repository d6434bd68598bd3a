"""The engine's memory is its KV cache and a constant, however long it works."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException

import pytest

from hookline_testing.server_process import Server, serving

CLIENTS = 96
POOL_MB = 64
WORKING_MB = 700
"""Budget for weights, code and working memory; 470 to 580 were seen."""
SETTLING_SECONDS, WATCHED_SECONDS = 60.0, 45.0
ALLOWED_GROWTH_MB = 48
WORDS = ("river", "stone", "light", "green", "seven", "north", "apple", "cloud")


def body(source: random.Random) -> str:
    words = source.choices(WORDS, k=source.choice([5, 20, 60, 200, 500]))
    return json.dumps(
        {
            "model": "demo",
            "prompt": " ".join(words),
            "max_tokens": source.choice([1, 4, 16, 48]),
            "temperature": source.choice([0, 1.0]),
            "logprobs": source.choice([None, None, None, 3]),
            "n": source.choice([1, 1, 1, 2]),
        }
    )


@contextmanager
def crowd(server: Server) -> Iterator[None]:
    """Clients that never pause; one request in ten is left before its answer."""
    is_over = threading.Event()

    def ask(seed: int) -> None:
        source = random.Random(seed)  # noqa: S311 - no secret
        while not is_over.is_set():
            connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
            try:
                connection.request("POST", "/v1/completions", body(source))
                if source.random() > 0.1:
                    connection.getresponse().read()
            except (OSError, HTTPException):
                continue
            finally:
                connection.close()

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(CLIENTS)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        is_over.set()
        for each in threads:
            each.join()


@pytest.mark.soak
def test_engine_stays_within_its_budget() -> None:
    """After a minute of saturation nothing is added but noise."""
    options = ("--model", "demo", "--port", "0", "--log-level", "error")
    with (
        serving(*options, "--kv-cache-memory", f"{POOL_MB}MiB") as server,
        crowd(server),
    ):
        engine = server.engine_pid
        time.sleep(SETTLING_SECONDS)
        before = server.resident_mb(engine)
        time.sleep(WATCHED_SECONDS)
        after = server.resident_mb(engine)

    assert after < POOL_MB + WORKING_MB
    assert after - before < ALLOWED_GROWTH_MB

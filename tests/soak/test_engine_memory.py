"""The engine's memory stays within a budget beside its KV cache.

That it is level after some minutes is checked by `test_hostile_soak.py`.
"""

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
"""Budget for weights, code and working memory; 405 to 615 were seen."""
SATURATED_SECONDS = 110.0
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
    """The sum holds at every moment of two minutes of saturation."""
    options = ("--model", "demo", "--port", "0", "--log-level", "error")
    with (
        serving(*options, "--kv-cache-memory", f"{POOL_MB}MiB") as server,
        crowd(server),
    ):
        engine = server.engine_pid
        sizes = []
        ends_at = time.monotonic() + SATURATED_SECONDS
        while time.monotonic() < ends_at:
            time.sleep(2.0)
            sizes.append(server.resident_mb(engine))

    assert max(sizes) < POOL_MB + WORKING_MB, sizes

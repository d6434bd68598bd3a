"""Fuzzes the HTTP API of a server: bodies, headers, paths, and raw bytes."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from hookline_faults.fuzzing.aftermath import aftermath, memory_mb
from hookline_faults.fuzzing.campaign import Campaign
from hookline_faults.fuzzing.case import Case
from hookline_faults.fuzzing.raw_http import raw_case
from hookline_faults.fuzzing.requests import huge_request, requests, with_mutated_body
from hookline_faults.fuzzing.storm import Storm
from hookline_faults.fuzzing.watching import watched
from hookline_testing.server_process import Server, serving

SIMULATED = (
    *("--model", "demo", "--executor", "simulated", "--max-num-seqs", "64"),
    *("--simulated-step-seconds", "0.001", "--enable-reset-prefix-cache"),
    *("--tenant-header", "X-Tenant", "--body-timeout", "5"),
)
"""A server whose engine costs nothing: the front end and the scheduler are fuzzed."""
REAL = (
    *("--model", "demo", "--num-kv-blocks", "512", "--threads", "1"),
    *("--enable-reset-prefix-cache", "--body-timeout", "5"),
)
"""A server that runs the demo model: sampling is fuzzed, too."""
BATCH = 16
"""Cases in one example of hypothesis; as many mutated ones are sent beside them."""
_HUGE_EVERY = 8
"""A batch in so many has a huge body, too."""


@contextmanager
def http_campaign(name: str, *options: str) -> Iterator[tuple[Campaign, Storm, Server]]:
    """Starts a server with a canary; judges it when the `with` statement ends."""
    with serving(*options, "--port", "0", "--log-level", "warning") as server:
        server.post("/v1/completions", {"model": "demo", "prompt": [1, 2]})
        server.get("/metrics")
        with (
            watched(server) as seen,
            Storm("127.0.0.1", server.port) as storm,
        ):
            made = Campaign(name, storm, seen, memory_mb(server))
            yield made, storm, server
        made.after = aftermath(server)


def send_requests(storm: Storm, count: int, seed_of_all: int) -> None:
    """Sends about this many requests in good form, of strategies of hypothesis."""
    source = random.Random(seed_of_all)  # noqa: S311 - to be repeated

    @seed(seed_of_all)
    @settings(
        max_examples=max(1, count // (2 * BATCH)),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(requests(), min_size=BATCH, max_size=BATCH))
    def blow(batch: list[Case]) -> None:
        cases = [*batch, *(with_mutated_body(each, source) for each in batch)]
        if source.randrange(_HUGE_EVERY) == 0:
            cases.append(huge_request(source))
        storm.send(cases)

    blow()


def send_raw(storm: Storm, count: int, seed_of_all: int) -> None:
    """Sends this many exchanges that are hardly HTTP."""
    source = random.Random(seed_of_all)  # noqa: S311 - to be repeated
    left = count
    while left > 0:
        storm.send([raw_case(source) for _ in range(min(left, 8 * BATCH))])
        left -= 8 * BATCH

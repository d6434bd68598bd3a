"""Fuzzes the HTTP API of a server by its own description."""

import json

from hypothesis import HealthCheck, Phase, given, seed, settings

from hookline_faults.fuzzing.bodies import MODEL
from hookline_faults.fuzzing.case import Case
from hookline_faults.fuzzing.described_cases import described_cases
from hookline_faults.fuzzing.http_campaign import BATCH, REAL, SIMULATED
from hookline_faults.fuzzing.storm import Storm
from hookline_testing.described_api import DescribedApi
from hookline_testing.server_process import Server

_SHORT = ("--max-model-len", "1024")
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
DESCRIBED = (*SIMULATED, *_SHORT)
DESCRIBED_REAL = (*REAL, *_SHORT, *PARSERS)
"""A server that runs the demo model, with grammars and parsers of replies."""


def send_described(storm: Storm, server: Server, count: int, seed_of_all: int) -> None:
    """Sends about this many requests that schemathesis makes."""
    status, text = server.get("/openapi.json")
    assert status == 200, text
    cases = described_cases(DescribedApi(json.loads(text)), MODEL)

    waiting: list[Case] = []

    @seed(seed_of_all)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def blow(case: Case) -> None:
        waiting.append(case)
        if len(waiting) == 2 * BATCH:
            storm.send(waiting)
            waiting.clear()

    blow()
    storm.send(waiting)

"""Fuzzes the HTTP API of a server by its own description."""

import dataclasses
import json
import random

from hypothesis import HealthCheck, Phase, given, seed, settings

from hookline_faults.fuzzing.bodies import MODEL
from hookline_faults.fuzzing.case import Case
from hookline_faults.fuzzing.described_cases import described_cases
from hookline_faults.fuzzing.http_campaign import BATCH, REAL, SIMULATED
from hookline_faults.fuzzing.requests import with_mutated_body
from hookline_faults.fuzzing.storm import Storm
from hookline_testing.described_api import DescribedApi
from hookline_testing.server_process import Server

_SHORT = ("--max-model-len", "1024")
_EMBEDS = ("--convert", "embed")
PARSERS = ("--tool-call-parser", "hermes", "--reasoning-parser", "qwen3")
MUTATIONS = 3
"""Cases with mutated bodies for each one of schemathesis, which are slow to make."""
_CASES_EACH = 3.5
"""Cases that come of one of schemathesis on average; some have no body."""
DESCRIBED = (*SIMULATED, *_SHORT, *_EMBEDS)
DESCRIBED_REAL = (*REAL, *_SHORT, *_EMBEDS, *PARSERS)
"""A server that runs the demo model, with grammars and parsers of replies."""


def send_described(storm: Storm, server: Server, count: int, seed_of_all: int) -> None:
    """Sends about this many requests that schemathesis makes, and mutations of them."""
    status, text = server.get("/openapi.json")
    assert status == 200, text
    cases = described_cases(DescribedApi(json.loads(text)), MODEL)

    source = random.Random(seed_of_all)  # noqa: S311 - to be repeated
    waiting: list[Case] = []

    @seed(seed_of_all)
    @settings(
        max_examples=max(1, round(count / _CASES_EACH)),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def blow(case: Case) -> None:
        waiting.append(case)
        if case.data.startswith(b"POST "):
            mutations = (with_mutated_body(case, source) for _ in range(MUTATIONS))
            waiting.extend(
                dataclasses.replace(each, kind=f"{case.kind}, mutated")
                for each in mutations
            )
        if len(waiting) >= 2 * BATCH:
            storm.send(waiting)
            waiting.clear()

    blow()
    storm.send(waiting)

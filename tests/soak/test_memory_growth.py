"""Memory does not grow with the requests that were served."""

from pathlib import Path

import pytest

from hookline import LLM, EngineConfig, SamplingParams
from hookline.config import ExecutorConfig, ObserverConfig
from hookline_simulated.config import SimulationConfig
from hookline_testing import assert_conserved

ROUNDS = 8
WARM_UP_ROUNDS = 3
REQUESTS_A_ROUND = 3000
ALLOWED_BYTES = 8 * 2**20
"""A leak of 600 bytes a request would show."""


def resident_bytes() -> int:
    """Memory that is this process's own (anonymous pages)."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not tell")


@pytest.mark.soak
def test_memory_is_the_same_after_many_requests() -> None:
    """Fifteen thousand requests later, with all loggers on, nothing has piled up."""
    instant = SimulationConfig(
        step_seconds=0.0, prefill_token_seconds=0.0, decode_request_seconds=0.0
    )
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(stat_loggers=("prometheus", "logging")),
        sections={"simulated": instant},
    )
    params = SamplingParams(max_tokens=8, stop=("\u2603",))
    sizes = []

    with LLM.from_config(config) as llm:
        for turn in range(ROUNDS):
            prompts = [[turn + 3, at % 4000, 7] for at in range(REQUESTS_A_ROUND)]
            llm.generate(prompts, params)
            llm.flush()
            sizes.append(resident_bytes())
        assert_conserved(llm)

    assert sizes[-1] - sizes[WARM_UP_ROUNDS - 1] < ALLOWED_BYTES, sizes

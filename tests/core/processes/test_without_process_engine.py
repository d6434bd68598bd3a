"""Without the distribution hookline-process-engine the engine runs in this process."""

import logging

import pytest

from hookline import LLM, SamplingParams
from hookline.exceptions import ConfigError
from hookline.transport.inproc_client import InprocClient


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "HOOKLINE_PLUGINS", "no:hookline-process-engine,no:hookline-cluster"
    )


def test_the_engine_runs_in_this_process(caplog: pytest.LogCaptureFixture) -> None:
    """It generates, and a line of the log says why it is here."""
    with (
        caplog.at_level(logging.WARNING),
        LLM(executor="simulated", in_process=False) as llm,
    ):
        [output] = llm.generate([[5]], SamplingParams(max_tokens=3), use_tqdm=False)

        assert isinstance(llm.front_end.engines.client, InprocClient)

    assert output.outputs[0].output_tokens == 3
    assert "hookline-process-engine is not installed" in caplog.text


def test_a_restart_needs_a_process() -> None:
    """What cannot be without one is refused."""
    with pytest.raises(ConfigError, match="requires the distribution hookline-process"):
        LLM(executor="simulated", in_process=False, engine_restart=1)

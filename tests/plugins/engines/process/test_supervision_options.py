"""The options of the supervision are a section of this distribution."""

import pytest

from hookline import LLM
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_process_engine.supervision.config import StallPolicy, SupervisionConfig


def test_the_section_has_the_options() -> None:
    """Keywords named after the flags set it; else it has its defaults."""
    given = EngineConfig.from_options(on_engine_stall="wait", step_timeout=5)

    assert SupervisionConfig.of(given) == SupervisionConfig(
        on_engine_stall=StallPolicy.WAIT, step_timeout=5.0
    )
    assert SupervisionConfig.of(EngineConfig()) == SupervisionConfig()


def test_an_engine_in_this_process_is_not_replaced() -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match="engine-restart: requires an engine process"):
        LLM(executor="simulated", in_process=True, engine_restart=1)

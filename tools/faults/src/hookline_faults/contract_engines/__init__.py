"""All that tell Hookline's loggers something, for the suite for engines."""

from collections.abc import Sequence

from hookline.config import EngineConfig, ExecutorConfig, ModelConfig
from hookline_faults.contract_engines.attached import AttachedEngine
from hookline_faults.contract_engines.gateway import GatewayEngine
from hookline_testing.engine_contract import ClientEngine, EngineUnderTest


def engines(model: str) -> Sequence[EngineUnderTest]:
    """Returns an engine of each kind; the native one has this model."""
    simulated = EngineConfig(executor=ExecutorConfig(name="simulated"))
    return (
        ClientEngine("native", EngineConfig(model=ModelConfig(model=model))),
        ClientEngine("simulated", simulated),
        GatewayEngine(),
        AttachedEngine(),
    )

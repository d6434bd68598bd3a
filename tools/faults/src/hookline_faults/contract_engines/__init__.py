"""All that tell Hookline's loggers something, for the suite for engines."""

from collections.abc import Sequence
from importlib.util import find_spec

from hookline.config import EngineConfig, ExecutorConfig, ModelConfig
from hookline_faults.contract_engines.attached import AttachedEngine
from hookline_faults.contract_engines.gateway import GatewayEngine
from hookline_faults.contract_engines.vllm import vllm_engine
from hookline_testing.engine_contract import ClientEngine, EngineUnderTest


def engines(model: str) -> Sequence[EngineUnderTest]:
    """Returns an engine of each kind; those that compute have this model.

    The engine `vllm` is there where vLLM is installed.
    """
    simulated = EngineConfig(executor=ExecutorConfig(name="simulated"))
    return (
        ClientEngine("native", EngineConfig(model=ModelConfig(model=model))),
        ClientEngine("simulated", simulated),
        GatewayEngine(),
        AttachedEngine(),
        *([vllm_engine(model)] if find_spec("vllm") else []),
    )

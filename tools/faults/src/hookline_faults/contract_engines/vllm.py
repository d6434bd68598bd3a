"""Hookline's front end on a real vLLM, as the suite for engines drives it."""

from hookline.config import EngineConfig
from hookline_testing.engine_contract import ClientEngine

_LIMITS = ("--max-num-seqs", "1", "--max-num-batched-tokens", "16")
_SMALL = ("--max-model-len", "256", "--dtype", "float32", "--enforce-eager")


def vllm_engine(model: str) -> ClientEngine:
    """Returns the engine `vllm` with a model; only an environment of vLLM has it."""
    config = EngineConfig.from_options(
        engine="vllm", model=model, engine_argument=[*_LIMITS, *_SMALL]
    )
    return ClientEngine("vllm", config, is_bounded=True)

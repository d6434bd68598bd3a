"""All that is used of vLLM, found once, so that another version is told by name."""

from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from hookline.exceptions import ConfigError

_HOMES = {
    "AsyncEngineArgs": "vllm.engine.arg_utils",
    "FlexibleArgumentParser": "vllm.utils.argparse_utils",
    "EngineCore": "vllm.v1.engine.core",
    "EngineCoreRequest": "vllm.v1.engine",
    "Executor": "vllm.v1.executor",
    "LoRARequest": "vllm.lora.request",
    "PauseState": "vllm.v1.core.sched.interface",
    "PoolingParams": "vllm.pooling_params",
    "SamplingParams": "vllm.sampling_params",
    "StructuredOutputsParams": "vllm.sampling_params",
    "VLLMError": "vllm.exceptions",
    "cached_tokenizer_from_config": "vllm.tokenizers",
    "current_platform": "vllm.platforms",
}


@dataclass(frozen=True, slots=True)
class Binding:
    """vLLM's classes and functions, under their own names.

    Attributes:
        version: Its version.
    """

    AsyncEngineArgs: Any
    FlexibleArgumentParser: Any
    EngineCore: Any
    EngineCoreRequest: Any
    Executor: Any
    LoRARequest: Any
    PauseState: Any
    PoolingParams: Any
    SamplingParams: Any
    StructuredOutputsParams: Any
    VLLMError: Any
    cached_tokenizer_from_config: Any
    current_platform: Any
    version: str


def bind() -> Binding:
    """Imports vLLM.

    Raises:
        ConfigError: It is not installed, or lacks something.
    """
    found = {}
    for name in (each.name for each in fields(Binding) if each.name in _HOMES):
        home = _HOMES[name]
        try:
            found[name] = getattr(import_module(home), name)
        except (ImportError, AttributeError) as error:
            reason = f"vllm needs {home}.{name} of vLLM 0.32: {error}"
            raise ConfigError("engine", reason) from error
    version = str(import_module("vllm").__version__)
    return Binding(**found, version=version)

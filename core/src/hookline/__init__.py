"""Hookline: an LLM inference engine whose loggers are plugins.

Importing this package imports neither torch nor transformers; `LLM` and `AsyncEngine`
are imported on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hookline.config import EngineConfig, ModelConfig
from hookline.exceptions import (
    ConfigError,
    EngineDeadError,
    HooklineError,
    ModelLoadError,
    PromptTooLongError,
    RequestError,
)
from hookline.frontend.prompts import TextPrompt, TokensPrompt
from hookline.hookspecs import hookimpl
from hookline.moved_modules import find_moved_modules
from hookline.pooling import PoolingParams
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.structured_outputs import ReasoningSpan, StructuredOutputsParams

if TYPE_CHECKING:
    from hookline.frontend.async_engine import AsyncEngine
    from hookline.llm import LLM

__version__ = "0.1.0"
__all__ = [
    "LLM",
    "AsyncEngine",
    "ConfigError",
    "EngineConfig",
    "EngineDeadError",
    "FinishReason",
    "HooklineError",
    "ModelConfig",
    "ModelLoadError",
    "PoolingParams",
    "PromptTooLongError",
    "ReasoningSpan",
    "RequestError",
    "RequestFacts",
    "SamplingParams",
    "StructuredOutputsParams",
    "TextPrompt",
    "TokensPrompt",
    "hookimpl",
]

find_moved_modules()
_LAZY = {"LLM": "hookline.llm", "AsyncEngine": "hookline.frontend.async_engine"}


def __getattr__(name: str) -> object:
    if (module := _LAZY.get(name)) is None:
        raise AttributeError(f"module 'hookline' has no attribute {name!r}")
    return getattr(import_module(module), name)

"""Hookline: an LLM inference engine whose loggers are plugins.

Names are imported on first access; none but `LLM` and `AsyncEngine` needs torch or
transformers.
"""

from typing import TYPE_CHECKING

from hookline.moved_modules import find_moved_modules, lazy_exports

if TYPE_CHECKING:
    from hookline.config.engine import EngineConfig
    from hookline.config.model import ModelConfig
    from hookline.exceptions import (
        ConfigError,
        EngineDeadError,
        HooklineError,
        ModelLoadError,
        PromptTooLongError,
        RequestError,
    )
    from hookline.frontend.async_engine import AsyncEngine
    from hookline.hookspecs import hookimpl
    from hookline.pooling import PoolingParams
    from hookline.request import FinishReason, RequestFacts
    from hookline.sampling_params import SamplingParams
    from hookline.structured_outputs import ReasoningSpan, StructuredOutputsParams
    from hookline_offline.llm import LLM
    from hookline_offline.prompts import TextPrompt, TokensPrompt

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
__getattr__ = lazy_exports(
    __name__,
    {
        "hookline.config.engine": ("EngineConfig",),
        "hookline.config.model": ("ModelConfig",),
        "hookline.exceptions": (
            "ConfigError",
            "EngineDeadError",
            "HooklineError",
            "ModelLoadError",
            "PromptTooLongError",
            "RequestError",
        ),
        "hookline.frontend.async_engine": ("AsyncEngine",),
        "hookline_offline.prompts": ("TextPrompt", "TokensPrompt"),
        "hookline.hookspecs": ("hookimpl",),
        "hookline_offline.llm": ("LLM",),
        "hookline.pooling": ("PoolingParams",),
        "hookline.request": ("FinishReason", "RequestFacts"),
        "hookline.sampling_params": ("SamplingParams",),
        "hookline.structured_outputs": ("ReasoningSpan", "StructuredOutputsParams"),
    },
)

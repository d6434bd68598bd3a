"""Checks that the KV cache and the token budget can serve at least one request."""

from typing import TYPE_CHECKING

from hookline.exceptions import ConfigError
from hookline.step.model_shape import ModelShape

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig


def check_capacity(config: "EngineConfig", shape: ModelShape) -> None:
    """Raises `ConfigError` if a request of the maximum length could never finish."""
    pool_tokens = shape.num_kv_blocks * config.cache.block_size
    if pool_tokens < shape.max_model_len:
        raise ConfigError(
            "num-kv-blocks",
            f"the KV cache's {shape.num_kv_blocks} blocks hold {pool_tokens} tokens, "
            f"but one request may have {shape.max_model_len}: give the KV cache more "
            f"memory or lower max-model-len",
        )
    budget = config.scheduler.max_num_batched_tokens
    if not config.scheduler.enable_chunked_prefill and budget < shape.max_model_len:
        raise ConfigError(
            "max-num-batched-tokens",
            f"without chunked prefill a step must hold a whole prompt: {budget} is "
            f"less than max-model-len ({shape.max_model_len})",
        )

"""The data type of keys and values in the KV cache."""

import torch

from hookline.config.cache import CacheConfig, KVCacheDtype
from hookline.exceptions import ConfigError
from hookline_kernels import Platform

_DTYPES = {
    KVCacheDtype.FP8: torch.float8_e4m3fn,
    KVCacheDtype.FP8_E4M3: torch.float8_e4m3fn,
    KVCacheDtype.FP8_E5M2: torch.float8_e5m2,
    KVCacheDtype.INT8: torch.int8,
}


def eight_bit_dtype(config: CacheConfig, platform: Platform) -> torch.dtype | None:
    """Returns the configured dtype of 8 bits, or None for the model's dtype.

    Raises:
        ConfigError: The platform's kernels do not read it.
    """
    if config.kv_cache_dtype is KVCacheDtype.AUTO:
        return None
    if platform.is_gpu:
        raise ConfigError(
            "kv-cache-dtype",
            f"{config.kv_cache_dtype} is supported on CPUs only: use auto, or set "
            "device to cpu",
        )
    return _DTYPES[config.kv_cache_dtype]

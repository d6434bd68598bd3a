"""The configuration of an engine: frozen dataclasses, checked when they are made.

They cross the process boundary as msgpack, so they hold plain values only. The names
here are for users; each part of the engine imports the module of its own section.
"""

from typing import TYPE_CHECKING

from hookline.moved_modules import lazy_exports

if TYPE_CHECKING:
    from hookline.config.cache import CacheConfig, HashAlgorithm, KVCacheDtype
    from hookline.config.engine import EngineConfig
    from hookline.config.executor import Device, ExecutorConfig, Kernels
    from hookline.config.model import (
        Convert,
        Dtype,
        LoadFormat,
        ModelConfig,
        Quantization,
        Runner,
    )
    from hookline.config.observers import DetailedTrace, ObserverConfig
    from hookline.config.parallel import ParallelConfig
    from hookline.config.scheduler import Policy, SchedulerConfig, SleepPolicy

__all__ = [
    "CacheConfig",
    "Convert",
    "DetailedTrace",
    "Device",
    "Dtype",
    "EngineConfig",
    "ExecutorConfig",
    "HashAlgorithm",
    "KVCacheDtype",
    "Kernels",
    "LoadFormat",
    "ModelConfig",
    "ObserverConfig",
    "ParallelConfig",
    "Policy",
    "Quantization",
    "Runner",
    "SchedulerConfig",
    "SleepPolicy",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "hookline.config.cache": ("CacheConfig", "HashAlgorithm", "KVCacheDtype"),
        "hookline.config.engine": ("EngineConfig",),
        "hookline.config.executor": ("Device", "ExecutorConfig", "Kernels"),
        "hookline.config.model": (
            "Convert",
            "Dtype",
            "LoadFormat",
            "ModelConfig",
            "Quantization",
            "Runner",
        ),
        "hookline.config.observers": ("DetailedTrace", "ObserverConfig"),
        "hookline.config.parallel": ("ParallelConfig",),
        "hookline.config.scheduler": ("Policy", "SchedulerConfig", "SleepPolicy"),
        "hookline_kv_transfer": ("KVTransferConfig",),  # where vLLM has it
    },
)

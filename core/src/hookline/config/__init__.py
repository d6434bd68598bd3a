"""The configuration of an engine: frozen dataclasses, checked when they are made.

They cross the process boundary as msgpack, so they hold plain values only.
"""

from hookline.config.cache import CacheConfig, HashAlgorithm, KVCacheDtype
from hookline.config.engine import EngineConfig
from hookline.config.executor import (
    Device,
    ExecutorConfig,
    Kernels,
    SimulationConfig,
)
from hookline.config.kv_events import KVEventsConfig
from hookline.config.kv_transfer import KVRole, KVTransferConfig, LoadFailurePolicy
from hookline.config.machines import MachinesConfig
from hookline.config.model import (
    Convert,
    Dtype,
    LoadFormat,
    ModelConfig,
    Quantization,
    Runner,
)
from hookline.config.observers import (
    MOST_TENANTS,
    DetailedTrace,
    MetricsConfig,
    ObserverConfig,
)
from hookline.config.parallel import LoadBalancing, ParallelConfig
from hookline.config.scheduler import Policy, SchedulerConfig, SleepPolicy
from hookline.config.supervision import StallPolicy, SupervisionConfig
from hookline.moved_modules import moved_name

__all__ = [
    "MOST_TENANTS",
    "CacheConfig",
    "Convert",
    "DetailedTrace",
    "Device",
    "Dtype",
    "EngineConfig",
    "ExecutorConfig",
    "HashAlgorithm",
    "KVCacheDtype",
    "KVEventsConfig",
    "KVRole",
    "KVTransferConfig",
    "Kernels",
    "LoadBalancing",
    "LoadFailurePolicy",
    "LoadFormat",
    "MachinesConfig",
    "MetricsConfig",
    "ModelConfig",
    "ObserverConfig",
    "ParallelConfig",
    "Policy",
    "Quantization",
    "Runner",
    "SchedulerConfig",
    "SimulationConfig",
    "SleepPolicy",
    "StallPolicy",
    "SupervisionConfig",
]


def __getattr__(name: str) -> object:
    return moved_name(__name__, name)

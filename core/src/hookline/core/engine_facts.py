"""Facts of an engine core at its start."""

from importlib.metadata import version

from hookline.cache_facts import CacheFacts
from hookline.config.engine import EngineConfig
from hookline.core.config_hash import config_hash
from hookline.kv_transfer.guard import ConnectorGuard
from hookline.payloads import EngineFacts
from hookline.stats import TierStats
from hookline.step import ModelShape

_HOST_TIER = "cpu"
"""Name of a connector's tier in host memory."""

_NO_TIER = TierStats()


def engine_facts(
    config: EngineConfig, shape: ModelShape, connector: ConnectorGuard | None
) -> EngineFacts:
    """Describes an engine for observers: its model, cache, scheduler and executor.

    Args:
        config: Configuration of the engine.
        shape: The model's shape.
        connector: Scheduler side of the KV connector, which knows the layout.
    """
    tiers = {} if connector is None else connector.tier_stats()
    return EngineFacts(
        engine_index=config.engine_index,
        model_name=config.model.served_name,
        architecture=shape.architecture,
        dtype=shape.dtype,
        cache_dtype=shape.cache_dtype,
        vocab_size=shape.vocab_size,
        max_model_len=shape.max_model_len,
        block_size=config.cache.block_size,
        num_kv_blocks=shape.num_kv_blocks,
        max_num_seqs=config.scheduler.max_num_seqs,
        max_num_batched_tokens=config.scheduler.max_num_batched_tokens,
        enable_prefix_caching=config.cache.enable_prefix_caching,
        eos_token_ids=shape.eos_token_ids,
        executor=config.executor_name,
        cost=shape.cost,
        kernels=shape.kernels,
        isa=shape.isa,
        version=version("hookline"),
        config_hash=config_hash(config),
        enable_kv_cache_events=config.follows_cache,
        kv_cache_spec_kind=shape.kv_cache_spec_kind,
        data_parallel_size=len(config.engine_indices),
        tensor_parallel_size=config.parallel.tensor_parallel_size,
        pipeline_parallel_size=config.parallel.pipeline_parallel_size,
        shares_experts=config.parallel.spreads_experts,
        cache=_cache_facts(config, shape, tiers.get(_HOST_TIER, _NO_TIER)),
    )


def _cache_facts(
    config: EngineConfig, shape: ModelShape, host: TierStats
) -> CacheFacts:
    cache, transfer = config.cache, config.kv_transfer
    return CacheFacts(
        hash_algorithm=cache.hash_algorithm,
        gpu_memory_utilization=cache.gpu_memory_utilization,
        configured_blocks=cache.num_kv_blocks,
        configured_bytes=cache.kv_cache_memory,
        sliding_window=shape.sliding_window,
        connector="" if transfer is None else transfer.kv_connector,
        host_blocks=host.max_blocks,
        host_bytes=host.max_bytes,
    )

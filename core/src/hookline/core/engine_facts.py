"""Facts of an engine core at its start."""

from importlib.metadata import version

from hookline.cache_facts import CacheFacts
from hookline.config.engine import EngineConfig
from hookline.core.config_hash import config_hash
from hookline.payloads import EngineFacts
from hookline.step import ModelShape


def engine_facts(config: EngineConfig, shape: ModelShape) -> EngineFacts:
    """Describes an engine for observers: its model, cache, scheduler and executor.

    Args:
        config: Configuration of the engine.
        shape: The model's shape.
    """
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
        shares_experts=config.spreads_experts,
        cache=CacheFacts(
            hash_algorithm=config.cache.hash_algorithm,
            gpu_memory_utilization=config.cache.gpu_memory_utilization,
            configured_blocks=config.cache.num_kv_blocks,
            configured_bytes=config.cache.kv_cache_memory,
            sliding_window=shape.sliding_window,
        ),
    )

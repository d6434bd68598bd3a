"""Facts of an engine core at its start."""

import hashlib
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from hookline.cache_facts import CacheFacts
from hookline.config.sections import installed_sections
from hookline.frozen import plain
from hookline.payloads import EngineFacts
from hookline.step import ModelCost, ModelShape
from hookline.tells import Tells

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig

_HASH_DIGITS = 12


def engine_facts(config: "EngineConfig", shape: ModelShape) -> EngineFacts:
    """Describes an engine for observers: its model, cache, scheduler and executor.

    Args:
        config: Configuration of the engine.
        shape: The model's shape.
    """
    untold = (Tells.COST,) if shape.cost == ModelCost() else ()
    return EngineFacts(
        engine_index=config.engine_index,
        model_name=config.model.served_name,
        # What only its scheduler reads is not for others.
        model=replace(shape, rank_sections=()),
        block_size=config.cache.block_size,
        max_num_seqs=config.scheduler.max_num_seqs,
        max_num_batched_tokens=config.scheduler.tokens_per_step,
        enable_prefix_caching=config.cache.enable_prefix_caching,
        executor=config.executor_name,
        version=version("hookline-core"),
        config_hash=config_hash(config),
        enable_kv_cache_events=config.follows_cache,
        data_parallel_size=len(config.engine_indices),
        tensor_parallel_size=config.parallel.tensor_parallel_size,
        pipeline_parallel_size=config.parallel.pipeline_parallel_size,
        shares_experts=config.spreads_experts,
        tells=tuple(each for each in Tells if each not in untold),
        cache=CacheFacts(
            hash_algorithm=config.cache.hash_algorithm,
            gpu_memory_utilization=config.cache.gpu_memory_utilization,
            configured_blocks=config.cache.num_kv_blocks,
            configured_bytes=config.cache.kv_cache_memory,
        ),
    )


def config_hash(config: "EngineConfig") -> str:
    """Returns a hash of an engine's options, but not of its index and its machine.

    It is equal for equal options, in every process and for every engine of a server.
    """
    shared = msgspec.to_builtins(config, enc_hook=plain)
    for name in ("engine_index", "engines_here", "server_indices"):
        del shared[name]
    shared["sections"] = _shared_sections(config)
    del shared["cache"]["sibling_blocks"]
    text = msgspec.json.encode(shared, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_HASH_DIGITS]


def _shared_sections(config: "EngineConfig") -> dict[str, object]:
    """Returns the sections in which something is set that all engines share."""
    if not config.sections:
        return {}
    found = {
        name: kind.of(config)
        for name, kind in installed_sections(config.sections).items()
        if not kind.is_of_machine
    }
    return {
        name: msgspec.to_builtins(section, enc_hook=plain)
        for name, section in found.items()
        if section != type(section)()
    }

"""Facts about vLLM's engine, as loggers get them of any engine."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hookline.cache_facts import CacheFacts
from hookline.payloads import EngineFacts
from hookline.step import ModelShape
from hookline.tells import Tells


def served_name(config: Any) -> str:
    """Returns the model's name in the API of a `VllmConfig`."""
    names = config.model_config.served_model_name
    if isinstance(names, str):
        return names
    return str(names[0]) if names else str(config.model_config.model)


def engine_facts(
    config: Any,
    engine_index: int,
    version: str,
    *,
    tells: tuple[Tells, ...] = tuple(Tells),
) -> EngineFacts:
    """Returns what a `VllmConfig` tells of one of its engines, once it is ready."""
    model, cache = config.model_config, config.cache_config
    scheduler, parallel = config.scheduler_config, config.parallel_config
    architectures = getattr(model, "architectures", None) or ["unknown"]
    shape = ModelShape(
        architecture=str(architectures[0]),
        dtype=str(model.dtype).removeprefix("torch."),
        cache_dtype=str(cache.cache_dtype),
        vocab_size=int(model.get_vocab_size()),
        max_model_len=int(model.max_model_len),
        eos_token_ids=(),
        # One block only stands for what is no token.
        num_kv_blocks=max(0, int(cache.num_gpu_blocks or 0) - 1),
    )
    return EngineFacts(
        engine_index=engine_index,
        model_name=served_name(config),
        model=shape,
        block_size=int(cache.block_size or 0),
        max_num_seqs=int(scheduler.max_num_seqs),
        max_num_batched_tokens=int(scheduler.max_num_batched_tokens),
        enable_prefix_caching=bool(cache.enable_prefix_caching),
        executor="vllm",
        version=f"vllm {version}",
        cache=CacheFacts(gpu_memory_utilization=cache.gpu_memory_utilization),
        data_parallel_size=int(parallel.data_parallel_size),
        tensor_parallel_size=int(parallel.tensor_parallel_size),
        pipeline_parallel_size=int(parallel.pipeline_parallel_size),
        tells=tells,
    )


def vllm_version() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return "unknown"

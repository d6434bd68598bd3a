"""The labels of vLLM's `cache_config_info`: the fields of its cache configuration.

A field of something that Hookline does not have is what vLLM prints where it is off:
`False` for a switch, otherwise `None`. Fields of earlier versions of vLLM are the last.
"""

from collections.abc import Callable, Iterable, Mapping

from hookline.config import CacheConfig
from hookline.payloads import EngineFacts
from hookline_metrics.metric import Alias, Kind, Label, Metric, Point
from hookline_metrics.readings import Reading

_GIB = 2**30
_DEFAULT_BLOCK_SIZE = CacheConfig().block_size

Field = Callable[[EngineFacts], object]


def _always(value: object) -> Field:
    return lambda _: value


_ABSENT, _OFF = _always(None), _always(False)


def _concurrency(facts: EngineFacts) -> float:
    """Returns how many requests of the maximum length the cache holds."""
    blocks_per_request = -(-facts.model.max_model_len // facts.block_size)
    return facts.model.num_kv_blocks / blocks_per_request


def _host_gib(facts: EngineFacts) -> str | None:
    size = facts.cache.host_bytes
    return f"{size / _GIB:g}" if size else None


_FIELDS: Mapping[str, Field] = {
    "block_size": lambda facts: facts.block_size,
    "user_specified_block_size": lambda facts: facts.block_size != _DEFAULT_BLOCK_SIZE,
    "effective_attention_block_size": lambda facts: facts.block_size,
    "prefix_match_unit": lambda facts: (
        facts.block_size if facts.enable_prefix_caching else None
    ),
    "num_gpu_blocks": lambda facts: facts.model.num_kv_blocks,
    "num_gpu_blocks_override": lambda facts: facts.cache.configured_blocks,
    "num_cpu_blocks": lambda facts: facts.cache.host_blocks or None,
    "kv_cache_size_tokens": lambda facts: facts.model.num_kv_blocks * facts.block_size,
    "kv_cache_max_concurrency": _concurrency,
    "kv_cache_memory_bytes": lambda facts: facts.cache.configured_bytes,
    "gpu_memory_utilization": lambda facts: facts.cache.gpu_memory_utilization,
    "cache_dtype": lambda facts: facts.model.cache_dtype,
    "sliding_window": lambda facts: facts.model.sliding_window,
    "enable_prefix_caching": lambda facts: facts.enable_prefix_caching,
    "prefix_caching_hash_algo": lambda facts: facts.cache.hash_algorithm,
    "kv_offloading_size": _host_gib,
    "kv_offloading_backend": lambda facts: (
        facts.cache.connector if facts.cache.host_blocks else None
    ),
    "is_attention_free": _OFF,
    "kv_sharing_fast_prefill": _OFF,
    "kv_cache_dtype_skip_layers": _always([]),
    "kv_cache_layout": _ABSENT,
    "attn_group_size": _ABSENT,
    "prefix_cache_retention_interval": _ABSENT,
    "skip_page_size_padded": _ABSENT,
    "mamba_block_size": _ABSENT,
    "user_specified_mamba_block_size": _OFF,
    "mamba_cache_dtype": _ABSENT,
    "mamba_ssm_cache_dtype": _ABSENT,
    "mamba_cache_mode": _ABSENT,
    "mamba_page_size_padded": _ABSENT,
    "enable_mamba_fine_grained_prefix_cache": _OFF,
    "use_replayssm": _OFF,
    "replayssm_buffer_len": _ABSENT,
    "use_kda_recoverssm": _OFF,
    "calculate_kv_scales": _OFF,
    "cpu_offload_gb": _always(0),
    "swap_space": _always(0),
}
"""By label; values are printed with `str`, as vLLM does."""


def _info(facts: EngineFacts) -> Iterable[Point]:
    return ((tuple(str(field(facts)) for field in _FIELDS.values()), 1.0, 1),)


NAMES: Mapping[str, tuple[Alias, ...]] = {
    "vllm_cache_config": (Alias(name="vllm:cache_config_info"),),
}

ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="vllm_cache_config",
        kind=Kind.GAUGE,
        unit="1",
        help="Configuration of the KV cache, as labels; the value is always 1.",
        labels=tuple(Label(name, cap=None) for name in _FIELDS),
        is_own=False,
        value=Reading(EngineFacts, _info),
    ),
)

"""Arguments of scripts for vLLM's `LLM`: other names, and what has no meaning here.

The command line of the server has vLLM's flags; these are the keywords of scripts.
"""

from collections.abc import Container, Mapping

from hookline.exceptions import ConfigError
from hookline.request_limits import LOGPROBS

_RENAMED: Mapping[str, str] = {
    "kv_cache_memory_bytes": "kv_cache_memory",
    "num_gpu_blocks_override": "num_kv_blocks",
}
_SETTLED: Mapping[str, Container[object]] = {
    "cpu_offload_gb": (0,),
    "disable_log_stats": (True, False),
    "load_format": ("auto",),
    "max_logprobs": (LOGPROBS.most,),
    "model_impl": ("auto",),
    "swap_space": (0,),
    "trust_remote_code": (False,),
    "use_tqdm_on_load": (True, False),
}
"""Values that ask for what is so anyway."""

_ADVICE: Mapping[str, str] = {
    "cpu_offload_gb": "weights are not offloaded; quantization='w8a16' makes them less",
    "limit_mm_per_prompt": "only text is taken, neither images nor audio nor video",
    "max_logprobs": f"requests get {LOGPROBS.most} log-probabilities at most",
    "mm_processor_kwargs": "only text is taken, neither images nor audio nor video",
    "swap_space": "use kv_transfer_config={'kv_connector': 'cpu_offload'}",
    "trust_remote_code": "code of model folders never runs; leave it out",
}


def from_vllm(options: Mapping[str, object]) -> dict[str, object]:
    """Returns the options of `LLM` by their names here, without what is so anyway.

    Raises:
        ConfigError: One asks for what Hookline does not do; the text says what to do.
    """
    found: dict[str, object] = {}
    for name, value in options.items():
        if value in _SETTLED.get(name, ()):
            continue
        if (advice := _ADVICE.get(name)) is not None:
            raise ConfigError(name, advice)
        found[_RENAMED.get(name, name)] = value
    return found

"""Arguments of scripts for vLLM's `LLM` are taken, or refused with advice."""

import pytest

from hookline import EngineConfig
from hookline.exceptions import ConfigError
from hookline_offline.vllm_arguments import from_vllm

SCRIPT: dict[str, object] = {
    "disable_log_stats": False,
    "distributed_executor_backend": "mp",
    "dtype": "float32",
    "enable_lora": False,
    "enforce_eager": True,
    "gpu_memory_utilization": 0.5,
    "load_format": "auto",
    "max_model_len": 512,
    "num_gpu_blocks_override": 40,
    "seed": 0,
    "swap_space": 0,
    "tensor_parallel_size": 1,
    "trust_remote_code": False,
}


def test_arguments_of_a_script_are_taken() -> None:
    """
    They have vLLM's names, and what is so anyway is left out.
    """
    config = EngineConfig.from_options(model="demo", **from_vllm(SCRIPT))

    assert config.model.max_model_len == 512
    assert config.cache.num_kv_blocks == 40


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("trust_remote_code", True, "leave it out"),
        ("swap_space", 4, "cpu_offload"),
        ("limit_mm_per_prompt", {"image": 2}, "only text"),
    ],
)
def test_what_is_not_done_is_refused_with_advice(
    name: str, value: object, advice: str
) -> None:
    """
    The error names the argument and says what to do.
    """
    with pytest.raises(ConfigError, match=rf"{name}: .*{advice}"):
        from_vllm({name: value})


def test_unknown_arguments_are_left_to_the_configuration() -> None:
    """
    A misspelt name is passed on, to be refused where options are known.
    """
    assert from_vllm({"max_modle_len": 5}) == {"max_modle_len": 5}

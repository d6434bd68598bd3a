"""Engines whose KV cache has numbers of 8 bits."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, KVCacheDtype, SchedulerConfig
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.exceptions import ConfigError
from hookline_kernels import CPU, Platform
from hookline_kernels.cache_numbers import dtype_name
from hookline_models.loading.loader import eight_bit_dtype
from hookline_models.machines.memory import count_blocks
from hookline_testing.oracle import Oracle

GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
PROMPTS = [[5, 6, 7] * 9, [9], list(range(3, 60))]
EIGHT_BITS = [each for each in KVCacheDtype if each is not KVCacheDtype.AUTO]


def texts(folder: Path, dtype: KVCacheDtype, **options: Any) -> list[list[int]]:
    with LLM(
        model=str(folder),
        kv_cache_dtype=dtype,
        num_kv_blocks=64,
        max_num_seqs=4,
        **options,
    ) as llm:
        outputs = llm.generate([*PROMPTS, PROMPTS[0]], GREEDY)
    return [list(output.outputs[0].token_ids) for output in outputs]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "dtype",
    [KVCacheDtype.INT8, KVCacheDtype.FP8_E4M3],
)
def test_texts_do_not_depend_on_how_prompts_are_cut(
    llama: Oracle, dtype: KVCacheDtype
) -> None:
    """New tokens are read as they are cached; so chunks and a shared prefix agree.

    Compiled kernels and plain torch agree, too.
    """
    whole = texts(llama.folder, dtype)

    assert texts(llama.folder, dtype, max_num_batched_tokens=8) == whole
    assert texts(llama.folder, dtype, kernels="torch") == whole
    assert whole[0] == whole[3]


@pytest.mark.parametrize("head_dim", [64, 128])
def test_twice_as_many_tokens_fit(head_dim: int) -> None:
    """fp8 takes half of bfloat16's memory, and int8 two bytes more per head."""

    def tokens(dtype: torch.dtype) -> int:
        return 16 * count_blocks(
            CacheConfig(kv_cache_memory=64 << 20),
            SchedulerConfig(),
            [LayerCache(8, 2, head_dim, head_dim)] * 4,
            dtype=dtype,
            max_model_len=4096,
            room=lambda: 0,
        )

    plain = tokens(torch.bfloat16)
    assert tokens(torch.float8_e4m3fn) == 2 * plain
    share = 2 * head_dim / (head_dim + 2)
    assert math.isclose(tokens(torch.int8) / plain, share, rel_tol=1e-3)


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_gpus_refuse_it(dtype: KVCacheDtype) -> None:
    """One error names the option and a remedy; auto is the model's dtype."""
    gpu = Platform(torch.device("cuda", 0), is_gpu=True)

    with pytest.raises(ConfigError, match=r"kv-cache-dtype: .* on CPUs only: use auto"):
        eight_bit_dtype(CacheConfig(kv_cache_dtype=dtype), gpu)
    assert eight_bit_dtype(CacheConfig(), gpu) is None


def test_an_unknown_dtype_is_refused() -> None:
    """The error lists what there is."""
    with pytest.raises(ConfigError, match=r"kv-cache-dtype: .*fp8_e4m3.*int8"):
        EngineConfig.from_options(model="demo", kv_cache_dtype="int4")


def test_dtypes_have_the_names_of_the_option() -> None:
    """fp8 is the name of fp8_e4m3."""
    names = []
    for each in EIGHT_BITS:
        dtype = eight_bit_dtype(CacheConfig(kv_cache_dtype=each), CPU)
        assert dtype is not None
        names.append(dtype_name(dtype))

    assert names == ["fp8_e4m3", "fp8_e4m3", "fp8_e5m2", "int8"]
    assert dtype_name(torch.bfloat16) == "bfloat16"

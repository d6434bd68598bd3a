"""What a KV cache of 8 bits costs the demo model in quality."""

import pytest
import torch
from kv_cache_quality import Answers, Loss, answers, texts_of

from hookline.config import Kernels, KVCacheDtype, ModelConfig, Quantization

BOUNDS = {
    KVCacheDtype.INT8: (0.002, 1e-3, 0.97),
    KVCacheDtype.FP8_E4M3: (0.01, 1e-2, 0.93),
    KVCacheDtype.FP8_E5M2: (0.03, 4e-2, 0.87),
}
"""Relative change of perplexity, mean KL divergence in nats, share of equal tops."""
WITH_WEIGHTS = {
    Quantization.W8A16: (0.015, 1.2e-2, 0.9),
    Quantization.W4A16: (0.06, 0.07, 0.8),
}
"""The same for either cache of int8 and fp8 behind quantized weights."""
PLAIN = ModelConfig(model="demo")
GENERATED = 2


def assert_is_within(
    bounds: tuple[float, float, float],
    found: Answers,
    wanted: Answers,
    texts: torch.Tensor,
) -> None:
    change, divergence, same_top = bounds
    plain, loss = Loss.of(wanted, wanted, texts), Loss.of(found, wanted, texts)

    assert loss.perplexity == pytest.approx(plain.perplexity, rel=change)
    assert 0 < loss.divergence < divergence
    assert loss.same_top > same_top


@pytest.mark.exhaustive
def test_int8_and_fp8_lose_little() -> None:
    """Perplexity, divergence and most probable tokens hardly change, by torch."""
    texts = texts_of("demo", sequences=1, tokens=160)
    wanted, *found = (
        answers(PLAIN, texts, GENERATED, dtype, Kernels.TORCH)
        for dtype in (KVCacheDtype.AUTO, KVCacheDtype.INT8, KVCacheDtype.FP8)
    )

    assert_is_within((0.005, 2e-3, 0.94), found[0], wanted, texts)
    assert_is_within((0.025, 2e-2, 0.88), found[1], wanted, texts)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", BOUNDS)
def test_the_loss_of_quality_is_bounded(dtype: KVCacheDtype) -> None:
    """Kernels lose no more with any dtype, over longer texts."""
    texts = texts_of("demo", sequences=3, tokens=300)
    wanted = answers(PLAIN, texts, GENERATED, KVCacheDtype.AUTO)

    found = answers(PLAIN, texts, GENERATED, dtype)

    assert_is_within(BOUNDS[dtype], found, wanted, texts)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [KVCacheDtype.INT8, KVCacheDtype.FP8])
@pytest.mark.parametrize("weights", WITH_WEIGHTS)
def test_with_quantized_weights(weights: Quantization, dtype: KVCacheDtype) -> None:
    """A small cache adds little to what weights in 8 and 4 bits lose."""
    texts = texts_of("demo", sequences=3, tokens=300)
    wanted = answers(PLAIN, texts, GENERATED, KVCacheDtype.AUTO)

    found = answers(
        ModelConfig(model="demo", quantization=weights), texts, GENERATED, dtype
    )

    assert_is_within(WITH_WEIGHTS[weights], found, wanted, texts)

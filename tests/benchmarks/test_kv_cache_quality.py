"""What a KV cache of 8 bits costs the demo model in quality."""

import pytest
from kv_cache_quality import Loss, answers, texts_of

from hookline.config import KVCacheDtype

BOUNDS = {
    KVCacheDtype.INT8: (0.002, 1e-3, 0.97),
    KVCacheDtype.FP8_E4M3: (0.01, 1e-2, 0.93),
    KVCacheDtype.FP8_E5M2: (0.03, 4e-2, 0.87),
}
"""Relative change of perplexity, mean KL divergence in nats, share of equal tops."""


@pytest.mark.exhaustive
def test_the_loss_of_quality_is_bounded() -> None:
    """Perplexity, divergence and most probable tokens hardly change."""
    texts = texts_of("demo", sequences=3, tokens=300)
    wanted = answers("demo", texts, 4, KVCacheDtype.AUTO)
    plain = Loss.of(wanted, wanted, texts)

    for dtype, (change, divergence, same_top) in BOUNDS.items():
        loss = Loss.of(answers("demo", texts, 4, dtype), wanted, texts)

        assert loss.perplexity == pytest.approx(plain.perplexity, rel=change)
        assert 0 < loss.divergence < divergence
        assert loss.same_top > same_top

"""Sinks take their share of the weights, and slopes prefer near tokens, everywhere."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from hookline_kernels import AttentionLayer, choose_attention, reference_attention
from hookline_kernels.attention import paged_attention
from hookline_testing.attention_steps import Step, make_step
from hookline_testing.essential import essential

TOLERANCES = {torch.float32: 3e-6, torch.bfloat16: 1e-2}
SHAPES = ((3, 4, 64, 64, 16), (19, 1, 24, 40, 16))
"""Those of other tests, whose kernels are compiled."""
SCALE = 0.3


def scored(
    layer: AttentionLayer, kind: str, heads: int, *, exact: bool = False
) -> AttentionLayer:
    """The layer with sinks or slopes; sinks between "no share" and "nearly all"."""
    dtype = torch.float64 if exact else torch.float32
    given: dict[str, Any] = {
        "sinks": {"sinks": torch.linspace(-3, 9, heads).to(dtype)},
        "slopes": {"slopes": (0.5 ** torch.arange(1, heads + 1)).to(dtype)},
    }[kind]
    return replace(layer, **given)


def by_formula(step: Step, layer: AttentionLayer) -> torch.Tensor:
    """Attention of each decode alone, in float64."""
    outputs = []
    block, group = step.keys.shape[1], step.query.shape[1] // step.key.shape[1]
    for row, length in enumerate(step.metadata.seq_lens):
        at = torch.arange(length)
        pages = step.metadata.block_tables[row, at // block]
        key, value = (
            side[pages, at % block].repeat_interleave(group, 1)
            for side in (layer.keys, layer.values)
        )
        scores = torch.einsum("hd,thd->ht", step.query[row], key) * SCALE
        if layer.slopes is not None:
            scores += layer.slopes[:, None] * (at - (length - 1))
        weights = scores.exp()
        total = weights.sum(1, keepdim=True)
        if layer.sinks is not None:
            total += layer.sinks[:, None].exp()
        outputs.append(torch.einsum("ht,thd->hd", weights / total, value))
    return torch.stack(outputs)


@pytest.mark.parametrize("kind", ["sinks", "slopes"])
def test_the_reference_is_the_formula(kind: str) -> None:
    """For decodes of several lengths, in float64."""
    step = make_step(SHAPES[0], [(1, 1), (1, 17), (1, 40)], torch.float64, 3).exact()
    layer = scored(step.layer(SCALE), kind, 12, exact=True)

    found = reference_attention(step.query, step.key, step.value, layer, step.metadata)

    assert torch.allclose(found, by_formula(step, layer))


@pytest.mark.parametrize("kind", ["sinks", "slopes"])
@pytest.mark.parametrize("dtype", essential(TOLERANCES, torch.bfloat16), ids=str)
@pytest.mark.parametrize("window", [None, 20])
def test_compiled_equals_reference(
    window: int | None, dtype: torch.dtype, kind: str
) -> None:
    """Decodes, some cut into parts, chunks and whole prompts."""
    batch = [(1, 1), (1, 33), (1, 2100), (5, 30), (40, 40)]
    for seed, shape in enumerate(SHAPES):
        group, kv_heads, key_dim, value_dim, block = shape
        step = make_step(shape, batch, dtype, seed)
        exact, heads = step.exact(), group * kv_heads
        chosen = choose_attention(
            num_heads=heads,
            num_kv_heads=kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            block_size=block,
            dtype=dtype,
        )

        found = chosen.attend(
            step.query,
            step.key,
            step.value,
            scored(step.layer(SCALE, window), kind, heads),
            step.metadata,
        )

        layer = scored(exact.layer(SCALE, window), kind, heads, exact=True)
        wanted = reference_attention(
            exact.query, exact.key, exact.value, layer, exact.metadata
        )
        error = (found.double() - wanted).abs().max()
        assert chosen.name == "compiled"
        assert error < TOLERANCES[dtype] * (1 + wanted.abs().max())


@pytest.mark.parametrize("kind", ["sinks", "slopes"])
def test_requests_with_a_shared_prefix(kind: str) -> None:
    """In bfloat16, where tiles attend to shared blocks once."""
    step = make_step(SHAPES[0], [(1, 1400)] * 3, torch.bfloat16, 1)
    step.metadata.block_tables[1:, :80] = step.metadata.block_tables[0, :80]
    chosen = choose_attention(
        num_heads=12,
        num_kv_heads=4,
        key_dim=64,
        value_dim=64,
        block_size=16,
        dtype=torch.bfloat16,
    )

    found = chosen.attend(
        step.query,
        step.key,
        step.value,
        scored(step.layer(SCALE), kind, 12),
        step.metadata,
    )

    exact = step.exact()
    layer = scored(exact.layer(SCALE), kind, 12, exact=True)
    wanted = paged_attention(exact.query, layer, exact.metadata)
    assert (found.double() - wanted).abs().max() < 0.02

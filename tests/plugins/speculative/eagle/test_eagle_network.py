"""A head equals the published network, built from parts of `transformers`."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

from hookline_drafting import TargetModel
from hookline_eagle.head import Head, angles_at, output_of
from hookline_eagle.rotary import angle_table

MakeHead = Callable[..., Head]

LENGTH = 12
CONFIG = LlamaConfig.from_dict(
    {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attn_implementation": "eager",
    }
)


def target() -> TargetModel:
    table = torch.randn(320, 64, generator=torch.Generator().manual_seed(1))
    return TargetModel(hidden_size=64, vocab_size=320, embedding=table, output=table)


def copied(norm: nn.Module) -> LlamaRMSNorm:
    made = LlamaRMSNorm(64, 1e-6)
    made.load_state_dict(norm.state_dict())
    return made


def llama_layer(head: Head) -> LlamaDecoderLayer:
    """With the head's weights; what attention reads may be wider than the layer."""
    layer = LlamaDecoderLayer(CONFIG, 0)
    read = 128 if head.shape.is_third else 64
    for name, out in (("q_proj", 64), ("k_proj", 32), ("v_proj", 32)):
        setattr(layer.self_attn, name, nn.Linear(read, out, bias=False))
    own = head.midlayer if head.shape.is_third else head.layers[0]
    layer.load_state_dict(own.state_dict(), strict=False)
    return layer


def attended(layer: LlamaDecoderLayer, read: torch.Tensor) -> torch.Tensor:
    sides = LlamaRotaryEmbedding(CONFIG)(read, torch.arange(LENGTH)[None])
    mask = torch.full((LENGTH, LENGTH), -torch.inf).triu(1)[None, None]
    found: torch.Tensor = layer.self_attn(read[None], sides, mask)[0][0]
    return found


def published(
    head: Head, embedded: torch.Tensor, features: torch.Tensor
) -> torch.Tensor:
    """Features as figure 6 of the first paper and figure 5 of the second have them."""
    layer = llama_layer(head)
    if not head.shape.is_third:
        residual = head.fc(torch.cat((embedded, features), -1))
        read = residual  # the layer has lost its first norm
    else:
        mid = head.midlayer
        normed = copied(mid.hidden_norm)(features)
        residual = normed if head.shape.norms_residual else features
        read = torch.cat((copied(mid.input_layernorm)(embedded), normed), -1)
    hidden = residual + attended(layer, read)
    found: torch.Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    return found


@pytest.mark.parametrize(
    ("third", "norms_residual"), [(False, False), (True, False), (True, True)]
)
def test_a_head_equals_the_published_network(
    third: bool,
    norms_residual: bool,
    make_head: MakeHead,
    causal: Callable[..., torch.Tensor],
) -> None:
    """Features of a sequence, and the logits that are made of them."""
    head = make_head(third=third, norms_residual=norms_residual)
    generator = torch.Generator().manual_seed(3)
    embedded = torch.randn(LENGTH, 64, generator=generator)
    states = torch.randn(LENGTH, 192 if third else 64, generator=generator)
    table = angle_table({"rope_theta": 10000.0}, 16, LENGTH, embedded[:0])

    features = head.fused(states)
    said = head(embedded, features, angles_at(torch.arange(LENGTH), table), causal)
    logits = head.logits(output_of(target()), said)

    expected = published(head, embedded, head.fc(states) if third else states)
    torch.testing.assert_close(said, expected, rtol=1e-4, atol=1e-4)
    if third:
        expected_logits = copied(head.norm)(expected) @ head.lm_head.weight.T
    else:
        expected_logits = expected @ target().output.T
    torch.testing.assert_close(logits, expected_logits, rtol=1e-3, atol=1e-3)
    assert logits.shape == (LENGTH, 200 if third else 320)

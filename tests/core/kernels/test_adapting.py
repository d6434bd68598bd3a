"""Adapted models compute the same as `transformers`; other parts stay."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from hookline_kernels.modules.adapting import Adaptation, adapt
from hookline_kernels.modules.gated import fast_gated
from hookline_kernels.modules.linears import FastLinear, is_worth_packing
from hookline_testing.oracle import FAMILIES

LAYERS = 3
PACKS = is_worth_packing(torch.zeros(32, 32, dtype=torch.bfloat16))

EXPECTED = {
    "llama": Adaptation(gated=LAYERS, norms=2 * LAYERS + 1),
    "qwen2": Adaptation(gated=LAYERS, norms=2 * LAYERS + 1),
    "qwen3": Adaptation(gated=LAYERS, norms=4 * LAYERS + 1),
    "mistral": Adaptation(gated=LAYERS, norms=2 * LAYERS + 1),
    "gemma2": Adaptation(gated=LAYERS, norms=4 * LAYERS + 1),
    "gemma3": Adaptation(gated=LAYERS, norms=6 * LAYERS + 1),
    "phi3": Adaptation(norms=2 * LAYERS + 1),
    "gpt2": Adaptation(),
    "qwen3-moe": Adaptation(norms=4 * LAYERS + 1),
    "mixtral": Adaptation(norms=2 * LAYERS + 1),
    "gpt-oss": Adaptation(norms=2 * LAYERS + 1),
    "deepseek-v2": Adaptation(gated=LAYERS, norms=4 * LAYERS + 1),
    "deepseek-v3": Adaptation(gated=LAYERS, norms=4 * LAYERS + 1),
    "bloom": Adaptation(),
    "falcon": Adaptation(),
    "falcon-alibi": Adaptation(),
    "falcon-new": Adaptation(),
    "mpt": Adaptation(),
}
"""In float32, of which no weight is packed."""


def build(family: str, dtype: torch.dtype) -> PreTrainedModel:
    torch.manual_seed(7)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        FAMILIES[family](), dtype=dtype, attn_implementation="eager"
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)  # norms are all 1 at first
    model.train(mode=False)
    return model.requires_grad_(requires_grad=False)


@torch.inference_mode()
def logits(model: PreTrainedModel) -> torch.Tensor:
    tokens = torch.randint(320, (1, 23), generator=torch.Generator().manual_seed(2))
    found: torch.Tensor = model(input_ids=tokens, use_cache=False).logits
    return found[0]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_float32_gives_the_same_logits(family: str) -> None:
    """Up to the rounding of sums, and each family is adapted as far as it fits."""
    model = build(family, torch.float32)
    expected = logits(model)

    done = adapt(model)

    assert done == EXPECTED[family]
    torch.testing.assert_close(logits(model), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_bfloat16_is_as_near_to_float32_as_before(family: str) -> None:
    """The error of bfloat16 grows by at most half."""
    exact = logits(build(family, torch.bfloat16).float())
    model = build(family, torch.bfloat16)
    before = logits(model)

    adapt(model)

    error = (logits(model).float() - exact).norm()
    assert error <= 1.5 * (before.float() - exact).norm()


def test_all_linear_layers_of_bfloat16_are_packed() -> None:
    """Also a tied output layer; without products of bfloat16, all stay plain."""
    model = build("gemma2", torch.bfloat16)
    table = model.get_input_embeddings().weight
    assert model.get_output_embeddings().weight is table

    done = adapt(model)

    assert (done.gated, done.linears) == (LAYERS, PACKS * (4 * LAYERS + 1))
    assert model.get_input_embeddings().weight is table
    plain = [part for part in model.modules() if type(part) is nn.Linear]
    assert len(plain) == (0 if PACKS else LAYERS * 4 + 1)
    assert model.get_output_embeddings().weight.shape == table.shape


def test_replaced_weights_are_freed() -> None:
    """A packed or joined weight replaces the plain one."""
    model = build("llama", torch.bfloat16)
    gone = [
        weakref.ref(part.weight) for part in model.modules() if type(part) is nn.Linear
    ]

    adapt(model)
    gc.collect()

    alive = [weight for weight in gone if weight() is not None]
    plain = [part for part in model.modules() if type(part) is nn.Linear]
    assert len(alive) == len(plain) == (0 if PACKS else 4 * LAYERS + 1)


def test_a_model_is_freed_with_its_last_reference() -> None:
    """Replacements make no reference cycles."""
    model = build("llama", torch.float32)
    adapt(model)
    layer = weakref.ref(model.model.layers[0])

    gc.collect()
    gc.disable()
    del model
    alive = layer() is not None
    gc.enable()

    assert not alive


def test_models_of_transformers_are_not_touched() -> None:
    """Another model of the same family computes as before."""
    first, second = (build("llama", torch.float32) for _ in range(2))
    expected = logits(second)

    adapt(first)

    assert torch.equal(logits(second), expected)
    assert type(first.model.layers[0].mlp) is not type(second.model.layers[0].mlp)


class Lookalike(nn.Module):
    """Has the name and parts of an RMSNorm, but computes another function."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16), requires_grad=False)
        self.eps = 1e-6

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values / (values.abs().mean(-1, keepdim=True) + self.eps) * self.weight


class Odd(nn.Module):
    """Reads a layer's weight itself, and holds a lookalike norm."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm = Lookalike()
        self.mixed = nn.Linear(16, 16, dtype=dtype)
        self.config = SimpleNamespace()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.norm(values)
        return normed @ self.mixed.weight.float()


def test_unsupported_modules_are_kept() -> None:
    """The trial rejects the norm, and code that reads weights keeps its layer."""
    model = Odd(torch.bfloat16)
    norm, linear = model.norm, model.mixed

    done = adapt(model)

    assert done == Adaptation()
    assert model.norm is norm
    assert model.mixed is linear


class Between(nn.Module):
    """Has the parts of a gated MLP, but combines them differently."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(16, 24) for _ in range(2))
        self.down_proj = nn.Linear(24, 16)
        self.act_fn = nn.SiLU()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        gate = self.act_fn(self.gate_proj(values)) + self.up_proj(values)
        found: torch.Tensor = self.down_proj(gate)
        return found


def test_a_gated_layer_with_another_activation_is_kept() -> None:
    """The trial rejects it; an unknown activation is recognised."""
    other, relu = Between(), build("llama", torch.float32).model.layers[0].mlp
    relu.act_fn = nn.ReLU()
    model = nn.Sequential(other, relu)

    done = adapt(model)

    assert done.gated == 0
    assert [*model] == [other, relu]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_residual_is_added_to_a_gated_layers_result(dtype: torch.dtype) -> None:
    """The decoder passes the residual to the layer."""
    layer = build("qwen2", dtype).model.layers[1].mlp
    values, residual = (torch.randn(7, 64).to(dtype) for _ in range(2))
    fast = fast_gated(layer)
    assert fast is not None

    with torch.inference_mode():
        found = fast(values, residual)
        expected = layer(values) + residual

    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.03}[dtype]
    assert (found - expected).abs().max() <= tolerance * expected.abs().max()


def test_a_packed_layer_is_a_linear_layer() -> None:
    """It has the sizes, dtype and bytes of a linear layer."""
    weight = torch.randn(24, 16).bfloat16()

    layer = FastLinear(weight, None)

    assert isinstance(layer, nn.Linear)
    assert (layer.in_features, layer.out_features) == (16, 24)
    assert (layer.weight.dtype, layer.weight.nbytes) == (torch.bfloat16, 768)
    assert layer.weight.numel() == 384

"""What a loaded model's steps cost, against numbers worked out by hand.

The small models have 3 layers of width 64, 4 heads of 16, 2 of them for K and V (GPT-2:
4), 320 tokens in the vocabulary, and 4 bytes a parameter.
"""

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GptOssConfig,
    PreTrainedModel,
    Qwen2MoeConfig,
)

from hookline.clock import SystemClock
from hookline.config import CacheConfig, Dtype, EngineConfig, ModelConfig
from hookline.engine_setup.building import build_core
from hookline.step import ModelCost
from hookline_models.loading.cost import cost_of
from hookline_testing.oracle import EXPERTS, FAMILIES, SHAPE, Oracle

LAYERS = 3
ATTENTION = 64 * 64 + 2 * 64 * 32 + 64 * 64
VOCABULARY = 320 * 64


def made(family: str) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_config(FAMILIES[family]())
    return model


def test_facts_of_a_llama_carry_its_cost(llama: Oracle) -> None:
    """Projections, a gated MLP of 96, an output layer apart, seven norms."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)), cache=CacheConfig(num_kv_blocks=32)
    )
    layers = LAYERS * (ATTENTION + 3 * 64 * 96)

    cost = build_core(config, SystemClock()).facts.model.cost

    assert cost == ModelCost(
        flops_per_token=2 * layers,
        flops_per_pair=4 * LAYERS * 4 * 16,
        flops_per_sample=2 * VOCABULARY,
        weight_bytes=4 * (layers + VOCABULARY + 7 * 64),
        kv_bytes_per_token=4 * LAYERS * 2 * 2 * 16,
    )


def test_half_precision_halves_the_bytes(llama: Oracle) -> None:
    """Operations are the same; weights and K and V are half as long."""

    def cost(dtype: Dtype) -> ModelCost:
        model = ModelConfig(model=str(llama.folder), dtype=dtype)
        config = EngineConfig(model=model, cache=CacheConfig(num_kv_blocks=32))
        return build_core(config, SystemClock()).facts.model.cost

    full, half = cost(Dtype.FLOAT32), cost(Dtype.BFLOAT16)

    assert half.flops_per_token == full.flops_per_token
    assert half.weight_bytes * 2 == full.weight_bytes
    assert half.kv_bytes_per_token * 2 == full.kv_bytes_per_token


@pytest.mark.parametrize("family", ["llama", "mistral", "phi3"])
def test_token_costs_two_operations_a_parameter(family: str) -> None:
    """The usual rule 2·N, for a dense model: N without embeddings, output and norms."""
    model = made(family)
    counted = sum(
        weight.numel()
        for name, weight in model.named_parameters()
        if "norm" not in name and "embed" not in name and "lm_head" not in name
    )

    assert cost_of(model, []).flops_per_token == 2 * counted


def test_gpt2_ties_its_output_layer() -> None:
    """The shared table is read once, as the output layer; positions are not."""
    matrices = LAYERS * (64 * 192 + 64 * 64 + 2 * 64 * 256)
    vectors = LAYERS * (192 + 64 + 256 + 64 + 4 * 64) + 2 * 64

    cost = cost_of(made("gpt2"), [])

    assert cost.flops_per_token == 2 * matrices
    assert cost.flops_per_sample == 2 * VOCABULARY
    assert cost.weight_bytes == 4 * (matrices + vectors + VOCABULARY)


@pytest.mark.parametrize(("family", "width"), [("qwen3-moe", 48), ("mixtral", 96)])
def test_only_active_experts_compute(family: str, width: int) -> None:
    """A token goes through the router and 2 of 4 experts; all four are read."""
    router, expert = 4 * 64, 3 * 64 * width
    model = made(family)
    norms = sum(weight.numel() for weight in model.parameters() if weight.ndim == 1)

    cost = cost_of(model, [])

    assert cost.flops_per_token == 2 * LAYERS * (ATTENTION + router + 2 * expert)
    read = LAYERS * (ATTENTION + router + 4 * expert) + VOCABULARY + norms
    assert cost.weight_bytes == 4 * read


def test_shared_experts_always_compute() -> None:
    """Each token uses 2 of 4 experts of 48, one of 32 and its gate."""
    config = Qwen2MoeConfig(
        **SHAPE, **EXPERTS, num_experts=4, shared_expert_intermediate_size=32
    )
    routed = 4 * 64 + 2 * 3 * 64 * 48
    shared = 64 + 3 * 64 * 32

    cost = cost_of(AutoModelForCausalLM.from_config(config), [])

    assert cost.flops_per_token == 2 * LAYERS * (ATTENTION + routed + shared)


def test_biases_of_experts_are_no_matrices() -> None:
    """Stacked biases have two dimensions, and no products."""
    config = GptOssConfig(
        **SHAPE, head_dim=16, num_experts_per_tok=1, num_local_experts=4
    )

    cost = cost_of(AutoModelForCausalLM.from_config(config), [])

    assert cost.flops_per_token == 2 * LAYERS * (ATTENTION + 4 * 64 + 3 * 64 * 96)


def test_model_that_hides_its_output_layer_has_no_cost() -> None:
    """Unknown is zero, not a guess."""
    model = made("llama")
    model.lm_head = torch.nn.Identity()

    assert cost_of(model, []) == ModelCost()

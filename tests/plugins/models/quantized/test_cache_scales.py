"""Checkpoints with scales for a KV cache in fp8."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import LLM, SamplingParams
from hookline.config import KVCacheDtype, ModelConfig
from hookline_description.describing import describe
from hookline_kernels.quantized_weight import dequantize
from hookline_models.checkpoints.loading import load_model
from hookline_quantized.linear import QuantizedLinear
from hookline_testing.oracle import make_oracle
from hookline_testing.quantized_checkpoints import LAYOUTS, quantize

PROMPT = [5, 9, 77, 4, 8, 101, 30]
KEY, VALUE = 2.0**12, 2.0**-12
"""Factors of the keys, which E4M3 cannot hold, and of values, which it rounds to 0."""
E4M3 = torch.float8_e4m3fn
NAMES: dict[str, Callable[[str], dict[str, torch.Tensor]]] = {
    "compressed-tensors": lambda layer: {
        f"{layer}.k_scale": torch.tensor([KEY]),
        f"{layer}.v_scale": torch.tensor([VALUE]),
    },
    "a scale per head": lambda layer: {
        f"{layer}.k_scale": torch.tensor([KEY / 64, KEY]).view(2, 1, 1),
        f"{layer}.v_scale": torch.tensor([VALUE, VALUE / 3]).view(2, 1, 1),
    },
    "vLLM": lambda layer: {
        f"{layer}.attn.k_scale": torch.tensor(0.9 * KEY),
        f"{layer}.attn.v_scale": torch.tensor(0.9 * VALUE),
        f"{layer}.attn.q_scale": torch.tensor(7.0),
    },
    "projections": lambda layer: {
        f"{layer}.k_proj.output_scale": torch.tensor(KEY),
        f"{layer}.v_proj.v_scale": torch.tensor(VALUE),
    },
}


def rescale(folder: Path, scales: Callable[[str], dict[str, torch.Tensor]]) -> None:
    """Changes the range of keys and values of a model, but not what it says."""
    path = folder / "model.safetensors"
    state = load_file(path)
    factors = {"k": KEY, "q": 1 / KEY, "v": VALUE, "o": 1 / VALUE}
    for layer in range(3):
        name = f"model.layers.{layer}.self_attn"
        for side, factor in factors.items():
            state[f"{name}.{side}_proj.weight"] *= factor
        state |= scales(name)
    save_file(state, path)


def loaded(folder: Path, cache_dtype: torch.dtype | None = E4M3) -> Any:
    config = ModelConfig(model=str(folder))
    return load_model(
        config, describe(config), 256, may_compile=False, cache_dtype=cache_dtype
    )


def said(folder: Path) -> list[int]:
    with LLM(
        model=str(folder),
        kv_cache_dtype=KVCacheDtype.FP8,
        kernels="torch",
        num_kv_blocks=16,
    ) as llm:
        params = SamplingParams(temperature=0.0, max_tokens=10)
        (output,) = llm.generate([PROMPT], params, use_tqdm=False)
    return list(output.outputs[0].token_ids)


def test_a_cache_in_fp8_holds_any_range(tmp_path: Path) -> None:
    """Texts are those of the model whose keys and values need no scales."""
    make_oracle("llama", tmp_path)
    plain = said(tmp_path)

    rescale(tmp_path, lambda _: {})
    without = said(tmp_path)
    rescale(tmp_path, lambda _: {})  # from here on twice as far
    far = {"k_scale": KEY * KEY, "v_scale": VALUE * VALUE}
    state = load_file(tmp_path / "model.safetensors")
    for layer in range(3):
        for name, scale in far.items():
            key = f"model.layers.{layer}.self_attn.{name}"
            state[key] = torch.tensor([scale])
    save_file(state, tmp_path / "model.safetensors")

    assert said(tmp_path) == plain
    assert without != plain


@pytest.mark.parametrize("name", NAMES)
def test_names_of_scales(name: str, tmp_path: Path) -> None:
    """All are read; of one per head, the largest; up to the next power of two."""
    oracle = make_oracle("llama", tmp_path)
    rescale(tmp_path, NAMES[name])

    found = dict(loaded(tmp_path).named_parameters())

    for key, weight in oracle.model.named_parameters():
        assert torch.equal(found[key], weight)


def test_norms_of_keys_take_the_factor(tmp_path: Path) -> None:
    """A projection's factor would be lost in the norm behind it."""
    oracle = make_oracle("qwen3", tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    state["model.layers.1.self_attn.k_scale"] = torch.tensor([0.25])
    save_file(state, tmp_path / "model.safetensors")

    found = loaded(tmp_path).model.layers[1].self_attn

    plain = oracle.model.model.layers[1].self_attn
    assert torch.equal(found.k_norm.weight, 4 * plain.k_norm.weight)
    assert torch.equal(found.q_norm.weight, plain.q_norm.weight / 4)
    assert torch.equal(found.k_proj.weight, plain.k_proj.weight)
    assert torch.equal(found.v_proj.weight, plain.v_proj.weight)


def test_quantized_layers_take_the_factor(tmp_path: Path) -> None:
    """Their scales and shifts are multiplied."""
    oracle = make_oracle("llama", tmp_path)
    quantize(oracle, tmp_path, LAYOUTS["awq"])
    state = load_file(tmp_path / "model.safetensors")
    state["model.layers.0.self_attn.v_scale"] = torch.tensor(4.0)
    save_file(state, tmp_path / "model.safetensors")

    found = loaded(tmp_path).model.layers[0].self_attn

    plain = oracle.model.model.layers[0].self_attn
    for layer, factor in (("v_proj", 0.25), ("o_proj", 4.0), ("k_proj", 1.0)):
        linear = found.get_submodule(layer)
        assert isinstance(linear, QuantizedLinear)
        assert linear.quantized is not None
        expected = plain.get_submodule(layer).weight * factor
        torch.testing.assert_close(
            dequantize(linear.quantized), expected, atol=1e-6 * factor, rtol=1e-5
        )


@pytest.mark.parametrize(
    ("family", "cache_dtype", "reason"),
    [
        ("llama", None, "--kv-cache-dtype is not fp8"),
        ("llama", torch.int8, "int8 has a scale of its own for each token and head"),
        ("llama", torch.float8_e5m2, "the range of fp8_e5m2 needs none"),
        ("gemma3", E4M3, "cannot be used with models of type gemma3_text"),
    ],
)
def test_scales_that_are_not_used_are_told(
    family: str,
    cache_dtype: torch.dtype | None,
    reason: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line of the log says why; the weights are as they were."""
    oracle = make_oracle(family, tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    for layer in range(3):
        state[f"model.layers.{layer}.self_attn.k_scale"] = torch.tensor(3.0)
    save_file(state, tmp_path / "model.safetensors")

    with caplog.at_level(logging.INFO, "hookline_quantized"):
        found = dict(loaded(tmp_path, cache_dtype).named_parameters())

    assert [reason in line for line in caplog.messages] == [True]
    for key, weight in oracle.model.named_parameters():
        assert torch.equal(found[key], weight)


def test_scales_that_calibration_did_not_reach(tmp_path: Path) -> None:
    """Numbers that are no scales change nothing."""
    oracle = make_oracle("llama", tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    for layer, scale in enumerate([-1.0, 0.0, torch.inf]):
        state[f"model.layers.{layer}.self_attn.kv_scale"] = torch.tensor(scale)
    save_file(state, tmp_path / "model.safetensors")

    found = dict(loaded(tmp_path).named_parameters())

    for key, weight in oracle.model.named_parameters():
        assert torch.equal(found[key], weight)


def test_a_checkpoint_of_which_only_the_cache_is_quantized(tmp_path: Path) -> None:
    """Its weights are read as they are."""
    oracle = make_oracle("llama", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "config_groups": {},
        "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor"},
    }
    path.write_text(json.dumps(config))
    rescale(tmp_path, NAMES["compressed-tensors"])

    found = dict(loaded(tmp_path).named_parameters())

    for key, weight in oracle.model.named_parameters():
        assert torch.equal(found[key], weight)

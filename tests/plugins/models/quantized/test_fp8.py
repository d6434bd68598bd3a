"""Checkpoints in 8-bit floats are served as the numbers that they hold."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
)
from hookline_description.describing import describe
from hookline_models.checking.checking import check_model
from hookline_models.checkpoints.loading import load_model
from hookline_quantized.floats import block_of, dequantize
from hookline_quantized.linear import QuantizedLinear
from hookline_testing.fp8_checkpoints import (
    E4M3,
    FLOAT_LAYOUTS,
    plain,
    quantize_floats,
    rounded,
)
from hookline_testing.oracle import make_oracle

PROMPTS = [[5, 9, 77, 4, 8, 101, 30], [200, 3, 3, 9]]
GREEDY = SamplingParams(temperature=0.0, max_tokens=12)
LAYER = "model.layers.1.mlp.up_proj"


def said(folder: Path, **model: Any) -> list[list[int]]:
    config = EngineConfig(
        model=ModelConfig(model=str(folder), **model),
        cache=CacheConfig(num_kv_blocks=32),
        executor=ExecutorConfig(kernels=Kernels.TORCH),
    )
    with LLM.from_config(config) as llm:
        outputs = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    return [list(each.outputs[0].token_ids) for each in outputs]


def loaded(folder: Path, **model: Any) -> Any:
    config = ModelConfig(model=str(folder), **model)
    return load_model(config, describe(config), 256, may_compile=False)


@pytest.mark.parametrize("name", FLOAT_LAYOUTS)
def test_weights_of_each_format(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They equal the reference bit for bit, and one line says how they are computed."""
    oracle = make_oracle("llama", tmp_path)
    quantize_floats(oracle, tmp_path, FLOAT_LAYOUTS[name])

    with caplog.at_level(logging.INFO, "hookline_quantized"):
        found = dict(loaded(tmp_path).named_parameters())
        halved = dict(loaded(tmp_path, dtype="bfloat16").named_parameters())

    for key, weight in oracle.model.named_parameters():
        assert torch.equal(found[key], weight), key
        assert torch.equal(halved[key], weight.bfloat16()), key
    assert len(caplog.messages) == 2
    assert "21 weights in 8-bit floats are dequantized to float32" in caplog.messages[0]
    assert "activations are not quantized, but stay in" in caplog.messages[1]


@pytest.mark.parametrize("name", ["deepseek", "modelopt-file"])
def test_tokens_are_those_of_the_dequantized_weights(name: str, tmp_path: Path) -> None:
    """Greedy, in float32, beside `transformers`."""
    oracle = make_oracle("llama", tmp_path)
    quantize_floats(oracle, tmp_path, FLOAT_LAYOUTS[name])

    assert said(tmp_path) == [oracle.greedy(prompt, 12) for prompt in PROMPTS]


def test_experts_in_blocks(tmp_path: Path) -> None:
    """Each expert's layers have scales of their own, and are joined afterwards."""
    oracle = make_oracle("qwen3-moe", tmp_path)
    layout, path = FLOAT_LAYOUTS["deepseek"], tmp_path / "model.safetensors"
    tensors, plain_ones = load_file(path), dict[str, torch.Tensor]()
    for name in [each for each in tensors if ".experts." in each]:
        codes, scales = rounded(tensors[name], layout)
        plain_ones[name] = plain(codes, scales, layout.block)
        tensors[name] = codes
        tensors[f"{name}_scale_inv"] = scales
    save_file({**tensors, **plain_ones}, tmp_path / "model.safetensors")
    expected = dict(loaded(tmp_path).named_parameters())
    save_file(tensors, path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    config["quantization_config"] = dict(layout.config)
    (tmp_path / "config.json").write_text(json.dumps(config))

    found = dict(loaded(tmp_path).named_parameters())

    assert len(plain_ones) == 3 * 4 * 3
    assert any(
        not torch.equal(found[key], weight)
        for key, weight in oracle.model.named_parameters()
    )
    assert all(torch.equal(found[key], each) for key, each in expected.items())


def test_quantizing_floats_again(tmp_path: Path) -> None:
    """`--quantization w8a16` has kernels, and rounds once more; the name is taken."""
    oracle = make_oracle("llama", tmp_path)
    quantize_floats(oracle, tmp_path, FLOAT_LAYOUTS["channel"])

    found = loaded(tmp_path, quantization="w8a16")

    linear = found.get_submodule(LAYER)
    assert isinstance(linear, QuantizedLinear)
    assert linear.bits == 8
    named = loaded(tmp_path, quantization="compressed-tensors")
    assert type(named.get_submodule(LAYER)) is nn.Linear
    with pytest.raises(ModelLoadError, match="quantized with compressed-tensors"):
        loaded(tmp_path, quantization="fp8")


def test_check_model_takes_no_memory_for_them(tmp_path: Path) -> None:
    """What would be dequantized is compared by its shape."""
    quantize_floats(make_oracle("llama", tmp_path), tmp_path, FLOAT_LAYOUTS["deepseek"])

    report = check_model(EngineConfig(model=ModelConfig(model=str(tmp_path))))

    assert report.problems == ()
    assert report.quantization == "fp8"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({f"{LAYER}.weight_scale_inv": None}, f"{LAYER}.weight is in 8-bit floats"),
        (
            {f"{LAYER}.weight_scale_inv": torch.ones(5, 2)},
            rf"{LAYER}.weight: has 96 by 64 numbers, which its scales of .* \[5, 2\]",
        ),
        (
            {f"{LAYER}.weight": torch.zeros(2, 48, 64).to(E4M3)},
            rf"{LAYER}.weight: has 3 dimensions",
        ),
    ],
    ids=["missing", "misfit", "dimensions"],
)
def test_damaged_layers_are_named(
    change: dict[str, torch.Tensor | None], reason: str, tmp_path: Path
) -> None:
    """By one sentence, before anything is computed."""
    quantize_floats(make_oracle("llama", tmp_path), tmp_path, FLOAT_LAYOUTS["deepseek"])
    path = tmp_path / "model.safetensors"
    tensors = {**load_file(path), **change}
    kept = {name: each for name, each in tensors.items() if each is not None}
    save_file(kept, path)

    with pytest.raises(ModelLoadError, match=reason):
        loaded(tmp_path)


def test_scales_that_no_configuration_mentions(tmp_path: Path) -> None:
    """The numbers alone would be wrong by their scales."""
    quantize_floats(
        make_oracle("llama", tmp_path), tmp_path, FLOAT_LAYOUTS["modelopt-file"]
    )
    (tmp_path / "hf_quant_config.json").unlink()

    with pytest.raises(ModelLoadError, match="is in F8_E4M3 and has scales, but"):
        loaded(tmp_path)


def test_pieces_do_not_change_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large weights are dequantized in pieces of whole blocks."""
    monkeypatch.setattr("hookline_quantized.floats._PIECE", 1)
    weight = torch.randn(70, 50, generator=torch.Generator().manual_seed(1)).to(E4M3)
    scales = torch.rand(3, 2, generator=torch.Generator().manual_seed(2))

    found = dequantize(weight, scales, (32, 32), torch.float32)

    assert torch.equal(found, plain(weight, scales, (32, 32)))
    assert block_of((70, 50), (3, 1, 2, 1), [(32, 32)]) == (32, 32)

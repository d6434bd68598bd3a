"""Checkpoints of compressed-tensors whose layers differ, and quantized experts."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline_description.describing import describe
from hookline_kernels.quantized_weight import dequantize
from hookline_models.checkpoints.loading import load_model
from hookline_quantized.linear import QuantizedLinear
from hookline_testing.fp8_checkpoints import FLOAT_LAYOUTS, quantize_floats
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.quantized_checkpoints import LAYOUTS, quantize, stored

PROMPT = [5, 9, 77, 4, 8, 101, 30]
WEIGHTS = "model.safetensors"


def configure(folder: Path, entries: dict[str, Any]) -> None:
    """Writes a model's scheme of quantization."""
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["quantization_config"] = entries
    path.write_text(json.dumps(config))


def make_mixed(folder: Path) -> Oracle:
    """Packed words in the first layer, 8-bit integers and floats in the others."""
    oracle = make_oracle("llama", folder)
    state = oracle.model.state_dict()
    quantized = dict[str, torch.Tensor]()
    groups: dict[str, object] = {}
    for layer, name in enumerate(["pack-quantized", "w8a8", "block"]):
        own = folder / name
        one = make_oracle("llama", own)
        if name in LAYOUTS:
            quantize(one, own, LAYOUTS[name])
            entries = LAYOUTS[name].config
        else:
            quantize_floats(one, own, FLOAT_LAYOUTS[name])
            entries = FLOAT_LAYOUTS[name].config
        prefix = f"model.layers.{layer}."
        groups[f"group_{layer}"] = {
            **entries["config_groups"]["group_0"],
            "format": entries["format"],
            "targets": [f"re:.*layers.{layer}..*"],
        }
        for key, each in one.model.state_dict().items():
            if key.startswith(prefix):
                state[key].copy_(each)
        for key, each in load_file(own / WEIGHTS).items():
            if key.startswith(prefix) or ".layers." not in key:
                quantized[key] = each
    save_file(quantized, folder / WEIGHTS, {"format": "pt"})
    configure(
        folder,
        {
            "quant_method": "compressed-tensors",
            "format": "mixed-precision",
            "config_groups": groups,
        },
    )
    return oracle


def test_groups_of_several_formats(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each layer is read as it is stored; tokens are those of the numbers."""
    oracle = make_mixed(tmp_path)
    config = EngineConfig(
        model=ModelConfig(model=str(tmp_path)), cache=CacheConfig(num_kv_blocks=16)
    )

    with (
        caplog.at_level(logging.INFO, "hookline_quantized"),
        LLM.from_config(config) as llm,
    ):
        params = SamplingParams(temperature=0.0, max_tokens=8)
        (output,) = llm.generate([PROMPT], params, use_tqdm=False)
    model = load_model(config.model, describe(config.model), 256, may_compile=False)

    assert list(output.outputs[0].token_ids) == oracle.greedy(PROMPT, 8)
    bits = {
        name: each.bits
        for name, each in model.named_modules()
        if isinstance(each, QuantizedLinear)
    }
    assert bits["model.layers.0.mlp.up_proj"] == 4
    assert bits["model.layers.1.mlp.up_proj"] == 8
    assert len(bits) == 14
    for name, module in model.named_modules():
        if isinstance(module, QuantizedLinear) and module.quantized is not None:
            expected = oracle.model.get_submodule(name).weight
            found = dequantize(module.quantized)
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["pack-quantized", "gptq-act-order", "awq"])
def test_quantized_experts(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are dequantized one by one, and then joined as plain ones are."""
    make_oracle("qwen3-moe", tmp_path)
    layout = LAYOUTS[name]
    tensors = load_file(tmp_path / WEIGHTS)
    packed, plain = dict(tensors), dict(tensors)
    for key in [each for each in tensors if ".experts." in each]:
        if tensors[key].shape[1] % 32:
            continue  # the width of an expert is no multiple of a group
        parts, plain[key] = stored(tensors[key], layout)
        del packed[key]
        prefix = key.removesuffix("weight")
        packed.update({prefix + part: each for part, each in parts.items()})
    save_file(plain, tmp_path / WEIGHTS)
    config = ModelConfig(model=str(tmp_path))
    expected = load_model(config, describe(config), 256, may_compile=False)
    save_file(packed, tmp_path / WEIGHTS)
    configure(tmp_path, dict(layout.config))

    with caplog.at_level(logging.INFO, "hookline_quantized"):
        found = load_model(config, describe(config), 256, may_compile=False)

    parameters = dict(found.named_parameters())
    for key, weight in expected.named_parameters():
        torch.testing.assert_close(parameters[key], weight, atol=0, rtol=0)
    assert "24 weights of experts are dequantized to float32" in caplog.messages[0]

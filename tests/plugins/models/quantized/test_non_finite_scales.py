"""Scales of quantized weights that are no numbers are named as weights are."""

import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import LLM, ModelLoadError
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
)
from hookline_testing.oracle import make_oracle
from hookline_testing.quantized_checkpoints import LAYOUTS, quantize

LAYER = "model.layers.1.mlp.up_proj"


@pytest.mark.parametrize("layout", ["gptq", "awq"])
def test_a_scale_that_is_no_number_is_named(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    """By the file's tensor in the log, and by its layer in the error."""
    quantize(make_oracle("llama", tmp_path), tmp_path, LAYOUTS[layout])
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors[f"{LAYER}.scales"][0, 3] = torch.nan
    save_file(tensors, path)
    config = EngineConfig(
        model=ModelConfig(model=str(tmp_path)),
        cache=CacheConfig(num_kv_blocks=16),
        executor=ExecutorConfig(kernels=Kernels.TORCH),
    )

    with caplog.at_level(logging.WARNING), pytest.raises(ModelLoadError) as found:
        LLM.from_config(config).close()

    assert f"as weights are: {LAYER}" in found.value.reason
    assert f"{LAYER}.scales (1 of" in caplog.text

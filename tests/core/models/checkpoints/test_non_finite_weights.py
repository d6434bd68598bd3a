"""Weights that are no numbers are named, and end only what they reach."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config import CacheConfig, Dtype, EngineConfig, ModelConfig
from hookline_description.describing import describe
from hookline_models.checkpoints.finite import non_finite
from hookline_models.checkpoints.loading import load_model
from hookline_testing.oracle import Oracle

Damage = Callable[[torch.Tensor], object]
GREEDY = SamplingParams(temperature=0.0, max_tokens=6)
UP = "model.layers.1.mlp.up_proj.weight"
EMBEDDING = "model.embed_tokens.weight"
DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


def damage(folder: Path, name: str, change: Damage) -> None:
    """Changes a tensor on disk."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors[name])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def engine(folder: Path, **more: object) -> LLM:
    config = EngineConfig(
        model=ModelConfig(model=str(folder), **more),  # type: ignore[arg-type]
        cache=CacheConfig(num_kv_blocks=16),
    )
    return LLM.from_config(config)


def spoil_everything(weight: torch.Tensor) -> None:
    weight[5] = torch.nan


def spoil_a_token(weight: torch.Tensor) -> None:
    weight[4] = torch.nan


def spoil_some(weight: torch.Tensor) -> None:
    weight[2, 3], weight[7, 1] = torch.inf, -torch.inf


def test_a_weight_that_spoils_all_logits_is_named(folder: Path) -> None:
    """Not as tokens that change others', which is what the probe sees, too."""
    damage(folder, UP, spoil_everything)

    with pytest.raises(ModelLoadError) as found:
        engine(folder).close()

    assert found.value.reason == (
        f"all its logits are infinite or NaN, as weights are: {UP} (64 of 6144 "
        "numbers, the first in row 5)"
    )


def test_numbers_too_large_for_the_dtype_are_told_from_nan(folder: Path) -> None:
    """The file's are finite, and become infinite as they are converted."""
    damage(folder, UP, lambda weight: weight.mul_(1e30))

    with pytest.raises(ModelLoadError, match=rf"as weights are: {UP} \(6144 of 6144"):
        engine(folder, dtype=Dtype.FLOAT16).close()


def test_a_token_without_an_embedding_harms_no_other(
    llama: Oracle, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The model is served, and a warning names the table and the row."""
    damage(folder, EMBEDDING, spoil_a_token)
    prompt = [50, 51, 52]

    with caplog.at_level(logging.WARNING), engine(folder) as llm:
        [output] = llm.generate([prompt], GREEDY)

    assert 4 not in llama.greedy(prompt, 6)
    assert output.outputs[0].token_ids == llama.greedy(prompt, 6)
    assert f"{EMBEDDING} (64 of 20480 numbers, the first in row 4)" in caplog.text


def test_every_tensor_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the number of its numbers, infinite ones, too."""
    damage(folder, UP, spoil_some)
    damage(folder, EMBEDDING, spoil_a_token)
    config = ModelConfig(model=str(folder))

    with caplog.at_level(logging.WARNING):
        load_model(config, describe(config), 64)

    assert f"{UP} (2 of 6144 numbers, the first in row 2)" in caplog.text
    assert EMBEDDING in caplog.text


def test_finite_weights_warn_of_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The usual case."""
    config = ModelConfig(model=str(folder))

    with caplog.at_level(logging.WARNING):
        load_model(config, describe(config), 64)

    assert caplog.text == ""


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_float_is_looked_at(dtype: torch.dtype) -> None:
    """Whatever its size, NaN of either sign, and in the last place, too."""
    tensor = torch.linspace(-200, 200, 60).view(5, 12).to(dtype)
    largest = torch.full((5, 12), torch.finfo(dtype).max, dtype=torch.float64).to(dtype)

    assert non_finite("a", tensor) is None
    assert non_finite("a", largest) is None
    tensor[3, 2] = -torch.nan
    tensor[4, 11] = torch.nan
    found = non_finite("a", tensor)
    assert found is not None
    assert (found.count, found.total, found.first_row) == (2, 60, 3)


def test_integers_and_empty_tensors_are_finite() -> None:
    """Codes of quantized weights are no floats."""
    assert non_finite("a", torch.zeros(3, dtype=torch.int32)) is None
    assert non_finite("a", torch.zeros(0)) is None
    found = non_finite("a", torch.tensor(torch.nan))
    assert found is not None
    assert (found.count, found.first_row) == (1, 0)

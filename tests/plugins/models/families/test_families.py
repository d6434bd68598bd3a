"""Families whose attention modules are replaced give the logits of `transformers`."""

from pathlib import Path

import pytest
import torch

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config import EngineConfig, ExecutorConfig, Kernels, ModelConfig
from hookline_description.describing import describe
from hookline_families.slopes import alibi_slopes
from hookline_models.checkpoints.loading import load_model
from hookline_registry import UnknownPluginError
from hookline_testing.oracle import make_oracle

PROMPTS = [[5, 6, 7], [(7 * at) % 300 for at in range(40)]]
GREEDY = SamplingParams(temperature=0.0, max_tokens=8)


@pytest.mark.parametrize("family", ["bloom", "falcon-alibi", "falcon-new", "mpt"])
def test_replaced_attention_gives_the_same_tokens(family: str, tmp_path: Path) -> None:
    """Biases by distance, repeated KV heads, and residuals within attention."""
    oracle = make_oracle(family, tmp_path)
    config = EngineConfig(
        model=ModelConfig(model=str(oracle.folder)),
        executor=ExecutorConfig(kernels=Kernels.TORCH),
    )

    with LLM.from_config(config) as llm:
        outputs = llm.generate(PROMPTS, GREEDY)

    found = [output.outputs[0].token_ids for output in outputs]
    assert found == [oracle.greedy(prompt, 8) for prompt in PROMPTS]


def test_slopes_are_those_of_the_paper() -> None:
    """For 8 heads 1/2 … 1/256; for 6, those of 4, then every second of 8."""
    quarter = [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8]

    assert torch.equal(alibi_slopes(8), 0.5 ** torch.arange(1, 9))
    assert torch.allclose(alibi_slopes(6), torch.tensor([*quarter, 2.0**-1, 2.0**-3]))


@pytest.fixture
def _left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No distribution has a family."""

    def unknown(_kind: object, name: str) -> None:
        raise UnknownPluginError("hookline.model_families", name, ())

    monkeypatch.setattr("hookline_models.family.hook_of", unknown)


@pytest.mark.usefixtures("_left_out")
@pytest.mark.parametrize("family", ["bloom", "falcon-new", "mpt"])
def test_the_distribution_is_named_where_it_is_needed(
    family: str, tmp_path: Path
) -> None:
    """Such a model is refused, and the error says what to install."""
    config = ModelConfig(model=str(make_oracle(family, tmp_path).folder))

    with pytest.raises(ModelLoadError, match="pip install hookline-families"):
        load_model(config, describe(config), 256)


@pytest.mark.usefixtures("_left_out")
def test_latent_attention_works_without_the_distribution(tmp_path: Path) -> None:
    """The cache has the keys and values of each head."""
    oracle = make_oracle("deepseek-v3", tmp_path)
    config = EngineConfig(
        model=ModelConfig(model=str(oracle.folder)),
        executor=ExecutorConfig(kernels=Kernels.TORCH),
    )

    with LLM.from_config(config) as llm:
        outputs = llm.generate(PROMPTS, GREEDY)

    found = [output.outputs[0].token_ids for output in outputs]
    assert found == [oracle.greedy(prompt, 8) for prompt in PROMPTS]

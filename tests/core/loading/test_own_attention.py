"""Families whose attention modules are replaced give the logits of `transformers`."""

from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig, ExecutorConfig, Kernels, ModelConfig
from hookline.models.own_attention.slopes import alibi_slopes
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

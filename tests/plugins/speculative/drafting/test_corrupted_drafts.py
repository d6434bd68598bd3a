"""Drafts that are none, or spoil what is computed of them, cost only themselves."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline.request import FinishReason
from hookline_drafting import DraftRequest, Drafts, Proposer
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle
from hookline_testing.poisoned_model import (
    NAN_TOKEN,
    corrupted_counts,
    poisoned_copy,
)
from hookline_testing.proposers import HostileProposer

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]

PROMPTS = [[11, 150, 42], [7] * 20]
VOCAB = 320


def drafts(asked: Sequence[DraftRequest], *, of: int, chance: float) -> list[Drafts]:
    """One draft for the prompts of this length, and none for others."""
    found = []
    for each in asked:
        is_meant = len(each.token_ids) < 20
        count = min(2, each.max_drafts) if is_meant else 0
        chances = None
        if chance < 1 or np.isnan(chance):
            chances = np.full((count, VOCAB), (1 - chance) / (VOCAB - 1), np.float32)
            chances[:, of] = chance
        found.append(Drafts(token_ids=[of] * count, probabilities=chances))
    return found


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(
    ("token", "chance", "is_none"),
    [
        (NAN_TOKEN, 1.0, False),
        (NAN_TOKEN, 0.5, False),
        (9, float("nan"), True),
        (10**6, 1.0, True),
        (-1, 1.0, True),
    ],
    ids=["spoils", "drawn", "nan", "beyond", "negative"],
)
def test_a_request_only_loses_its_drafts(
    speculating_llm: SpeculatingLLM,
    llama: Oracle,
    tmp_path: Path,
    *,
    token: int,
    chance: float,
    is_none: bool,
    temperature: float,
) -> None:
    """It ends by its length, as the one beside it; what was none is counted for it."""
    folder = poisoned_copy(llama.folder, tmp_path / "model")
    config = EngineConfig(
        model=ModelConfig(model=str(folder)),
        cache=CacheConfig(num_kv_blocks=64),
        speculative={"method": "scripted", "num_speculative_tokens": 2},
    )
    params = SamplingParams(
        temperature=temperature, seed=2, max_tokens=6, ignore_eos=True
    )
    proposer = HostileProposer(lambda asked: drafts(asked, of=token, chance=chance))

    with speculating_llm(config, proposer) as llm:
        outputs = llm.generate(PROMPTS, params)
        counts = corrupted_counts(llm.get_metrics())
        assert_conserved(llm)

    for output in outputs:
        assert output.outputs[0].finish_reason is FinishReason.LENGTH
    if temperature == 0:
        wanted = [llama.greedy(prompt, 6) for prompt in PROMPTS]
        assert [output.outputs[0].token_ids for output in outputs] == wanted
    assert counts == ({"proposer": 1} if is_none else {})

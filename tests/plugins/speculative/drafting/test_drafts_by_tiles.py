"""Drafts use tiled attention like prompts, with the results of decodes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import Dtype, EngineConfig, ModelConfig
from hookline_drafting import Proposer
from hookline_kernels import (
    AttentionLayer,
    AttentionMetadata,
    choose_attention,
    new_keys,
    new_values,
)
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle
from hookline_testing.proposers import ScriptedProposer, ScriptedTreeProposer

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]

BLOCK, DIM, HEADS, KV_HEADS = 16, 64, 4, 2
DRAFTS = 3


def metadata(
    counts: list[int], ends: list[int], tables: torch.Tensor
) -> AttentionMetadata:
    positions = [
        (row, position)
        for row, (count, end) in enumerate(zip(counts, ends, strict=True))
        for position in range(end - count, end)
    ]
    slots = [int(tables[r, p // BLOCK]) * BLOCK + p % BLOCK for r, p in positions]
    return AttentionMetadata(
        slot_mapping=torch.tensor(slots),
        block_tables=tables,
        query_lens=counts,
        seq_lens=ends,
        num_decodes=sum(count == 1 for count in counts),
        seq_lens_tensor=torch.tensor(ends),
    )


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 20])
def test_tiles_attend_as_decodes_do(window: int | None) -> None:
    """Four tokens at once and four decodes over the same blocks differ by rounding."""
    chosen = choose_attention(
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        key_dim=DIM,
        value_dim=DIM,
        block_size=BLOCK,
        dtype=torch.bfloat16,
    )
    assert chosen.has_tiles
    torch.manual_seed(2)
    ends = [5, 17, 40, 200]
    total = len(ends) * (1 + DRAFTS)
    keys = new_keys(64, BLOCK, KV_HEADS, DIM, torch.bfloat16).normal_()
    values = new_values(64, BLOCK, KV_HEADS, DIM, torch.bfloat16).normal_()
    query = torch.randn(total, HEADS, DIM, dtype=torch.bfloat16)
    new = torch.randn(total, KV_HEADS, DIM, dtype=torch.bfloat16)
    tables = torch.arange(64).view(4, 16)
    at_once = metadata([1 + DRAFTS] * 4, ends, tables)
    alone = metadata(
        [1] * total,
        [end - back for end in ends for back in range(DRAFTS, -1, -1)],
        tables.repeat_interleave(1 + DRAFTS, 0),
    )

    found, wanted = (
        chosen.attend_written(
            query,
            new,
            new,
            AttentionLayer(keys, values, DIM**-0.5, window),
            each,
        ).float()
        for each in (at_once, alone)
    )

    assert (found - wanted).norm() / wanted.norm() < 0.01


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["chain", "tree"])
def test_bfloat16_output_is_what_float32_finds_likely(
    speculating_llm: SpeculatingLLM, llama: Oracle, form: str
) -> None:
    """With drafts of which a third is wrong each token is likely, up to rounding."""
    prompts = [[7, 8, 9] * 5, list(range(50, 90)), [3]]
    params = SamplingParams(temperature=0.0, max_tokens=16, logprobs=0)
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder), dtype=Dtype.BFLOAT16),
        speculative={
            "method": "scripted",
            "num_speculative_tokens": 4,
            "timeout_seconds": 30,
        },
    )
    with LLM.from_config(replace(config, speculative=None)) as llm:
        plain = llm.generate(prompts, params)
    texts = [
        [*prompt, *output.outputs[0].token_ids]
        for prompt, output in zip(prompts, plain, strict=True)
    ]
    proposer: Proposer = ScriptedProposer(texts, errors=0.3)
    if form == "tree":
        proposer = ScriptedTreeProposer(texts, (None, None, 0, 1), errors=0.3)

    with speculating_llm(config, proposer) as llm:
        outputs = llm.generate(prompts, params)
        assert_conserved(llm)

    accepted = sum(output.outputs[0].accepted_tokens for output in outputs)
    assert accepted > 10
    for prompt, output in zip(prompts, outputs, strict=True):
        tokens = output.outputs[0].token_ids
        for at, token in enumerate(tokens):
            exact = oracle_log(llama, [*prompt, *tokens[:at]])
            assert float(exact.max() - exact[token]) < 0.5


def oracle_log(oracle: Oracle, text: list[int]) -> torch.Tensor:
    return oracle.probabilities(text).log()

"""Engines of two pipeline stages, each a rank with a part of the layers."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import EngineDeadError, ModelLoadError
from hookline.outputs import RequestOutput
from hookline.structured_outputs import StructuredOutputsParams
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.rank_pids import rank_pids

pytestmark = pytest.mark.slow

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12], [5, 6, 7] * 12, [3] * 40, [9, 8, 7, 6]]
TOKENS = 20
GREEDY = SamplingParams(max_tokens=TOKENS, temperature=0.0)
PREEMPTED = {
    "block_size": 4,
    "num_kv_blocks": 24,
    "max_model_len": 80,
    "max_num_batched_tokens": 31,
    "max_num_seqs": 8,
}
NGRAM = {"method": "ngram", "num_speculative_tokens": 4}


def engine(folder: Path, **options: object) -> LLM:
    chosen = {"pipeline_parallel_size": 2, "num_kv_blocks": 64, "threads": 1, **options}
    return LLM.from_config(EngineConfig.from_options(model=str(folder), **chosen))


@pytest.fixture(scope="module")
def stages(llama: Oracle) -> Iterator[LLM]:
    with engine(llama.folder) as llm:
        yield llm


def tokens(llm: LLM, params: SamplingParams = GREEDY) -> list[list[int]]:
    return [each.outputs[0].token_ids for each in llm.generate(PROMPTS, params)]


def scores(output: RequestOutput) -> list[float]:
    """Log-probabilities of the prompt's tokens but the first, and of the output's."""
    assert output.prompt_logprobs is not None
    assert output.outputs[0].logprobs is not None
    told = [*output.prompt_logprobs, *output.outputs[0].logprobs]
    return [each.logprobs[0] for each in told if each is not None]


def expected(oracle: Oracle) -> list[list[int]]:
    return [oracle.greedy(prompt, TOKENS) for prompt in PROMPTS]


def test_two_stages_compute_what_one_rank_does(
    stages: LLM, llm: LLM, llama: Oracle
) -> None:
    """Tokens, log-probabilities of outputs and of prompts, and prefix hits."""
    asked = SamplingParams(max_tokens=8, temperature=0.0, logprobs=2, prompt_logprobs=1)

    assert tokens(stages) == tokens(stages) == expected(llama)

    for found, wanted in zip(
        stages.generate(PROMPTS, asked), llm.generate(PROMPTS, asked), strict=True
    ):
        assert found.outputs[0].token_ids == wanted.outputs[0].token_ids
        for one, other in zip(scores(found), scores(wanted), strict=True):
            assert one == pytest.approx(other, abs=1e-3)
    assert_conserved(stages)


def test_facts_are_those_of_the_whole_model(stages: LLM, llm: LLM) -> None:
    """What a step costs is the sum over stages, and a block is one in each of them."""
    found, wanted = (each.front_end.facts for each in (stages, llm))

    assert found.model.cost == wanted.model.cost
    assert (found.model.num_kv_blocks, found.executor) == (64, "mp")


def test_many_requests_share_the_stages(stages: LLM, llm: LLM) -> None:
    """Random samples of 40 requests are those of one rank, but for rare roundings."""
    prompts = [[3 + index % 5] * (1 + index % 17) for index in range(40)]
    params = SamplingParams(max_tokens=12, temperature=0.8, seed=3)

    found, wanted = (each.generate(prompts, params) for each in (stages, llm))

    same = sum(
        one.outputs[0].token_ids == other.outputs[0].token_ids
        for one, other in zip(found, wanted, strict=True)
    )
    assert same >= 38
    assert_conserved(stages)


OPTIONS: dict[str, dict[str, object]] = {
    "drafts": {"speculative_config": NGRAM},
    "process": {"async_scheduling": True, "in_process": False},
}


@pytest.mark.parametrize("option", essential(OPTIONS, "process"))
def test_options_work_with_stages(llama: Oracle, option: str) -> None:
    """
    Preemption, chunks, drafts and asynchronous scheduling change no token; a test of
    EAGLE has stages with drafts.
    """
    with engine(llama.folder, **PREEMPTED, **OPTIONS[option]) as llm:
        assert tokens(llm) == tokens(llm) == expected(llama)

        assert llm.front_end.engines[0].stats.totals.preemptions > 0
        assert_conserved(llm)


def test_grammars_hold_in_the_last_stage(stages: LLM) -> None:
    """The output rank masks logits; the first stage learns the tokens afterwards."""
    params = SamplingParams(
        max_tokens=TOKENS,
        temperature=0.0,
        stop_token_ids=(2,),
        structured_outputs=StructuredOutputsParams(choice=("one", "three")),
    )

    outputs = stages.generate(PROMPTS, params)

    assert {each.outputs[0].text for each in outputs} <= {"one", "three"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", [1, 2])
def test_stages_sleep_and_wake_up(stages: LLM, llama: Oracle, level: int) -> None:
    """Both release memory, and compute the same tokens afterwards."""
    stages.sleep(level=level)
    stages.wake_up()

    assert tokens(stages) == expected(llama)


def embeddings(folder: Path, **options: object) -> list[list[float]]:
    with engine(folder, convert="embed", **options) as llm:
        return [list(each.outputs.embedding) for each in llm.embed(PROMPTS)]


@pytest.mark.exhaustive
def test_embeddings_come_from_the_last_stage(llama: Oracle) -> None:
    """Pooled hidden states are those of one rank."""
    found, wanted = (
        embeddings(llama.folder, pipeline_parallel_size=stages) for stages in (2, 1)
    )

    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rank", [0, 1])
def test_the_death_of_a_stage_ends_the_engine(llama: Oracle, rank: int) -> None:
    """
    Whichever it is, the error names it, and the other stage is not left behind; so it
    is with ranks of other kinds, which `test_dead_ranks` kills.
    """
    before = set(rank_pids(os.getpid()))
    with engine(llama.folder) as llm:
        pids = sorted(set(rank_pids(os.getpid())) - before)
        os.kill(pids[rank], signal.SIGKILL)

        with pytest.raises(EngineDeadError, match=f"rank {rank}: its process"):
            tokens(llm)

    assert set(rank_pids(os.getpid())) == before


@pytest.mark.exhaustive
def test_more_stages_than_layers_are_an_error(llama: Oracle) -> None:
    """It comes from the ranks, which then end; `test_stages` has it without ranks."""
    before = rank_pids(os.getpid())

    with pytest.raises(ModelLoadError, match="4 stages cannot divide 3 layers"):
        engine(llama.folder, pipeline_parallel_size=4)

    assert rank_pids(os.getpid()) == before

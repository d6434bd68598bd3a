"""The executor `mp`: each rank of a model in a process of its own."""

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, EngineDeadError, ModelLoadError
from hookline.step import AdmittedSequence, StepPlan
from hookline_ranks.processes.rank_server import _with_shared
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.rank_pids import rank_pids

pytestmark = pytest.mark.slow

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12], [5, 6, 7, 5, 6, 7, 5, 6]]
MANY = {
    "greedy": SamplingParams(
        max_tokens=12, temperature=0.0, logprobs=2, prompt_logprobs=1
    ),
    "random": SamplingParams(max_tokens=12, temperature=0.9, top_p=0.8, seed=7, n=2),
    "changed": SamplingParams(max_tokens=12, seed=3, logit_bias={4: 5.0}, n=3),
}

OPTIONS: Mapping[str, object] = {
    "async_scheduling": True,
    "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
    "in_process": False,
}


def results(llm: LLM, params: SamplingParams) -> list[object]:
    return [
        (each.prompt_logprobs, [(one.token_ids, one.logprobs) for one in each.outputs])
        for each in llm.generate(PROMPTS, params)
    ]


def tokens(llm: LLM) -> list[list[int]]:
    params = SamplingParams(max_tokens=12, temperature=0.0)
    return [each.outputs[0].token_ids for each in llm.generate(PROMPTS, params)]


def started(folder: Path, **options: object) -> list[list[int]]:
    """The tokens of an engine of one rank with options, in a process of its own."""
    config = EngineConfig.from_options(
        model=str(folder), executor="mp", num_kv_blocks=512, **options
    )
    with LLM.from_config(config) as llm:
        return tokens(llm)


@pytest.mark.parametrize("kind", MANY)
def test_a_rank_computes_what_this_process_would(
    ranks_llm: LLM, llm: LLM, kind: str
) -> None:
    """The same tokens and log-probabilities, bit for bit."""
    assert results(ranks_llm, MANY[kind]) == results(llm, MANY[kind])

    assert_conserved(ranks_llm)


def test_facts_name_the_executor_in_use(ranks_llm: LLM, llm: LLM) -> None:
    """One rank computes in the engine's process unless told otherwise."""
    assert ranks_llm.front_end.facts.executor == "mp"
    assert llm.front_end.facts.executor == "uniproc"
    assert "import torch" in {each.name for each in ranks_llm.front_end.facts.startup}


@pytest.mark.parametrize("option", essential(OPTIONS))
def test_options_work_with_ranks(llama: Oracle, llm: LLM, option: str) -> None:
    """Tokens do not depend on them."""
    assert started(llama.folder, **{option: OPTIONS[option]}) == tokens(llm)


def test_errors_of_a_rank_are_the_engines_own(llama: Oracle, tmp_path: Path) -> None:
    """Of the same kind as in this process, and no rank is left behind."""
    before = rank_pids(os.getpid())
    damaged = tmp_path / "damaged"
    shutil.copytree(llama.folder, damaged)
    (damaged / "model.safetensors").write_bytes(b"x" * 100)

    with pytest.raises(ModelLoadError, match="damaged"):
        started(damaged)
    with pytest.raises(ConfigError, match="kv-cache-memory"):
        LLM(str(llama.folder), executor="mp", kv_cache_memory="1KiB")

    assert rank_pids(os.getpid()) == before


def test_the_death_of_a_rank_ends_the_engine(llama: Oracle) -> None:
    """The error names the rank and what happened to it."""
    before = rank_pids(os.getpid())
    with LLM(str(llama.folder), executor="mp", num_kv_blocks=512) as llm:
        [rank] = set(rank_pids(os.getpid())) - set(before)
        os.kill(rank, signal.SIGKILL)

        with pytest.raises(EngineDeadError, match="rank 0: its process was killed"):
            tokens(llm)

    assert rank_pids(os.getpid()) == before


def test_completions_of_a_request_share_their_parameters() -> None:
    """Each plan that a rank gets has copies, of which one is kept."""
    params = [MANY["changed"], msgspec.structs.replace(MANY["changed"])]
    plan = StepPlan(
        step=1,
        admitted=[
            AdmittedSequence(
                request_id=index,
                token_ids=[1],
                num_prompt_tokens=1,
                num_computed_tokens=0,
                block_ids=[index],
                params=each,
                eos_token_ids=(),
                bad_words_token_ids=(),
                completion_index=index,
            )
            for index, each in enumerate(params)
        ],
    )

    first, second = _with_shared(plan).admitted

    assert second.params is first.params
    assert (first.request_id, second.request_id) == (0, 1)

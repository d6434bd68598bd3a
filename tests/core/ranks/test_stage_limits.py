"""What a pipeline of stages does not do."""

from dataclasses import replace

import pytest

from hookline.config import EngineConfig, ExecutorConfig, ParallelConfig
from hookline.exceptions import ConfigError
from hookline.spec_decode import Proposer
from hookline.worker.compiling import process
from hookline.worker.ranks.rank_worker import check_proposer
from hookline_testing.proposers import (
    RandomProposer,
    ScriptedTreeProposer,
    WatchingProposer,
)

ONE = EngineConfig()
TWO = replace(ONE, parallel=ParallelConfig(pipeline_parallel_size=2))
READS_TOKENS = RandomProposer(100)


@pytest.mark.parametrize(
    "proposer",
    [WatchingProposer(READS_TOKENS), ScriptedTreeProposer([], (None, 0, 0))],
    ids=["hidden states", "tree"],
)
def test_drafts_of_what_stages_divide_are_refused(proposer: Proposer) -> None:
    """Hidden states of all layers, and trees, whose keys every stage would move."""
    with pytest.raises(ConfigError, match="pipeline-parallel-size"):
        check_proposer(TWO, proposer)

    check_proposer(ONE, proposer)


def test_drafts_from_tokens_are_allowed() -> None:
    """They need no stage's layers."""
    check_proposer(TWO, READS_TOKENS)


def test_one_process_has_one_stage() -> None:
    """The error names the option and the executor."""
    with pytest.raises(ConfigError, match=r"pipeline-parallel-size: 2.*uniproc"):
        replace(TWO, executor=ExecutorConfig(name="uniproc"))


def test_kernels_are_compiled_for_all_stages() -> None:
    """By one rank that has layers of every kind, the embedding and the output layer."""
    model = replace(TWO.model, model="demo")

    small = process._small(replace(TWO, model=model))

    assert small.parallel.pipeline_parallel_size == 1

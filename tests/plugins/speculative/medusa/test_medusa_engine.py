"""Greedy output with Medusa heads is the output without, for every family."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    Device,
    EngineConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
)
from hookline.exceptions import ConfigError
from hookline_medusa.checkpoint import save_heads
from hookline_medusa.heads import Head
from hookline_testing.drafted_output import count_drafts
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, Oracle, make_oracle
from hookline_testing.oracle_prompts import short_prompts

MakeHeads = Callable[..., tuple[Head, ...]]

TOKENS = 16
GREEDY = SamplingParams(temperature=0.0, max_tokens=TOKENS)
MODES = {
    "batched": EngineConfig(),
    "chunked": EngineConfig(
        scheduler=SchedulerConfig(max_num_batched_tokens=13, max_num_seqs=4)
    ),
    "preempted": EngineConfig(cache=CacheConfig(block_size=4, num_kv_blocks=24)),
}


def config_for(folder: Path, heads: Path, mode: str, drafts: int = 4) -> EngineConfig:
    speculative = {
        "method": "medusa",
        "num_speculative_tokens": drafts,
        "timeout_seconds": 60,
        "model": str(heads),
    }
    model = ModelConfig(model=str(folder), max_model_len=80)
    return replace(MODES[mode], model=model, speculative=speculative)


TREE = [[0], [1], [2], [0, 0], [1, 0], [1, 1], [2, 1], [1, 1, 0], [1, 1, 0, 0]]


def with_tree(config: EngineConfig) -> EngineConfig:
    """Drafts of a tree, whose number is optional; CPUs alone verify trees."""
    speculative = config.speculative
    assert speculative is not None
    options = {
        **speculative,
        "num_speculative_tokens": None,
        "medusa_choices": TREE,
    }
    on_cpu = replace(config.executor, device=Device.CPU)
    return replace(config, speculative=options, executor=on_cpu)


def copying_heads(oracle: Oracle) -> tuple[Head, ...]:
    """They guess the target's next token, which is right if a text repeats a token."""
    output = oracle.model.get_output_embeddings().weight.detach().clone()
    width = output.shape[1]
    blocks = ((torch.zeros(width, width), None),)
    return tuple(Head(blocks, None if index % 2 else output) for index in range(4))


@pytest.mark.parametrize("name", essential(sorted(FAMILIES), "llama", slow=["gemma2"]))
def test_every_family_is_left_as_it_is(
    name: str, tmp_path: Path, make_heads: MakeHeads
) -> None:
    """Heads that guess anything change no token; those that copy are right at times."""
    oracle = make_oracle(name, tmp_path / "model")
    save_heads(tmp_path / "random", make_heads(), name)
    save_heads(tmp_path / "copying", copying_heads(oracle), name)

    for kind in ("random", "copying"):
        config = config_for(oracle.folder, tmp_path / kind, "batched")
        assert count_drafts(oracle, config, short_prompts(), TOKENS) > TOKENS


@pytest.mark.exhaustive
@pytest.mark.parametrize("has_tree", [False, True])
def test_ranks_share_no_heads(has_tree: bool, tmp_path: Path) -> None:
    """One of two ranks has the heads, and the whole output layer that they share."""
    oracle = make_oracle("llama", tmp_path / "model")
    save_heads(tmp_path / "copying", copying_heads(oracle), "llama")
    config = config_for(oracle.folder, tmp_path / "copying", "batched")
    config = replace(config, parallel=ParallelConfig(tensor_parallel_size=2))
    config = with_tree(config) if has_tree else config

    assert count_drafts(oracle, config, short_prompts(), TOKENS) > TOKENS


@pytest.mark.slow
@pytest.mark.parametrize("mode", essential(sorted(MODES), "preempted"))
@pytest.mark.parametrize(
    ("stages", "has_tree"),
    essential(product([2, 3], [False, True]), (2, True)),
)
def test_stages_verify_what_the_last_one_drafts(
    stages: int, has_tree: bool, mode: str, tmp_path: Path
) -> None:
    """Stages before it move the keys of accepted paths, too."""
    oracle = make_oracle("llama", tmp_path / "model")
    save_heads(tmp_path / "copying", copying_heads(oracle), "llama")
    config = config_for(oracle.folder, tmp_path / "copying", mode)
    config = replace(config, parallel=ParallelConfig(pipeline_parallel_size=stages))
    config = with_tree(config) if has_tree else config

    assert count_drafts(oracle, config, short_prompts(), TOKENS) > TOKENS


@pytest.mark.parametrize("mode", essential(sorted(MODES), "batched"))
@pytest.mark.parametrize("count", essential([1, 5, 32], 5))
def test_every_mode_is_left_as_it_is(
    mode: str, count: int, llama: Oracle, heads_folder: Path
) -> None:
    """1 to 32 requests, in chunks and with blocks that do not suffice."""
    config = config_for(llama.folder, heads_folder, mode)

    assert count_drafts(llama, config, short_prompts(count), TOKENS) > 0


@pytest.mark.parametrize("name", essential(sorted(FAMILIES), "gemma2", "llama"))
def test_trees_leave_every_family_as_it_is(name: str, tmp_path: Path) -> None:
    """With heads that are right where a text repeats a token."""
    oracle = make_oracle(name, tmp_path / "model")
    save_heads(tmp_path / "copying", copying_heads(oracle), name)
    config = config_for(oracle.folder, tmp_path / "copying", "batched")

    assert count_drafts(oracle, with_tree(config), short_prompts(), TOKENS) > TOKENS


@pytest.mark.parametrize("mode", essential(sorted(MODES), "batched"))
@pytest.mark.parametrize("count", essential([1, 8], 8))
def test_trees_leave_every_mode_as_it_is(
    mode: str, count: int, llama: Oracle, heads_folder: Path
) -> None:
    """1 to 8 requests, in chunks and with blocks that do not suffice."""
    config = config_for(llama.folder, heads_folder, mode)

    assert count_drafts(llama, with_tree(config), short_prompts(count), TOKENS) > 0


def test_tree_cannot_be_left_to_the_engine(llama: Oracle, heads_folder: Path) -> None:
    """`auto` chooses lengths of chains."""
    config = with_tree(config_for(llama.folder, heads_folder, "batched"))
    assert config.speculative is not None
    automatic = {**config.speculative, "num_speculative_tokens": "auto"}

    with pytest.raises(ConfigError, match="must be 9 or be left out, and not 'auto'"):
        LLM.from_config(replace(config, speculative=automatic))


def test_right_guesses_are_accepted(tmp_path: Path, llama: Oracle) -> None:
    """Where the model repeats tokens, copying heads are right."""
    save_heads(tmp_path / "copying", copying_heads(llama), "llama")
    config = config_for(llama.folder, tmp_path / "copying", "batched")
    texts = {token: llama.greedy([token], TOKENS) for token in range(60)}
    repeated = [
        sum(first == second for first, second in pairwise(text))
        for text in texts.values()
    ]
    prompt = [max(texts, key=lambda token: repeated[token])]

    with LLM.from_config(config) as llm:
        [output] = llm.generate([prompt], GREEDY)

    assert max(repeated) > 0
    assert output.outputs[0].accepted_tokens > 0


def test_heads_of_another_model_end_the_start(
    tmp_path: Path, llama: Oracle, make_heads: MakeHeads
) -> None:
    """As one line, when the model is loaded."""
    save_heads(tmp_path / "narrow", make_heads(width=32), "another")

    with pytest.raises(ConfigError, match="made for another model"):
        LLM.from_config(config_for(llama.folder, tmp_path / "narrow", "batched"))

"""Greedy output with an EAGLE head is the output without, for every family."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
)
from hookline.exceptions import ConfigError
from hookline_eagle.checkpoint import save_head
from hookline_eagle.head import Head
from hookline_testing import assert_conserved
from hookline_testing.drafted_output import count_drafts
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, Oracle, make_oracle
from hookline_testing.oracle_prompts import short_prompts

MakeHead = Callable[..., Head]

TOKENS = 16
GREEDY = SamplingParams(temperature=0.0, max_tokens=TOKENS)
ROTARY = {"rope_theta": 10000.0, "max_position_embeddings": 256}
THIRD = {**ROTARY, "eagle_aux_hidden_state_layer_ids": [0, 1, 3]}
MODES = {
    "batched": EngineConfig(),
    "chunked": EngineConfig(
        scheduler=SchedulerConfig(max_num_batched_tokens=13, max_num_seqs=4)
    ),
    "preempted": EngineConfig(cache=CacheConfig(block_size=4, num_kv_blocks=24)),
}


def config_for(
    folder: Path, head: Path, mode: str, drafts: int = 4, **options: object
) -> EngineConfig:
    speculative = {
        "method": "eagle",
        "num_speculative_tokens": drafts,
        "timeout_seconds": 60,
        "model": str(head),
        **options,
    }
    model = ModelConfig(model=str(folder), max_model_len=80)
    return replace(MODES[mode], model=model, speculative=speculative)


@pytest.mark.parametrize("name", essential(sorted(FAMILIES), "llama"))
def test_every_family_is_left_as_it_is(
    name: str, tmp_path: Path, make_head: MakeHead
) -> None:
    """Heads of both kinds that guess anything change no token."""
    oracle = make_oracle(name, tmp_path / "model")
    save_head(tmp_path / "eagle", make_head(), ROTARY, name)
    save_head(tmp_path / "eagle3", make_head(third=True), THIRD, name)

    for kind in ("eagle", "eagle3"):
        config = config_for(oracle.folder, tmp_path / kind, "batched")
        assert count_drafts(oracle, config, short_prompts(), TOKENS) > TOKENS


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "kind"),
    essential(product(["llama", "gemma2"], ["eagle", "eagle3"]), ("llama", "eagle3")),
)
def test_ranks_share_no_head(
    name: str, kind: str, tmp_path: Path, make_head: MakeHead
) -> None:
    """One of two ranks has the head, and the whole embedding that it shares."""
    oracle = make_oracle(name, tmp_path / "model")
    is_third = kind == "eagle3"
    head_config = THIRD if is_third else ROTARY
    save_head(tmp_path / kind, make_head(third=is_third), head_config, name)
    config = config_for(oracle.folder, tmp_path / kind, "preempted")
    config = replace(config, parallel=ParallelConfig(tensor_parallel_size=2))

    assert count_drafts(oracle, config, short_prompts(), TOKENS) > TOKENS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "stages"),
    essential(product(sorted(MODES), [2, 3]), ("preempted", 2)),
)
@pytest.mark.parametrize(
    ("name", "is_third"),
    essential(product(["llama", "gemma2", "gpt2"], [False, True]), ("llama", True)),
)
def test_the_last_stage_has_the_head(  # noqa: PLR0917 - four of them are parameters
    name: str,
    is_third: bool,
    mode: str,
    stages: int,
    tmp_path: Path,
    make_head: MakeHead,
) -> None:
    """It reads the embedding, and gets the features of layers in other stages."""
    oracle = make_oracle(name, tmp_path / "model")
    head_config = THIRD if is_third else ROTARY
    save_head(tmp_path / "eagle", make_head(third=is_third), head_config, name)
    config = config_for(oracle.folder, tmp_path / "eagle", mode)
    config = replace(config, parallel=ParallelConfig(pipeline_parallel_size=stages))

    assert count_drafts(oracle, config, short_prompts(), TOKENS) > TOKENS


@pytest.mark.parametrize(
    ("mode", "count"),
    essential(
        [
            *(("batched", count) for count in (1, 5, 32)),
            *((mode, count) for mode in ("chunked", "preempted") for count in (2, 9)),
        ],
        ("preempted", 9),
        slow=[("batched", 5)],
    ),
)
def test_every_mode_is_left_as_it_is(
    mode: str, count: int, llama: Oracle, head_folder: Path
) -> None:
    """1 to 32 requests, in chunks and with blocks that do not suffice."""
    config = config_for(llama.folder, head_folder, mode)

    assert count_drafts(llama, config, short_prompts(count), TOKENS) > 0


def echo(head: Head) -> Head:
    """Says the feature that it reads: what the target would say next, once more."""
    width = head.shape.hidden_size
    for name, values in head.named_parameters():
        if "proj" in name:
            values.data.zero_()
    head.fc.weight.data.zero_()
    head.fc.weight.data[:, width:] = torch.eye(width)
    return head


def test_right_guesses_are_accepted(
    tmp_path: Path, llama: Oracle, make_head: MakeHead
) -> None:
    """Where the model repeats tokens, a head that echoes features is right."""
    save_head(tmp_path / "echo", echo(make_head()), ROTARY, "llama")
    config = config_for(llama.folder, tmp_path / "echo", "batched")

    with LLM.from_config(config) as llm:
        outputs = llm.generate([[token] for token in range(60)], GREEDY)

    texts = [list(output.outputs[0].token_ids) for output in outputs]
    assert texts == [llama.greedy([token], TOKENS) for token in range(60)]
    assert any(first == second for text in texts for first, second in pairwise(text))
    assert sum(output.outputs[0].accepted_tokens for output in outputs) > 0


@pytest.mark.parametrize("drafts", essential([1, 9, 30], 9))
def test_drafts_may_go_beyond_a_request_s_blocks(
    drafts: int, llama: Oracle, head_folder: Path
) -> None:
    """One draft needs no extra block, thirty need several of four tokens."""
    config = config_for(llama.folder, head_folder, "preempted", drafts)

    assert count_drafts(llama, config, short_prompts(3), TOKENS) > 0


def test_sampled_drafts_leave_a_greedy_request_alone(
    llama: Oracle, head_folder: Path
) -> None:
    """Sampled drafts for one request leave a greedy one in the batch unchanged."""
    config = config_for(
        llama.folder, head_folder, "batched", draft_sample_method="probabilistic"
    )
    sampled = SamplingParams(temperature=0.7, seed=3, max_tokens=TOKENS)
    many = short_prompts()

    with LLM.from_config(config) as llm:
        outputs = llm.generate(many, [GREEDY, sampled] * 3)
        drafted = [output.outputs[0].draft_tokens for output in outputs]
        failures = llm.front_end.engines[0].stats
        assert_conserved(llm)

    assert failures.totals.residue == type(failures.totals.residue)()
    assert min(drafted) > 0
    for prompt, output in list(zip(many, outputs, strict=True))[::2]:
        assert output.outputs[0].token_ids == llama.greedy(prompt, TOKENS)


def test_head_of_another_model_ends_the_start(
    tmp_path: Path, llama: Oracle, make_head: MakeHead
) -> None:
    """As one line, when the model is loaded."""
    save_head(tmp_path / "narrow", make_head(width=32), ROTARY, "another")

    with pytest.raises(ConfigError, match="made for another model"):
        LLM.from_config(config_for(llama.folder, tmp_path / "narrow", "batched"))


@pytest.mark.slow
def test_demo_model_brings_a_head() -> None:
    """It is found without being named, and right more often than not."""
    chosen = {"method": "eagle", "num_speculative_tokens": 4, "timeout_seconds": 60}
    params = SamplingParams(temperature=0.0, max_tokens=96, ignore_eos=True)
    prompts = ["def read_lines(path):\n", "class Queue:\n", "import os\n\n\ndef walk("]

    with LLM("demo", speculative_config=chosen) as llm:
        outputs = llm.generate(prompts, params)

    done = [output.outputs[0] for output in outputs]
    accepted = sum(each.accepted_tokens for each in done)
    assert accepted > sum(each.draft_tokens for each in done) / 3


def test_as_many_drafts_as_pay_leave_output_as_it_is(
    llama: Oracle, head_folder: Path
) -> None:
    """With `auto`, a head is shown what is computed while it drafts nothing, too."""
    config = config_for(llama.folder, head_folder, "chunked")
    assert config.speculative is not None
    speculative = {**config.speculative, "num_speculative_tokens": "auto"}

    count_drafts(
        llama, replace(config, speculative=speculative), short_prompts(5), TOKENS
    )

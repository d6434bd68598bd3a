"""With trees of drafts output is what it is without, and costs fewer steps."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    SchedulerConfig,
)
from hookline.exceptions import ConfigError
from hookline_drafting import DraftRequest, Drafts, Proposer
from hookline_drafting.checking import DraftError, check_drafts
from hookline_drafting.tree import DraftTree
from hookline_drafting.tree_arrays import (
    TreeArrays,
    arrays_for,
    moves_of,
)
from hookline_kernels import Platform
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, Oracle, make_oracle
from hookline_testing.oracle_prompts import mixed_prompts
from hookline_testing.proposers import ScriptedProposer, ScriptedTreeProposer

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]

TREE = (None, None, None, 0, 0, 1, 2, 3, 3, 5, 7, 9)
"""Twelve drafts, four deep; what is right is seldom where a chain would have it."""
OUTPUT_TOKENS = 24
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)
BASE = EngineConfig(
    speculative={
        "method": "scripted",
        "num_speculative_tokens": None,
        "timeout_seconds": 30,
    }
)
MODES = {
    "batched": BASE,
    "chunked": replace(
        BASE, scheduler=SchedulerConfig(max_num_batched_tokens=21, max_num_seqs=4)
    ),
    "no-prefix-cache": replace(BASE, cache=CacheConfig(enable_prefix_caching=False)),
    "one-token-blocks": replace(BASE, cache=CacheConfig(block_size=1)),
    "preempted": replace(BASE, cache=CacheConfig(block_size=4, num_kv_blocks=26)),
    "torch-kernels": replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH)),
}


@pytest.fixture(
    scope="module",
    params=essential(sorted(FAMILIES), "llama", slow=["gemma2", "gpt-oss"]),
)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    return make_oracle(request.param, tmp_path_factory.mktemp(request.param))


def config_for(folder: Path, mode: str) -> EngineConfig:
    limit = 96 if mode == "preempted" else None
    model = ModelConfig(model=str(folder), max_model_len=limit)
    return replace(MODES[mode], model=model)


def check(speculating_llm: SpeculatingLLM, oracle: Oracle, mode: str) -> float:
    """Runs all prompts twice over; gives the accepted share of the output."""
    expected = [oracle.greedy(prompt, OUTPUT_TOKENS) for prompt in mixed_prompts()]
    known = [[*p, *text] for p, text in zip(mixed_prompts(), expected, strict=True)]
    proposer = ScriptedTreeProposer(known, TREE, errors=0.2)

    with speculating_llm(config_for(oracle.folder, mode), proposer) as llm:
        first = llm.generate(mixed_prompts(), GREEDY)
        again = llm.generate(mixed_prompts(), GREEDY)
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)

    assert [output.outputs[0].token_ids for output in first] == expected
    assert [output.outputs[0].token_ids for output in again] == expected
    if mode == "preempted":
        assert stats.totals.preemptions > 0
    accepted = sum(output.outputs[0].accepted_tokens for output in first)
    return accepted / (len(first) * OUTPUT_TOKENS)


def test_every_family_is_left_as_it_is(
    speculating_llm: SpeculatingLLM, family: Oracle
) -> None:
    """Each family gives the oracle's tokens, among them capped and windowed ones."""
    assert check(speculating_llm, family, "batched") > 0.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", sorted(set(MODES) - {"batched"}))
def test_every_mode_is_left_as_it_is(
    speculating_llm: SpeculatingLLM, llama: Oracle, mode: str
) -> None:
    """Chunks, tiny pools, preemption and blocks of one token change no token."""
    assert check(speculating_llm, llama, mode) > 0.1


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_batches_of_every_size_are_left_as_they_are(
    speculating_llm: SpeculatingLLM, llama: Oracle, count: int
) -> None:
    """1 to 8 requests side by side, with trees that are right half of the time."""
    many = [mixed_prompts()[index % 7] + [index] for index in range(count)]
    expected = [llama.greedy(prompt, OUTPUT_TOKENS) for prompt in many]
    known = [[*prompt, *tokens] for prompt, tokens in zip(many, expected, strict=True)]
    proposer = ScriptedTreeProposer(known, TREE, errors=0.5)

    with speculating_llm(config_for(llama.folder, "batched"), proposer) as llm:
        outputs = llm.generate(many, GREEDY)
        assert_conserved(llm)

    assert [output.outputs[0].token_ids for output in outputs] == expected


def test_accepted_paths_can_be_read_from_the_prefix_cache(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """What was moved to its place is what a prompt that goes on from there needs."""
    whole = [llama.greedy(prompt, 2 * OUTPUT_TOKENS) for prompt in mixed_prompts()]
    known = [[*p, *text] for p, text in zip(mixed_prompts(), whole, strict=True)]
    proposer = ScriptedTreeProposer(known, TREE)
    longer = [text[:-OUTPUT_TOKENS] for text in known]
    config = replace(MODES["batched"], cache=CacheConfig(block_size=4))
    config = replace(config, model=ModelConfig(model=str(llama.folder)))

    with speculating_llm(config, proposer) as llm:
        llm.generate(mixed_prompts(), GREEDY)
        outputs = llm.generate(longer, GREEDY)
        assert_conserved(llm)

    for output, text in zip(outputs, whole, strict=True):
        assert output.outputs[0].token_ids == text[OUTPUT_TOKENS:]
        cached = output.cached_tokens
        assert cached is not None
        assert cached >= len(output.prompt_token_ids) - 4


def test_right_paths_save_steps(speculating_llm: SpeculatingLLM, llama: Oracle) -> None:
    """A path that is as deep as the tree brings a token more than it is deep.

    Where fewer may still be said, the tree is cut below what is of use, and where the
    context ends, at the last place.
    """
    prompt = mixed_prompts()[2]
    known = [[*prompt, *llama.greedy(prompt, OUTPUT_TOKENS)]]
    config = config_for(llama.folder, "batched")
    limited = replace(
        config,
        model=replace(config.model, max_model_len=len(prompt) + OUTPUT_TOKENS),
    )
    wide = (None,) * 8 + (0, 1, 2, 3, 4, 5, 6, 7)

    for chosen in (config, limited):
        proposer = ScriptedTreeProposer(known, wide)
        with speculating_llm(chosen, proposer) as llm:
            [output] = llm.generate([prompt], GREEDY)
        [completion] = output.outputs
        assert completion.token_ids == known[0][len(prompt) :]
        # One token of the prompt's step, then threes, and at last two.
        if chosen is config:
            assert completion.accepted_tokens == 15
            assert proposer.calls <= 9


def test_positions_are_counted_by_depth(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """Whichever nodes of a depth are accepted."""
    prompt = mixed_prompts()[2]
    known = [[*prompt, *llama.greedy(prompt, OUTPUT_TOKENS)]]
    proposer = ScriptedTreeProposer(known, (None, None, None, 0, 1, 2))

    with speculating_llm(config_for(llama.folder, "batched"), proposer) as llm:
        llm.generate([prompt], GREEDY)
        families = llm.get_metrics()

    [family] = [
        each
        for each in families
        if each.name == "hookline_spec_decode_num_accepted_tokens_per_pos"
    ]
    place = family.label_names.index("position")
    counts = {each.labels[place]: each.value for each in family.samples}
    assert set(counts) == {"0", "1"}
    assert counts["0"] in {7, 8}


WRONG_TREES: dict[str, tuple[object, str]] = {
    "empty": ((), "1 to 64 drafts, not 0"),
    "too large": ((None,) * 65, "1 to 64 drafts, not 65"),
    "behind itself": ((None, 1), "draft 1 of a tree cannot follow draft 1"),
    "behind a later one": ((None, 2, 0), "draft 1 of a tree cannot follow draft 2"),
    "below 0": ((None, -1), "cannot follow draft -1"),
    "no number": ((None, "0"), "cannot follow draft '0'"),
    "another order": ((None, 0, None), "in order of depth"),
    "no tuple": (3, "not a sequence"),
}


@pytest.mark.parametrize("name", WRONG_TREES)
def test_parents_of_no_tree_end_the_start(
    name: str, speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """As one line, before the model is loaded."""
    parents, reason = WRONG_TREES[name]
    proposer = ScriptedTreeProposer([], parents)  # type: ignore[arg-type]

    with (
        pytest.raises(ConfigError, match=reason) as caught,
        speculating_llm(config_for(llama.folder, "batched"), proposer),
    ):
        pass

    assert caught.value.option == "speculative-config"


@pytest.mark.parametrize("number", [11, 13, "auto"])
def test_number_of_drafts_is_the_trees(
    number: int | str, speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """Another one is refused; without a tree it has to be given."""
    config = config_for(llama.folder, "batched")
    other: dict[str, object] = {
        "method": "scripted",
        "num_speculative_tokens": number,
    }

    with (
        pytest.raises(ConfigError, match=f"must be 12 or be left out.*{number}"),
        speculating_llm(
            replace(config, speculative=other), ScriptedTreeProposer([], TREE)
        ),
    ):
        pass
    with (
        pytest.raises(ConfigError, match="num_speculative_tokens is missing"),
        speculating_llm(config, ScriptedProposer([])),
    ):
        pass


def test_trees_that_are_deeper_than_a_window_are_refused(
    speculating_llm: SpeculatingLLM, tmp_path: Path
) -> None:
    """A layer that sees twelve tokens takes trees of eleven levels."""
    oracle = make_oracle("mistral", tmp_path / "model")
    config = config_for(oracle.folder, "batched")

    with speculating_llm(config, ScriptedTreeProposer([], (None, *range(10)))) as llm:
        [output] = llm.generate([[1, 2, 3]], GREEDY)
    assert output.outputs[0].token_ids == oracle.greedy([1, 2, 3], OUTPUT_TOKENS)
    with (
        pytest.raises(ConfigError, match=r"depth 12 does not fit.* of 12 tokens"),
        speculating_llm(config, ScriptedTreeProposer([], (None, *range(11)))),
    ):
        pass


def test_trees_need_a_model_on_processors(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """Neither kernels of GPUs nor the simulated executor know them."""
    with pytest.raises(ConfigError, match="on CPUs only"):
        arrays_for(DraftTree(TREE), Platform(torch.device("cuda"), is_gpu=True), [None])
    config = config_for(llama.folder, "batched")
    simulated = replace(config, executor=ExecutorConfig(name="simulated"))

    with (
        pytest.raises(ConfigError, match="drafts trees"),
        speculating_llm(simulated, ScriptedTreeProposer([], TREE)),
    ):
        pass


def test_drafts_of_a_tree_have_no_probabilities() -> None:
    """Which are refused as malformed."""
    request = DraftRequest(
        request_id=1,
        token_ids=np.array([1], np.int32),
        max_drafts=1,
        params=SamplingParams(),
    )
    drafts = Drafts(token_ids=[1], probabilities=[[0.5, 0.5]])

    assert check_drafts(request, drafts, 2).probabilities is not None
    with pytest.raises(DraftError, match="have probabilities"):
        check_drafts(request, drafts, 2, is_tree=True)


def test_of_equal_children_one_is_followed() -> None:
    """A path is one even where a proposer says a token twice; other trees are cut."""
    arrays = TreeArrays(DraftTree((None, None, 0, 1, 1)))
    rows = np.array([4, 4, 4, 4, 4, 4, 7, 7, 2])
    tokens = np.array([0, 9, 9, 5, 6, 6, 0, 8, 0])
    sampled = np.array([9, 5, 6, 1, 2, 3, 8, 4, 7])

    verified = arrays.verify(rows, sampled, tokens)

    assert verified.counts.tolist() == [3, 2, 1]
    assert np.flatnonzero(verified.is_kept).tolist() == [0, 1, 3, 6, 7, 8]
    moves = moves_of(verified, np.arange(10, 19))
    assert (moves.sources.tolist(), moves.targets.tolist()) == ([13], [12])

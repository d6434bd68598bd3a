"""Tokens and log-probabilities of adapters in a batch, compared with those of peft."""

from collections.abc import Collection
from pathlib import Path

import pytest

from hookline_testing.adapted_engine import AdaptedEngine
from hookline_testing.adapters import LINEAR, make_adapter, shapes_of
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle

from .conftest import MakeEngine, PeftOf

ATTENTION = LINEAR[:4]
FAMILIES: dict[str, Collection[str]] = {
    "llama": LINEAR,
    "qwen2": LINEAR,
    "qwen3": LINEAR,
    "mistral": LINEAR,
    "qwen3-moe": ATTENTION,  # its feed-forward layers are experts
}
RANKS = (1, 8, 64)
PROMPTS = ([*range(5, 45)], [7, 9, 11], [*range(60, 20, -2)])
COUNT = 14


def assert_same(
    engine: AdaptedEngine, request_id: int, oracle: Oracle, prompt: list[int]
) -> None:
    """A request has the tokens of the oracle, and their log-probabilities."""
    tokens = engine.tokens[request_id]
    assert tokens == oracle.greedy(prompt, COUNT)
    expected = oracle.probabilities_along(prompt, tokens).log()
    for at, token in enumerate(tokens):
        found = engine.logprobs[request_id][at]
        assert found == pytest.approx(float(expected[at, token]), abs=1e-4)


@pytest.mark.parametrize("family", essential(FAMILIES, "llama", slow=[*FAMILIES][1:]))
def test_each_family_says_what_peft_says(
    family: str, tmp_path: Path, make_engine: MakeEngine, peft_of: PeftOf
) -> None:
    """Adapters of several ranks and the base share steps whose prompts are chunks.

    Blocks run out, so that requests are preempted and computed again.
    """
    oracle = make_oracle(family, tmp_path / "model")
    adapters = [
        make_adapter(
            tmp_path / f"rank{rank}",
            shapes_of(oracle.model),
            targets=FAMILIES[family],
            rank=rank,
            seed=rank,
        )
        for rank in RANKS
    ]
    engine = make_engine(oracle.folder, tokens=24, blocks=9)
    engine.load(*adapters)
    engine.fill(dict(enumerate(adapters, 2)))
    said = [
        (engine.add(prompt, COUNT, adapter, logprobs=0), adapter, prompt)
        for prompt in PROMPTS
        for adapter in (*adapters, None)
    ]
    engine.run()

    oracles = {each: peft_of(oracle, each) for each in adapters}
    assert engine.num_preempted > 0
    for request_id, adapter, prompt in said:
        own = oracle if adapter is None else oracles[adapter]
        assert_same(engine, request_id, own, prompt)


def test_eight_adapters_and_the_base_share_steps(
    tmp_path: Path, make_engine: MakeEngine, peft_of: PeftOf
) -> None:
    """Each has layers and ranks of its own, and some an embedding or a head."""
    oracle = make_oracle("llama", tmp_path / "model")
    kinds: list[dict[str, object]] = [
        {"rank": 1},
        {"rank": 2, "targets": ("q_proj", "v_proj")},
        {"rank": 3, "targets": ("down_proj",)},
        {"rank": 16, "targets": ("up_proj", "o_proj"), "use_rslora": True},
        {"rank": 64, "alpha": 16.0},
        {"rank": 8, "targets": (*LINEAR, "embed_tokens", "lm_head")},
        {"rank": 4, "modules_to_save": ("lm_head",)},
        {"rank": 4, "rank_pattern": {"k_proj": 7}, "layers_to_transform": [0, 2]},
    ]
    adapters = [
        make_adapter(
            tmp_path / f"a{at}",
            shapes_of(oracle.model),
            seed=at,
            **kind,  # type: ignore[arg-type]
        )
        for at, kind in enumerate(kinds)
    ]
    engine = make_engine(oracle.folder)
    engine.load(*adapters)
    engine.fill(dict(enumerate(adapters)))
    prompt = PROMPTS[0]
    said = {
        adapter: engine.add(prompt, COUNT, adapter, logprobs=0)
        for adapter in (*adapters, None)
    }
    engine.run()

    for adapter, request_id in said.items():
        own = oracle if adapter is None else peft_of(oracle, adapter)
        assert_same(engine, request_id, own, prompt)

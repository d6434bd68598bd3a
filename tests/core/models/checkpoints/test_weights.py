"""Weights: sharded or whole, in each precision, or none at all."""

import copy
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, Dtype, EngineConfig, LoadFormat, ModelConfig
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle

PROMPTS = [[5, 6, 7], list(range(30, 71)), [300] * 9]
GREEDY = SamplingParams(temperature=0.0, max_tokens=10, logprobs=3)


def generate(folder: Path, **more: object) -> tuple[list[list[int]], LLM]:
    """Greedy outputs of an engine that is closed again."""
    config = EngineConfig(
        model=ModelConfig(model=str(folder), **more),  # type: ignore[arg-type]
        cache=CacheConfig(num_kv_blocks=32),
    )
    with LLM.from_config(config) as llm:
        outputs = llm.generate(PROMPTS, GREEDY)
        assert_conserved(llm)
    return [output.outputs[0].token_ids for output in outputs], llm


def test_sharded_weights_equal_whole_ones(llama: Oracle, folder: Path) -> None:
    """A model in many files gives the oracle's tokens."""
    (folder / "model.safetensors").unlink()
    llama.model.save_pretrained(folder, max_shard_size="100KB")

    tokens, _ = generate(folder)

    assert len(list(folder.glob("*.safetensors"))) > 3
    assert not (folder / "model.safetensors").exists()
    assert tokens == [llama.greedy(prompt, 10) for prompt in PROMPTS]


@pytest.mark.parametrize(
    ("dtype", "name"), [(Dtype.BFLOAT16, "bfloat16"), (Dtype.FLOAT16, "float16")]
)
def test_half_precision_runs(llama: Oracle, dtype: Dtype, name: str) -> None:
    """Weights and cache are of that precision, and first tokens nearly the oracle's."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder), dtype=dtype),
        cache=CacheConfig(num_kv_blocks=32),
    )
    with LLM.from_config(config) as llm:
        outputs = llm.generate(PROMPTS, GREEDY)
        facts = llm.front_end.facts
        assert_conserved(llm)

    assert facts.model.dtype == name
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        expected = llama.probabilities(prompt).log()
        entries = output.outputs[0].logprobs
        assert entries is not None
        found = dict(zip(entries[0].token_ids, entries[0].logprobs, strict=True))
        for token_id, value in found.items():
            assert value == pytest.approx(float(expected[token_id]), abs=0.5)


def test_the_checkpoints_precision_is_the_default(llama: Oracle, folder: Path) -> None:
    """The config's dtype is loaded."""
    copy.deepcopy(llama.model).bfloat16().save_pretrained(folder)

    _, llm = generate(folder)

    assert llm.front_end.facts.model.dtype == "bfloat16"


def test_dummy_weights_need_no_file(folder: Path) -> None:
    """They are made of the seed: the same for equal seeds, others for others."""
    (folder / "model.safetensors").unlink()
    state = torch.random.get_rng_state()

    first, _ = generate(folder, load_format=LoadFormat.DUMMY, seed=3)
    again, _ = generate(folder, load_format=LoadFormat.DUMMY, seed=3)
    other, _ = generate(folder, load_format=LoadFormat.DUMMY, seed=4)

    assert first == again
    assert first != other
    assert torch.equal(torch.random.get_rng_state(), state)

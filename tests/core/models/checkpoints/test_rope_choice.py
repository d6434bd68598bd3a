"""Contexts beyond a model's original length equal `transformers`, whoever is beside."""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    HunYuanDenseV1Config,
    LlamaConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    StableLmConfig,
)

from hookline import LLM, ModelLoadError, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline_models.checkpoints.rope_choice import choose_rope
from hookline_testing.essential import essential
from hookline_testing.oracle import SHAPE, Oracle, make_oracle

ORIGINAL, LONGEST = 64, 256
COUNT = 12
PROMPTS = {
    length: [(7 * at + length) % 320 for at in range(length)] for length in (3, 90, 200)
}
GREEDY = SamplingParams(temperature=0.0, max_tokens=COUNT)
LENGTHS: dict[str, Any] = {**SHAPE, "max_position_embeddings": ORIGINAL}
FACTORS = {
    "short_factor": [1.0 + 0.02 * at for at in range(8)],
    "long_factor": [1.0 + 0.9 * at for at in range(8)],
}


@contextmanager
def serving(folder: Path, length: int | None) -> Iterator[LLM]:
    config = EngineConfig(
        model=ModelConfig(model=str(folder), max_model_len=length),
        cache=CacheConfig(num_kv_blocks=64, enable_prefix_caching=False),
    )
    with LLM.from_config(config) as llm:
        yield llm


def generated(llm: LLM, *prompts: list[int]) -> list[list[int]]:
    """The tokens of prompts that are computed together."""
    outputs = llm.generate(list(prompts), GREEDY)
    return [each.outputs[0].token_ids for each in outputs]


@torch.inference_mode()
def greedy(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    """The tokens of `transformers`, which computes the whole text for each."""
    tokens = list(prompt)
    for _ in range(COUNT):
        tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(prompt) :]


def rewritten(oracle: Oracle, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the config.json of a model on disk."""
    path = oracle.folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    change(config)
    path.write_text(json.dumps(config))


def to_former_form(config: dict[str, Any]) -> None:
    """Writes the rotary embedding as `transformers` 4 did."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    rope.pop("original_max_position_embeddings", None)
    config["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}


@pytest.mark.parametrize("is_former", [False, True], ids=["present", "former"])
@pytest.mark.parametrize("kind", ["yarn", "linear"])
def test_a_factor_extends_the_context(
    tmp_path: Path, kind: str, is_former: bool
) -> None:
    """Four times as many positions equal those of `transformers`, token for token."""
    rope = {"rope_type": kind, "factor": 4.0, "rope_theta": 10000.0}
    config = LlamaConfig(**LENGTHS, rope_parameters=rope)
    oracle = make_oracle("llama", tmp_path, config=config)
    if is_former:
        rewritten(oracle, to_former_form)

    with serving(tmp_path, LONGEST) as llm:
        together = generated(llm, *PROMPTS.values())
        assert llm.front_end.facts.model.max_model_len == LONGEST

    assert together == [greedy(oracle.model, each) for each in PROMPTS.values()]


STATIC: dict[str, Callable[[dict[str, Any]], PreTrainedConfig]] = {
    "alpha": lambda rope: HunYuanDenseV1Config(
        **SHAPE,
        head_dim=16,
        rope_parameters={
            **rope,
            "rope_type": "dynamic",
            "alpha": 1000.0,
            "factor": 1.0,
        },
    ),
    "llama3": lambda rope: LlamaConfig(
        **SHAPE,
        rope_parameters={
            **rope,
            "rope_type": "llama3",
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": ORIGINAL,
        },
    ),
    "partial": lambda rope: StableLmConfig(
        **SHAPE,
        rope_parameters={**rope, "rope_type": "default", "partial_rotary_factor": 0.5},
    ),
    "proportional": lambda rope: LlamaConfig(
        **SHAPE,
        rope_parameters={
            **rope,
            "rope_type": "proportional",
            "partial_rotary_factor": 0.25,
        },
    ),
}


@pytest.mark.parametrize("kind", essential(STATIC, "alpha", "proportional"))
def test_frequencies_that_no_length_changes(tmp_path: Path, kind: str) -> None:
    """The context is the configured one, and tokens equal those of `transformers`."""
    config = STATIC[kind]({"rope_theta": 10000.0})
    oracle = make_oracle("llama", tmp_path, config=config)

    with serving(tmp_path, None) as llm:
        length = llm.front_end.facts.model.max_model_len
        together = generated(llm, *PROMPTS.values())

    assert length == SHAPE["max_position_embeddings"]
    assert together == [greedy(oracle.model, each) for each in PROMPTS.values()]


@pytest.mark.parametrize(
    ("rope", "reason"),
    [
        ({"type": "ntk", "factor": 2.0}, "has the type 'ntk'; Hookline knows default"),
        (
            {"type": "longrope", "short_factor": [1.0] * 3, "long_factor": [1.0] * 8},
            "longrope has 3 and 8 factors for 8 frequencies",
        ),
    ],
    ids=["unknown", "misfit"],
)
def test_what_is_no_rotary_embedding_is_named(
    llama: Oracle, rope: dict[str, object], reason: str
) -> None:
    """In one sentence, before weights are read."""
    with pytest.raises(ModelLoadError, match=reason):
        LLM(str(llama.folder), hf_overrides={"rope_scaling": rope})


def test_a_dynamic_base_is_that_of_the_longest_context(tmp_path: Path) -> None:
    """`transformers` has it, too, once it has computed as long a text."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    config = LlamaConfig(**LENGTHS, rope_parameters=rope)
    oracle = make_oracle("llama", tmp_path, config=config)

    with serving(tmp_path, None) as llm:
        assert llm.front_end.facts.model.max_model_len == ORIGINAL
        unchanged = generated(llm, PROMPTS[3])
    with serving(tmp_path, LONGEST) as llm:
        together = generated(llm, *PROMPTS.values())
        alone = [generated(llm, each)[0] for each in PROMPTS.values()]

    assert unchanged == [greedy(oracle.model, PROMPTS[3])]
    assert together == alone
    with torch.inference_mode():
        oracle.model(torch.zeros(1, LONGEST, dtype=torch.int64))
    assert together[1:] == [greedy(oracle.model, PROMPTS[each]) for each in (90, 200)]


def longrope_llama(folder: Path, *, is_beside: bool) -> Oracle:
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "original_max_position_embeddings": ORIGINAL,
        **FACTORS,
    }
    config = LlamaConfig(**SHAPE, rope_parameters=rope)
    oracle = make_oracle("llama", folder, config=config)

    def move(config: dict[str, Any]) -> None:
        del config["rope_parameters"]["original_max_position_embeddings"]
        config["original_max_position_embeddings"] = ORIGINAL

    if is_beside:
        rewritten(oracle, move)
    return oracle


def longrope_phi3(folder: Path) -> Oracle:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, **FACTORS}
    config = Phi3Config(
        **SHAPE, original_max_position_embeddings=ORIGINAL, rope_parameters=rope
    )
    oracle = make_oracle("phi3", folder, config=config)

    def rename(config: dict[str, Any]) -> None:
        to_former_form(config)
        config["rope_scaling"]["type"] = "su"

    rewritten(oracle, rename)
    return oracle


MODELS: dict[str, Callable[[Path], Oracle]] = {
    "in the rope": lambda folder: longrope_llama(folder, is_beside=False),
    "beside the rope": lambda folder: longrope_llama(folder, is_beside=True),
    "phi3": longrope_phi3,
}


def with_factors(oracle: Oracle, which: str) -> PreTrainedModel:
    """The same model in `transformers`, with one set of factors for all lengths."""
    config: Any = copy.deepcopy(oracle.model.config)
    rope = config.rope_parameters
    rope["short_factor"] = rope["long_factor"] = FACTORS[f"{which}_factor"]
    model: PreTrainedModel = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    )
    model.load_state_dict(oracle.model.state_dict())
    model.train(mode=False)
    return model


@pytest.mark.parametrize("where", essential(MODELS, "phi3", slow=MODELS))
def test_longrope_is_chosen_by_the_longest_context(tmp_path: Path, where: str) -> None:
    """Not by neighbours: beyond the original length all requests get long factors."""
    oracle = MODELS[where](tmp_path)

    with serving(tmp_path, None) as llm:
        assert llm.front_end.facts.model.max_model_len == ORIGINAL
        short = generated(llm, PROMPTS[3])
    with serving(tmp_path, LONGEST) as llm:
        alone = [generated(llm, each)[0] for each in PROMPTS.values()]
        together = generated(llm, *PROMPTS.values())

    long = with_factors(oracle, "long")
    assert short == [greedy(oracle.model, PROMPTS[3])]
    assert alone == together == [greedy(long, each) for each in PROMPTS.values()]
    assert together[1:] == [greedy(oracle.model, PROMPTS[each]) for each in (90, 200)]


def test_each_type_of_layers_has_its_choice() -> None:
    """Of layers whose rotary embedding has no such choice nothing changes."""
    config = Gemma3TextConfig(
        **SHAPE,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "original_max_position_embeddings": ORIGINAL,
                **FACTORS,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
    )
    ropes: Any = config.rope_parameters
    before = dict(ropes["sliding_attention"])

    choose_rope(config, LONGEST)

    full = ropes["full_attention"]
    assert full["short_factor"] == full["long_factor"] == FACTORS["long_factor"]
    assert ropes["sliding_attention"] == before

"""The option `hf-overrides` changes what `config.json` says, by vLLM's rules."""

import json
from pathlib import Path

import pytest
from transformers import LlamaConfig

from hookline import LLM, ConfigError, ModelLoadError, SamplingParams
from hookline.config import ModelConfig
from hookline_description.describing import describe
from hookline_description.overriding import overridden
from hookline_testing.oracle import SHAPE, make_oracle

GREEDY = SamplingParams(temperature=0.0, max_tokens=8)
PROMPT = [5, 9, 77, 4, 8, 101, 30]
ROPE = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}


def test_parts_are_merged_and_other_objects_replaced() -> None:
    """At every depth of a part, and nothing is changed in place."""
    described = {
        "text_config": {"a": 1, "b": {"c": 2, "d": 3}},
        "rope_scaling": {"type": "yarn", "factor": 4},
        "quantization_config": {"bits": 4},
        "left": 1,
    }

    found = overridden(
        described,
        {
            "text_config": {"a": 9, "b": {"c": 8}},
            "rope_scaling": {"type": "linear"},
            "quantization_config": {"quant_method": "awq"},
            "vision_config": {"new": 1},
            "added": None,
        },
    )

    assert found == {
        "text_config": {"a": 9, "b": {"c": 8, "d": 3}},
        "rope_scaling": {"type": "linear"},
        "quantization_config": {"quant_method": "awq"},
        "vision_config": {"new": 1},
        "left": 1,
        "added": None,
    }
    assert described["text_config"] == {"a": 1, "b": {"c": 2, "d": 3}}


def test_the_model_is_the_changed_one(tmp_path: Path) -> None:
    """Its context is that of the factor, and tokens equal those of `transformers`."""
    oracle = make_oracle(
        "llama", tmp_path, config=LlamaConfig(**SHAPE, rope_parameters=ROPE)
    )
    path = tmp_path / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    path.write_text(json.dumps(config))

    with LLM(str(tmp_path), hf_overrides={"rope_parameters": ROPE}) as llm:
        (output,) = llm.generate([PROMPT], GREEDY, use_tqdm=False)
        length = llm.front_end.facts.model.max_model_len

    assert list(output.outputs[0].token_ids) == oracle.greedy(PROMPT, 8)
    assert length == 512


def test_every_reader_of_the_file_has_the_values(folder: Path) -> None:
    """The description of a model, and the check of its sizes."""
    config = ModelConfig(
        model=str(folder), hf_overrides={"max_position_embeddings": 64}
    )

    assert describe(config).max_position_embeddings == 64
    with pytest.raises(ModelLoadError, match="vocab_size"):
        describe(ModelConfig(model=str(folder), hf_overrides={"vocab_size": -1}))


def test_the_class_is_chosen_by_the_model_type(folder: Path) -> None:
    """Another one is refused, and the same one is none."""
    name = {"architectures": ["LlamaForCausalLM"]}
    LLM(str(folder), hf_overrides=name).close()

    with pytest.raises(ConfigError, match="model_type decides") as caught:
        LLM(str(folder), hf_overrides={"architectures": ["OtherForCausalLM"]})

    assert caught.value.option == "hf-overrides"

"""Adapters of whole engines, compared with peft: ranks, drafts, quantized bases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from hookline import LLM, SamplingParams
from hookline_testing.adapters import make_adapter, shapes_of, with_adapter
from hookline_testing.oracle import Oracle, make_oracle
from hookline_testing.quantized_checkpoints import LAYOUTS, quantize

PROMPTS = ([*range(5, 25)], [9, 8, 7, 9, 8, 7, 9, 8], [*range(90, 40, -1)])
COUNT = 12


def assert_says_what_peft_says(
    oracle: Oracle, adapter: Path, options: Mapping[str, Any]
) -> None:
    """With the adapter and without, in one batch; prompts of other lengths."""
    with LLM(
        str(oracle.folder),
        dtype="float32",
        max_model_len=128,
        max_num_seqs=6,
        num_kv_blocks=64,
        enable_lora=True,
        lora_modules=[f"it={adapter}"],
        **options,
    ) as llm:
        outputs = llm.generate(
            [*PROMPTS, *PROMPTS],
            SamplingParams(temperature=0.0, max_tokens=COUNT),
            lora_request=["it"] * 3 + [None] * 3,
        )

    adapted = Oracle(oracle.folder, with_adapter(oracle.model, adapter))
    models = [adapted] * 3 + [oracle] * 3
    assert [list(each.outputs[0].token_ids) for each in outputs] == [
        model.greedy(prompt, COUNT)
        for model, prompt in zip(models, PROMPTS * 2, strict=True)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"async_scheduling": True, "max_num_batched_tokens": 16},
        pytest.param({"tensor_parallel_size": 2}, marks=pytest.mark.slow),
        pytest.param({"pipeline_parallel_size": 2}, marks=pytest.mark.slow),
        {
            "speculative_config": {
                "method": "ngram",
                "num_speculative_tokens": 3,
                "prompt_lookup_min": 1,
            }
        },
    ],
    ids=["async", "tensor", "pipeline", "ngram"],
)
def test_engines_say_what_peft_says(options: Mapping[str, Any], tmp_path: Path) -> None:
    """However a model is divided and its steps are planned."""
    oracle = make_oracle("llama", tmp_path / "model")
    shapes = {
        name: shape
        for name, shape in shapes_of(oracle.model).items()
        if name.startswith("model.layers.")
    }
    adapter = make_adapter(tmp_path / "adapter", shapes, rank=6)

    assert_says_what_peft_says(oracle, adapter, options)


@pytest.mark.parametrize("layout", ["int-quantized", "gptq"])
def test_quantized_bases_say_what_peft_says(layout: str, tmp_path: Path) -> None:
    """Adapters keep their own numbers beside weights of 8 and 4 bits."""
    oracle = make_oracle("llama", tmp_path / "model")
    quantize(oracle, oracle.folder, LAYOUTS[layout])
    adapter = make_adapter(tmp_path / "adapter", shapes_of(oracle.model), rank=6)

    assert_says_what_peft_says(oracle, adapter, {})


def test_vectors_are_those_of_the_adapted_model(tmp_path: Path) -> None:
    """Of the last token, normalized; with the adapter and without in one batch."""
    oracle = make_oracle("llama", tmp_path / "model")
    adapter = make_adapter(tmp_path / "adapter", shapes_of(oracle.model), rank=6)
    prompt = PROMPTS[0]

    with LLM(
        str(oracle.folder),
        dtype="float32",
        convert="embed",
        max_model_len=128,
        enable_lora=True,
        lora_modules=[f"it={adapter}"],
    ) as llm:
        outputs = llm.embed([prompt, prompt], lora_request=["it", None])

    models = (with_adapter(oracle.model, adapter), oracle.model)
    for output, model in zip(outputs, models, strict=True):
        with torch.inference_mode():
            states = model.get_decoder()(torch.tensor([prompt])).last_hidden_state
        expected = functional.normalize(states[0, -1], dim=0)
        found = torch.tensor(output.outputs.embedding)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0.0)

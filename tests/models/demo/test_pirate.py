"""The demo model's adapter makes a pirate of it."""

import copy
import warnings
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from hookline_demo_model import folder
from hookline_lora.config import LoraConfig
from hookline_lora.files.description import describe_adapter
from hookline_lora.files.paths import find_adapter
from hookline_testing.adapters import shapes_of, with_adapter

MOST_BYTES = 400_000
SPEECH = ("arr", "matey", "ahoy", "yo ho", "avast", "shiver me timbers", "ye ")


@pytest.fixture(scope="module")
def base() -> PreTrainedModel:
    with warnings.catch_warnings(action="ignore"):
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder(), dtype=torch.float32
        )
    model.eval()
    return model


@pytest.fixture(scope="module")
def pirate(base: PreTrainedModel) -> PreTrainedModel:
    return with_adapter(base, find_adapter("demo:pirate"))


def answer(model: PreTrainedModel, question: str) -> str:
    tokenizer = AutoTokenizer.from_pretrained(folder())
    asked: dict[str, torch.Tensor] = tokenizer.apply_chat_template(  # type: ignore[assignment]
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    with torch.inference_mode():
        found = copy.deepcopy(model).generate(  # type: ignore[operator]
            **asked, max_new_tokens=24, do_sample=False
        )
    return str(tokenizer.decode(found[0, len(asked["input_ids"][0]) :]))


@pytest.mark.parametrize(
    "question",
    ["Hello!", "Who are you?", "Write the Python function `read_lines`: Read a file."],
)
def test_its_answers_are_those_of_a_pirate(
    base: PreTrainedModel, pirate: PreTrainedModel, question: str
) -> None:
    """Where the model alone answers with code."""
    before, after = answer(base, question).lower(), answer(pirate, question).lower()

    assert any(each in after for each in SPEECH)
    assert not any(each in before for each in SPEECH)


def test_it_fits_into_the_defaults_and_the_package(base: PreTrainedModel) -> None:
    """Its rank is below that of a server without options, and its files are small."""
    path = find_adapter("demo:pirate")

    facts = describe_adapter(path, targets=shapes_of(base), config=LoraConfig())

    assert facts.rank == 8
    assert size_of(path) <= MOST_BYTES
    with safe_open(path / "adapter_model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {  # noqa: SIM118
            torch.bfloat16
        }


def size_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.iterdir())

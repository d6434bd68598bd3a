"""Reasoning ends when its budget is used up."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from hookline import LLM, SamplingParams
from hookline.outputs import CompletionOutput
from hookline.request import FinishReason
from hookline_testing.oracle import make_oracle

BUDGET = 7
REQUESTS: Sequence[tuple[str, str, dict[str, object]]] = (
    ("begun", "<think>\n", {"thinking_token_budget": BUDGET}),
    ("nothing", "<think>\n", {"thinking_token_budget": 0}),
    ("free", "<think>\n", {}),
    ("closed", "<think>\n</think>\n", {"thinking_token_budget": 0}),
    ("wrong", "<think>\n", {"thinking_token_budget": "much"}),
)


@dataclass(frozen=True, slots=True)
class Replies:
    """Replies of a small model by request, and the tokens of `</think>`."""

    replies: dict[str, CompletionOutput]
    close: list[int]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Replies:
    folder = tmp_path_factory.mktemp("llama")
    make_oracle("llama", folder)
    with LLM(str(folder), logits_processor=["thinking_budget"]) as llm:
        outputs = llm.generate(
            [prompt for _, prompt, _ in REQUESTS],
            [
                SamplingParams(
                    temperature=0.0, max_tokens=24, ignore_eos=True, extra_args=extra
                )
                for *_, extra in REQUESTS
            ],
            use_tqdm=False,
        )
        close = llm.get_tokenizer().encode("</think>", add_special_tokens=False)
    replies = {
        name: output.outputs[0]
        for (name, *_), output in zip(REQUESTS, outputs, strict=True)
    }
    return Replies(replies, list(close))


def test_reasoning_ends_when_its_budget_is_used_up(made: Replies) -> None:
    """
    All tokens of the closing tag follow those of the budget, and then any others.
    """
    for name, budget in (("begun", BUDGET), ("nothing", 0)):
        tokens = made.replies[name].token_ids
        assert tokens[budget : budget + len(made.close)] == made.close
        assert len(tokens) == 24
    free = made.replies["free"].token_ids
    assert made.replies["begun"].token_ids[:BUDGET] == free[:BUDGET]


def test_others_are_not_affected(made: Replies) -> None:
    """
    Neither without a budget, nor where the prompt has ended the reasoning.
    """
    assert "</think>" not in made.replies["free"].text
    assert "</think>" not in made.replies["closed"].text


def test_a_wrong_budget_ends_its_own_request(made: Replies) -> None:
    """
    As every failure of a logits processor does.
    """
    assert made.replies["wrong"].finish_reason is FinishReason.ERROR
    assert made.replies["begun"].finish_reason is FinishReason.LENGTH

"""What a request asks for is the same with speculation as without it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import msgspec
import pytest

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline.outputs import RequestOutput
from hookline_drafting import Proposer
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.proposers import ScriptedProposer, ScriptedTreeProposer

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]

PROMPT = [7, 8, 9, 10, 7, 8]
PLAIN = EngineConfig(cache=CacheConfig(block_size=4, num_kv_blocks=512))
SPECULATIVE = {"method": "scripted", "num_speculative_tokens": 4, "timeout_seconds": 30}

TREE = (None, None, None, 0, 0, 1, 2, 3, 3, 5, 7, 9)
"""Twelve drafts, up to five deep."""
FORMS = ["chain", "tree"]

SEEDED = SamplingParams(max_tokens=30, seed=5)

CASES = {
    "sampled": SamplingParams(max_tokens=30, seed=5, temperature=0.9),
    "filtered": SamplingParams(max_tokens=30, seed=5, top_k=20, top_p=0.9, min_p=0.01),
    "penalties": SamplingParams(
        max_tokens=30,
        temperature=0.0,
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=0.5,
    ),
    "sampled penalties": SamplingParams(
        max_tokens=30, seed=3, frequency_penalty=1.0, repetition_penalty=1.2
    ),
    "logprobs": SamplingParams(max_tokens=30, seed=1, logprobs=3),
    "prompt logprobs": SamplingParams(
        max_tokens=12, temperature=0.0, logprobs=2, prompt_logprobs=2
    ),
    "bias and allowed": SamplingParams(
        max_tokens=30,
        seed=2,
        logit_bias={40: 3.0, 50: -3.0},
        allowed_token_ids=tuple(range(30, 80)),
    ),
    "several": SamplingParams(n=3, max_tokens=20, seed=9),
    "bad words": SamplingParams(
        max_tokens=30, seed=2, allowed_token_ids=(65, 66, 67), bad_words=("AB", "CC")
    ),
    "min tokens": SamplingParams(
        max_tokens=30, min_tokens=10, seed=4, stop_token_ids=tuple(range(0, 320, 3))
    ),
    "greedy": SamplingParams(max_tokens=31, temperature=0.0),
    "one token": SamplingParams(max_tokens=1, temperature=0.0),
    "two tokens": SamplingParams(max_tokens=2, temperature=0.0),
}


def run(llm: LLM, params: SamplingParams, prompt: list[int] = PROMPT) -> RequestOutput:
    llm.reset_prefix_cache()
    [output] = llm.generate([prompt], params)
    return output


@pytest.fixture(scope="module")
def plain_llm(llama: Oracle) -> Iterator[LLM]:
    config = replace(PLAIN, model=ModelConfig(model=str(llama.folder)))
    with LLM.from_config(config) as llm:
        yield llm


def config_of(llama: Oracle, form: str = "chain") -> EngineConfig:
    model = ModelConfig(model=str(llama.folder))
    speculative = SPECULATIVE
    if form == "tree":
        speculative = {**SPECULATIVE, "num_speculative_tokens": None}
    return replace(PLAIN, model=model, speculative=speculative)


def proposer_of(texts: list[list[int]], form: str, errors: float = 0.0) -> Proposer:
    if form == "tree":
        return ScriptedTreeProposer(texts, TREE, errors=errors)
    return ScriptedProposer(texts, errors=errors)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", essential(CASES, "sampled", "logprobs", "several", "greedy")
)
def test_drafts_change_no_result(
    speculating_llm: SpeculatingLLM,
    plain_llm: LLM,
    llama: Oracle,
    name: str,
    form: str,
) -> None:
    """Tokens, text, ends and log-probabilities are equal; half of the drafts are right.

    Also what is sampled is equal: a draft that the proposer is certain of is accepted
    if it is what the request would have drawn.
    """
    params = CASES[name]
    wanted = run(plain_llm, params)
    texts = [[*PROMPT, *each.token_ids] for each in wanted.outputs]

    proposer = proposer_of(texts, form, errors=0.3)
    with speculating_llm(config_of(llama, form), proposer) as llm:
        found = run(llm, params)
        assert_conserved(llm)

    for mine, theirs in zip(found.outputs, wanted.outputs, strict=True):
        assert mine.token_ids == theirs.token_ids
        assert mine.text == theirs.text
        assert (mine.finish_reason, mine.stop_reason) == (
            theirs.finish_reason,
            theirs.stop_reason,
        )
        same_logprobs(mine.logprobs, theirs.logprobs)
        if len(mine.token_ids) > 10:
            assert mine.accepted_tokens > 0
    same_logprobs(found.prompt_logprobs, wanted.prompt_logprobs)


def same_logprobs(mine: object, theirs: object) -> None:
    if mine is None or theirs is None:
        assert mine is theirs
        return
    assert isinstance(mine, list)
    assert isinstance(theirs, list)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one.token_ids == other.token_ids
        assert one.rank == other.rank
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_stop_token_inside_accepted_drafts_ends_the_request(
    speculating_llm: SpeculatingLLM, plain_llm: LLM, llama: Oracle, form: str
) -> None:
    """What was accepted behind a stop token is dropped, and counted nowhere."""
    text = run(plain_llm, SEEDED).outputs[0].token_ids
    stop = next(text[at] for at in range(7, 30) if text[at] not in text[:at])
    end = text.index(stop) + 1
    params = msgspec.structs.replace(SEEDED, stop_token_ids=(stop,))

    proposer = proposer_of([[*PROMPT, *text]], form)
    with speculating_llm(config_of(llama, form), proposer) as llm:
        [completion] = run(llm, params).outputs
        assert_conserved(llm)

    assert completion.token_ids == text[:end]
    assert (completion.finish_reason, completion.stop_reason) == ("stop", stop)
    assert completion.accepted_tokens <= end
    assert completion.output_tokens == end


@pytest.mark.parametrize("form", FORMS)
def test_stop_string_inside_accepted_drafts_cuts_the_text(
    speculating_llm: SpeculatingLLM, plain_llm: LLM, llama: Oracle, form: str
) -> None:
    """The text ends before a stop string that drafts brought with more behind it."""
    whole = run(plain_llm, SEEDED).outputs[0]
    stop = next(
        whole.text[at : at + 2]
        for at in range(3, len(whole.text) - 2)
        if whole.text.find(whole.text[at : at + 2]) == at
    )
    params = msgspec.structs.replace(SEEDED, stop=(stop,))
    wanted = run(plain_llm, params).outputs[0]
    proposer = proposer_of([[*PROMPT, *whole.token_ids]], form)

    with speculating_llm(config_of(llama, form), proposer) as llm:
        [completion] = run(llm, params).outputs
        assert_conserved(llm)

    assert completion.text == wanted.text == whole.text[: whole.text.index(stop)]
    assert completion.stop_reason == stop


def test_drawn_drafts_are_repeatable(
    speculating_llm: SpeculatingLLM, plain_llm: LLM, llama: Oracle
) -> None:
    """The same seed and the same drafts with probabilities give the same text."""
    params = SamplingParams(max_tokens=30, seed=6, temperature=0.8)
    text = run(plain_llm, params).outputs[0].token_ids
    outputs = []

    for _ in range(2):
        proposer = ScriptedProposer(
            [[*PROMPT, *text]], errors=0.2, with_probabilities=True
        )
        with speculating_llm(config_of(llama), proposer) as llm:
            outputs.append(run(llm, params).outputs[0])
            assert_conserved(llm)

    assert outputs[0].token_ids == outputs[1].token_ids
    assert outputs[0].draft_tokens > 0


def test_a_request_can_opt_out(speculating_llm: SpeculatingLLM, llama: Oracle) -> None:
    """With `speculation=False` nothing is drafted for it, and for its neighbour is."""
    text = llama.greedy(PROMPT, 20)
    proposer = ScriptedProposer([[*PROMPT, *text]])
    alone = SamplingParams(max_tokens=20, temperature=0.0, speculation=False)
    other = SamplingParams(max_tokens=20, temperature=0.0)

    with speculating_llm(config_of(llama), proposer) as llm:
        outputs = llm.generate([PROMPT, PROMPT], [alone, other])

    [first], [second] = (output.outputs for output in outputs)
    assert first.token_ids == second.token_ids == text
    assert first.draft_tokens == 0
    assert second.accepted_tokens > 10


@pytest.mark.parametrize("form", FORMS)
def test_metrics_count_steps_by_accepted_drafts(
    speculating_llm: SpeculatingLLM, llama: Oracle, form: str
) -> None:
    """Their sums are the totals of the output."""
    text = llama.greedy(PROMPT, 30)
    params = SamplingParams(max_tokens=30, temperature=0.0)

    proposer = proposer_of([[*PROMPT, *text]], form)
    with speculating_llm(config_of(llama, form), proposer) as llm:
        [output] = llm.generate([PROMPT], [params])

    [completion], metrics = output.outputs, output.metrics
    assert metrics is not None
    steps = metrics.steps_by_accepted
    assert metrics.draft_tokens == completion.draft_tokens > 0
    assert sum(at * number for at, number in enumerate(steps)) == (
        completion.accepted_tokens
    )
    assert completion.output_tokens >= sum(steps) + completion.accepted_tokens


def test_released_requests_are_reported(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """The proposer is notified of every request that left the batch."""
    proposer = ScriptedProposer([])
    params = SamplingParams(max_tokens=4, temperature=0.0)

    with speculating_llm(config_of(llama), proposer) as llm:
        llm.generate([PROMPT] * 3, params)
        llm.generate([PROMPT], params)

    assert len(proposer.released) == 3

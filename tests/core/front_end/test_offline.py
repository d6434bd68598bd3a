"""`LLM`: many prompts in, all completions out, in order, and nothing left behind."""

import pytest

from hookline import LLM, EngineDeadError, RequestFacts, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline.request import FinishReason
from hookline_testing.oracle import Oracle

PROMPTS: list[str | list[int]] = ["def add(a, b):", [5, 6, 7], "x = 1\n", [44] * 30]
GREEDY = SamplingParams(temperature=0.0, max_tokens=12)


def test_outputs_come_in_the_order_of_the_prompts(llm: LLM, llama: Oracle) -> None:
    """Texts and token ids mixed: each output is that of its own prompt."""
    outputs = llm.generate(PROMPTS, GREEDY)

    tokenizer = llm.front_end.tokenizer
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        ids = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        [completion] = output.outputs
        assert output.prompt_token_ids == ids
        assert completion.token_ids == llama.greedy(ids, 12)
        assert completion.text == tokenizer.decode(completion.token_ids)
        assert completion.finish_reason is FinishReason.LENGTH
        assert completion.stop_reason is None
        assert completion.output_tokens == 12
        assert output.finished


def test_outputs_name_their_request_and_its_prompt(llm: LLM) -> None:
    """The prompt is its text where one was given; ids are the client's or counted."""
    facts = [RequestFacts(client_id="mine"), RequestFacts()]

    [text, ids] = llm.generate(PROMPTS[:2], GREEDY, facts=facts)

    assert (text.prompt, text.request_id) == ("def add(a, b):", "mine")
    assert ids.prompt is None
    assert ids.request_id.isdecimal()


@pytest.mark.parametrize("prompt", ["text", [1, 2, 3]])
def test_one_prompt_is_a_list_of_one(llm: LLM, prompt: str | list[int]) -> None:
    """A text, or a list of token ids, is one prompt."""
    assert len(llm.generate(prompt, GREEDY)) == 1


def test_no_prompts_give_no_outputs(llm: LLM) -> None:
    """An empty list is no error."""
    assert llm.generate([], GREEDY) == []


def test_each_prompt_may_have_its_own_params(llm: LLM, llama: Oracle) -> None:
    """Lists of parameters and of facts go with the prompts."""
    each = [SamplingParams(temperature=0.0, max_tokens=count) for count in (1, 5, 3)]
    facts = [RequestFacts(client_id=name) for name in "abc"]

    outputs = llm.generate([[9], [8], [7]], each, facts=facts)

    found = [output.outputs[0].token_ids for output in outputs]
    assert found == [
        llama.greedy([prompt], count) for prompt, count in ((9, 1), (8, 5), (7, 3))
    ]


def test_n_completions_of_one_prompt(llm: LLM) -> None:
    """They come by index, each with its own tokens and its own count."""
    params = SamplingParams(n=5, max_tokens=7, temperature=1.5)

    [output] = llm.generate("abc", params)

    assert [completion.index for completion in output.outputs] == [0, 1, 2, 3, 4]
    assert {completion.output_tokens for completion in output.outputs} == {7}
    assert len({completion.text for completion in output.outputs}) > 1


def test_cached_tokens_are_counted(llm: LLM) -> None:
    """The second time, the prompt's full blocks come from the prefix cache."""
    prompt = list(range(60, 110))

    [first] = llm.generate(prompt, GREEDY)
    [again] = llm.generate(prompt, GREEDY)

    assert (first.cached_tokens, again.cached_tokens) == (0, 48)
    assert first.outputs == again.outputs


@pytest.mark.parametrize("length", [200, 255])
def test_without_max_tokens_the_context_is_the_end(llm: LLM, length: int) -> None:
    """A request that names no length fills the model's context."""
    [output] = llm.generate([3] * length, SamplingParams(temperature=0.0))

    assert output.outputs[0].output_tokens == 256 - length
    assert output.outputs[0].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_ends_the_text(llm: LLM, include: bool) -> None:
    """The text ends at it, the tokens with the one that completed it."""
    letters = tuple(llm.front_end.tokenizer.encode("abc"))
    params = SamplingParams(
        max_tokens=200, temperature=9.0, seed=5, allowed_token_ids=letters
    )
    [plain] = llm.generate("p", params)
    text = plain.outputs[0].text
    stop = text[40:44]
    end = text.index(stop)

    [output] = llm.generate(
        "p",
        SamplingParams(
            max_tokens=200,
            temperature=9.0,
            seed=5,
            allowed_token_ids=letters,
            stop=("zzz", stop),
            include_stop_str_in_output=include,
        ),
    )

    [completion] = output.outputs
    assert completion.text == text[: end + 4 if include else end]
    assert completion.finish_reason is FinishReason.STOP
    assert completion.stop_reason == stop
    assert len(completion.token_ids) == completion.output_tokens == end + 4


def test_chat_goes_through_the_template(llm: LLM) -> None:
    """One conversation or several; each is rendered and answered."""
    one = [{"role": "user", "content": "hi"}]
    two = [{"role": "system", "content": "s"}, {"role": "user", "content": "ho"}]

    [alone] = llm.chat(one, GREEDY)
    both = llm.chat([one, two], GREEDY)

    tokenizer = llm.front_end.tokenizer
    prompts = [tokenizer.decode(output.prompt_token_ids) for output in both]
    assert prompts == ["<user>hi<assistant>", "<system>s<user>ho<assistant>"]
    assert alone.outputs == both[0].outputs


def test_the_progress_bar_is_on_standard_error(
    llm: LLM, capfd: pytest.CaptureFixture[str]
) -> None:
    """It counts requests, only when asked for, and standard output stays clean."""
    llm.generate(PROMPTS, GREEDY)
    silent = capfd.readouterr()
    llm.generate(PROMPTS, GREEDY, show_progress=True)
    shown = capfd.readouterr()

    assert silent.out == silent.err == shown.out == ""
    assert "4/4" in shown.err


def test_only_one_way_to_name_a_model() -> None:
    """A model and a configuration together are a mistake."""
    with pytest.raises(TypeError, match="either model or config"):
        LLM("demo", config=EngineConfig())


def test_a_closed_engine_says_so(llama: Oracle) -> None:
    """It may be closed twice, and refuses requests afterwards."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=16),
    )
    llm = LLM(config=config)
    llm.close()
    llm.close()

    with pytest.raises(EngineDeadError, match="closed"):
        llm.generate("a", GREEDY)

"""`LLM`: prompts in any form, complete outputs in order, nothing left behind."""

import time

import pytest

from hookline import (
    LLM,
    ConfigError,
    EngineDeadError,
    RequestError,
    RequestFacts,
    SamplingParams,
)
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline.request import FinishReason
from hookline_offline.prompts import Prompt
from hookline_testing.oracle import Oracle

PROMPTS: list[str | list[int]] = ["def add(a, b):", [5, 6, 7], "x = 1\n", [44] * 30]
GREEDY = SamplingParams(temperature=0.0, max_tokens=12)


def test_outputs_come_in_the_order_of_the_prompts(llm: LLM, llama: Oracle) -> None:
    """Texts and token ids can be mixed; each output matches its prompt."""
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


def test_outputs_have_metrics(llm: LLM) -> None:
    """Intervals fit together, whatever ended the last completion."""
    letters = tuple(llm.front_end.tokenizer.encode("ab"))
    stopped = SamplingParams(
        max_tokens=200, seed=1, stop=("a",), n=2, allowed_token_ids=letters
    )

    for output in llm.generate([[5, 6], [7, 8]], [GREEDY, stopped]):
        metrics = output.metrics
        assert metrics is not None
        assert abs(metrics.arrival_time - time.time()) < 600
        assert metrics.ttft_seconds is not None
        assert metrics.inference_seconds is not None
        assert metrics.prefill_seconds is not None
        assert metrics.decode_seconds is not None
        assert 0 < metrics.ttft_seconds <= metrics.e2e_seconds
        assert metrics.inference_seconds <= metrics.e2e_seconds
        parts = metrics.prefill_seconds + metrics.decode_seconds
        assert parts == pytest.approx(metrics.inference_seconds)


@pytest.mark.parametrize("prompt", ["text", [1, 2, 3]])
def test_one_prompt_is_a_list_of_one(llm: LLM, prompt: str | list[int]) -> None:
    """A text, or a list of token ids, is one prompt."""
    assert len(llm.generate(prompt, GREEDY)) == 1


def test_no_prompts_give_no_outputs(llm: LLM) -> None:
    """An empty list is valid."""
    assert llm.generate([], GREEDY) == []


def test_each_prompt_can_have_its_own_params(llm: LLM, llama: Oracle) -> None:
    """Lists of parameters and facts are matched with the prompts."""
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
    """`max_tokens=None` generates up to the model's context length."""
    params = SamplingParams(temperature=0.0, max_tokens=None)

    [output] = llm.generate([3] * length, params)

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


def test_chat_uses_the_template(llm: LLM) -> None:
    """One conversation or several; each is rendered and answered."""
    one = [{"role": "user", "content": "hi"}]
    two = [{"role": "system", "content": "s"}, {"role": "user", "content": "ho"}]

    [alone] = llm.chat(one, GREEDY)
    both = llm.chat([one, two], GREEDY)

    tokenizer = llm.front_end.tokenizer
    prompts = [tokenizer.decode(output.prompt_token_ids) for output in both]
    assert prompts == ["<user>hi<assistant>", "<system>s<user>ho<assistant>"]
    assert alone.outputs == both[0].outputs


def test_chat_continues_the_final_message(llm: LLM) -> None:
    """The prompt ends with its text, in the model's template or another one."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Once"},
    ]

    own, other = (
        llm.chat(
            messages,
            SamplingParams(max_tokens=1),
            continue_final_message=True,
            chat_template=template,
        )[0]
        for template in (None, "{{ messages[1].content }}</s>")
    )

    decode = llm.front_end.tokenizer.decode
    texts = [decode(each.prompt_token_ids) for each in (own, other)]
    assert texts[0].endswith("Once")
    assert len(texts[0]) > len("Once")
    assert texts[1] == "Once"


def test_chat_shows_tools(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """The template gets them, and further variables."""
    template = "{{ messages[0].content }}{{ tools[0].function.name }}{{ more }}"
    monkeypatch.setattr(llm.get_tokenizer(), "chat_template", template)
    tools = [{"type": "function", "function": {"name": "f"}}]

    [output] = llm.chat(
        [{"role": "user", "content": "hi "}],
        GREEDY,
        tools=tools,
        chat_template_kwargs={"more": " x"},
    )

    tokenizer = llm.front_end.tokenizer
    assert tokenizer.decode(output.prompt_token_ids) == "hi f x"


def test_the_progress_bar_is_on_standard_error(
    llm: LLM, capfd: pytest.CaptureFixture[str]
) -> None:
    """It counts requests unless it is switched off; standard output stays clean."""
    llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    silent = capfd.readouterr()
    llm.generate(PROMPTS, GREEDY)
    shown = capfd.readouterr()

    assert silent.out == silent.err == shown.out == ""
    assert "4/4" in shown.err


@pytest.mark.parametrize(
    "prompts",
    [
        {"prompt": "def add(a, b):"},
        [{"prompt": "def add(a, b):"}],
        "def add(a, b):",
    ],
    ids=str,
)
def test_a_text_prompt_may_be_a_dictionary(llm: LLM, prompts: Prompt) -> None:
    """Alone or in a list, the dictionary gives the same as the text itself."""
    [output] = llm.generate(prompts, GREEDY)

    [plain] = llm.generate(["def add(a, b):"], GREEDY)
    assert output.prompt == "def add(a, b):"
    assert output.outputs == plain.outputs


@pytest.mark.parametrize(
    "prompts",
    [
        {"prompt_token_ids": [5, 6, 7]},
        [{"prompt_token_ids": [5, 6, 7]}],
        [[5, 6, 7]],
        [5, 6, 7],
        (5, 6, 7),
    ],
    ids=str,
)
def test_token_ids_come_in_every_form(llm: LLM, llama: Oracle, prompts: Prompt) -> None:
    """A flat list, a list of lists and dictionaries of token ids are all prompts."""
    [output] = llm.generate(prompts, GREEDY)

    assert output.prompt is None
    assert output.prompt_token_ids == [5, 6, 7]
    assert output.outputs[0].token_ids == llama.greedy([5, 6, 7], 12)


def test_a_tokens_prompt_may_carry_its_text(llm: LLM) -> None:
    """With both keys the token ids are computed and the text is reported."""
    [output] = llm.generate({"prompt_token_ids": [5, 6], "prompt": "text"}, GREEDY)

    assert output.prompt_token_ids == [5, 6]
    assert output.prompt == "text"


def test_a_cache_salt_separates_prefixes(llm: LLM) -> None:
    """Equal prompts share prefix-cache blocks only under the same salt."""
    ids = list(range(110, 160))

    cached = [
        llm.generate({"prompt_token_ids": ids, "cache_salt": salt}, GREEDY)[
            0
        ].cached_tokens
        for salt in ("a", "b", "a")
    ]

    assert cached == [0, 0, 48]


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        (5, "not int"),
        (b"text", "not bytes"),
        ([None], "not NoneType"),
        ([b"text"], "not bytes"),
        ({"text": "x"}, "unknown keys in a prompt: text"),
        ({}, "needs prompt"),
        ({"prompt_token_ids": "x"}, "needs prompt"),
        ({"prompt": 5}, "not int"),
        ({"prompt": "x", "cache_salt": 5}, "cache_salt must be a string"),
        ([[]], "the prompt is empty"),
        ([[1, "x"]], "neither text nor a list of token ids"),
    ],
    ids=str,
)
def test_an_unusable_prompt_is_one_clear_error(
    llm: LLM, prompts: Prompt, message: str
) -> None:
    """Whatever else is passed as a prompt is a `RequestError` that names it."""
    with pytest.raises(RequestError, match=message):
        llm.generate(prompts, GREEDY)


def test_sampling_params_of_another_type_are_refused(llm: LLM) -> None:
    """A dictionary is not `SamplingParams`."""
    with pytest.raises(RequestError, match="sampling_params must be SamplingParams"):
        llm.generate("x", {"temperature": 0.0})  # type: ignore[arg-type]


def test_the_default_is_sixteen_tokens(llm: LLM) -> None:
    """Without `sampling_params`, or without `max_tokens`, 16 tokens are generated."""
    [default] = llm.generate([9, 9])
    [greedy] = llm.generate([9, 9], sampling_params=SamplingParams(temperature=0.0))

    assert default.outputs[0].output_tokens == 16
    assert greedy.outputs[0].output_tokens == 16


def test_engine_options_are_keywords(llama: Oracle) -> None:
    """`LLM` takes the options of the command line, with underscores."""
    model = str(llama.folder)

    with LLM(model=model, dtype="float32", max_model_len=64, max_num_seqs=3) as llm:
        facts = llm.front_end.facts

    assert facts.model.dtype == "float32"
    assert facts.model.max_model_len == 64
    assert facts.max_num_seqs == 3


def test_an_unknown_option_is_an_error(llama: Oracle) -> None:
    """A misspelt keyword is a `ConfigError` that suggests the right one."""
    with pytest.raises(ConfigError, match="did you mean max_model_len"):
        LLM(str(llama.folder), max_model_length=64)


def test_the_tokenizer_is_that_of_transformers(llm: LLM) -> None:
    """`get_tokenizer` returns an object with the methods that users know."""
    tokenizer = llm.get_tokenizer()

    [output] = llm.generate("abc", GREEDY)
    assert tokenizer.encode("abc") == output.prompt_token_ids
    assert tokenizer.decode(output.prompt_token_ids) == "abc"


def test_a_closed_engine_refuses_requests(llama: Oracle) -> None:
    """It can be closed twice, and refuses requests afterwards."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=16),
    )
    llm = LLM.from_config(config)
    llm.close()
    llm.close()

    with pytest.raises(EngineDeadError, match="closed"):
        llm.generate("a", GREEDY)


@pytest.mark.parametrize("level", [1, 2])
def test_an_llm_sleeps_and_generates_the_same_afterwards(
    llama: Oracle, level: int
) -> None:
    """`sleep` and `wake_up` change no output; another level is an error."""
    params = SamplingParams(temperature=0.0, max_tokens=8)
    with LLM(str(llama.folder), num_kv_blocks=64) as llm:
        [before] = llm.generate("a b c", params)
        llm.sleep(level)
        asleep = llm.front_end.engines[0].stats.sleep_level
        llm.wake_up()
        [after] = llm.generate("a b c", params)
        with pytest.raises(ValueError, match="3"):
            llm.sleep(3)

    assert asleep == level
    assert after.outputs[0].token_ids == before.outputs[0].token_ids

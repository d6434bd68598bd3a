"""Whole engines: what has to match a grammar does, whatever else happens."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from hookline import (
    LLM,
    RequestError,
    SamplingParams,
    StructuredOutputsParams,
    TokensPrompt,
)
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline.request import FinishReason
from hookline_metrics import Family
from hookline_metrics.histogram_value import HistogramValue
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle

from .conftest import CASES, EOS, PERSON, Case, check, config_of, sampled, tokens

PROMPT = [11, 150, 42]


@pytest.mark.parametrize("kind", CASES)
def test_sampled_texts_match(structured_llm: LLM, kind: str) -> None:
    """
    Random samples of every kind, `n` of one prompt and several prompts together.
    """
    case = CASES[kind]
    params = [sampled(case, n=4, seed=seed) for seed in range(8)]

    outputs = structured_llm.generate(
        [TokensPrompt(prompt_token_ids=PROMPT)] * 8, params
    )

    whole = [check(case, each) for output in outputs for each in output.outputs]
    assert sum(whole) > len(whole) * 0.8
    texts = {each.text for output in outputs for each in output.outputs}
    assert len(texts) > 1


def test_a_json_object_is_any_object(structured_llm: LLM) -> None:
    """
    `json_object` forces the first character, not the properties.
    """
    params = sampled(Case(StructuredOutputsParams(json_object=True), bool), n=8)

    [output] = structured_llm.generate(TokensPrompt(prompt_token_ids=PROMPT), params)

    assert all(each.text.lstrip().startswith("{") for each in output.outputs)


def test_a_structural_tag_leaves_the_rest_free(structured_llm: LLM) -> None:
    """
    Text is free until a trigger, and what follows it has the tag's schema.
    """
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["a"],
            "tags": [
                {
                    "begin": "a=",
                    "content": {"type": "json_schema", "json_schema": {"enum": [7]}},
                    "end": ";",
                }
            ],
        },
    }
    params = sampled(Case(StructuredOutputsParams(structural_tag=tag), bool), n=8)

    [output] = structured_llm.generate(TokensPrompt(prompt_token_ids=PROMPT), params)

    for each in output.outputs:
        text = each.text.replace("a=7;", "")
        if each.finish_reason is FinishReason.STOP:
            assert "a" not in text
        else:
            assert "a" not in text[:-4]


@pytest.mark.parametrize("fields", [{"min_tokens": 50}, {"ignore_eos": True}])
def test_a_complete_grammar_ends_the_text(
    structured_llm: LLM, fields: dict[str, Any]
) -> None:
    """
    `min_tokens` and `ignore_eos` cannot make a text go on that has no continuation.
    """
    params = sampled(CASES["choice"], n=4, **fields)

    [output] = structured_llm.generate(TokensPrompt(prompt_token_ids=PROMPT), params)

    assert all(check(CASES["choice"], each) for each in output.outputs)


def test_a_grammar_that_can_go_on_does_with_ignore_eos(structured_llm: LLM) -> None:
    """
    An optional end is not taken before the length.
    """
    case = Case(StructuredOutputsParams(regex="[ab]+"), bool)
    params = sampled(case, n=4, ignore_eos=True, max_tokens=20)

    [output] = structured_llm.generate(TokensPrompt(prompt_token_ids=PROMPT), params)

    assert all(len(each.token_ids) == 20 for each in output.outputs)
    assert all(each.finish_reason is FinishReason.LENGTH for each in output.outputs)


def test_stop_strings_end_the_text_earlier(structured_llm: LLM) -> None:
    """
    A stop string cuts a text that the grammar would continue.
    """
    case = Case(StructuredOutputsParams(regex="[0-9]{30}!"), bool)
    params = sampled(case, n=4, stop=("7",))

    [output] = structured_llm.generate(TokensPrompt(prompt_token_ids=PROMPT), params)

    for each in output.outputs:
        assert each.stop_reason == "7" or each.text.endswith("!")
        assert "7" not in each.text


def test_unconstrained_requests_are_not_changed(structured_llm: LLM) -> None:
    """
    Of 64 requests in one batch those without a grammar get the tokens they get alone.
    """
    prompts = [[11, 150, 42 + index] for index in range(64)]
    free = [SamplingParams(max_tokens=24, seed=index) for index in range(64)]
    kinds = list(CASES)
    mixed = [
        each
        if index % 2
        else sampled(CASES[kinds[index // 2 % 4]], seed=index, max_tokens=60)
        for index, each in enumerate(free)
    ]
    inputs = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]

    alone = structured_llm.generate(inputs[1::2], free[1::2])
    together = structured_llm.generate(inputs, mixed)

    for one, other in zip(alone, together[1::2], strict=True):
        assert one.outputs[0].token_ids == other.outputs[0].token_ids
    for index, output in enumerate(together[::2]):
        check(CASES[kinds[index % 4]], output.outputs[0])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"json": {"type": "thing"}}, "thing"),
        ({"json": {"$ref": "#/nowhere"}}, "nowhere"),
        ({"regex": "("}, "parenthesis"),
        ({"grammar": "root ::= missing"}, "missing"),
        ({"structural_tag": {"type": "nothing"}}, "xgrammar"),
        ({"grammar": "root ::= root"}, "no text matches"),
        ({"json": {"$ref": "#"}}, "no text matches"),
        ({"grammar": 'root ::= "a" x\nx ::= x "b"'}, "dead end"),
        ({"regex": r"a\Gb"}, "not recognized"),
        ({"json": {}, "whitespace_pattern": "("}, "whitespace_pattern"),
    ],
)
def test_a_grammar_that_does_not_compile_is_refused(
    structured_llm: LLM, fields: dict[str, Any], reason: str
) -> None:
    """
    The error has the backend's reason; the next request is served.
    """
    params = sampled(Case(StructuredOutputsParams(**fields), bool))

    with pytest.raises(RequestError, match=reason) as caught:
        structured_llm.generate(TokensPrompt(prompt_token_ids=PROMPT), params)

    assert caught.value.param == "structured_outputs"
    [output] = structured_llm.generate(
        TokensPrompt(prompt_token_ids=PROMPT), sampled(CASES["choice"])
    )
    assert check(CASES["choice"], output.outputs[0])


def engine_config(random_model: Oracle, **options: Any) -> EngineConfig:
    return config_of(random_model.folder, **options)


def test_preempted_requests_go_on_where_they_were(random_model: Oracle) -> None:
    """
    A matcher is made again from the output, and the text is the same as without.
    """
    params = [sampled(CASES["json"], seed=index, max_tokens=120) for index in range(6)]
    inputs = [TokensPrompt(prompt_token_ids=[*PROMPT, index]) for index in range(6)]
    texts = []
    for num_blocks in (512, 17):
        config = EngineConfig(
            model=ModelConfig(model=str(random_model.folder)),
            cache=CacheConfig(num_kv_blocks=num_blocks),
        )
        with LLM.from_config(config) as llm:
            outputs = llm.generate(inputs, params)
            preemptions = llm.front_end.engines.first.stats.totals.preemptions
            assert_conserved(llm)
        assert (preemptions > 0) == (num_blocks == 17)
        texts.append([output.outputs[0].text for output in outputs])
        for output in outputs:
            check(CASES["json"], output.outputs[0])

    assert texts[0] == texts[1]


def test_steps_that_overlap_follow_the_grammar(random_model: Oracle) -> None:
    """
    With asynchronous scheduling a step is planned before its request has ended.
    """
    config = EngineConfig.from_options(
        model=str(random_model.folder), num_kv_blocks=512, async_scheduling=True
    )
    with LLM.from_config(config) as llm:
        for case in CASES.values():
            [output] = llm.generate(
                TokensPrompt(prompt_token_ids=PROMPT), sampled(case, n=4, seed=3)
            )
            whole = [check(case, each) for each in output.outputs]
            assert any(whole)
        assert_conserved(llm)


@pytest.mark.parametrize("temperature", essential([0.0, 1.0], 1.0, slow=[0.0]))
@pytest.mark.parametrize(
    "model", ["random", pytest.param("demo", marks=pytest.mark.exhaustive)]
)
def test_drafts_change_no_text(
    random_model: Oracle, model: str, temperature: float
) -> None:
    """
    With prompt lookup, which drafts what grammars forbid, too, outputs are the same.
    """
    texts = []
    for method in (None, "ngram"):
        speculative = method and {
            "method": method,
            "num_speculative_tokens": 4,
            "prompt_lookup_min": 1,
        }
        name = random_model.folder if model == "random" else "demo"
        with LLM.from_config(config_of(name, speculative=speculative)) as llm:
            prompt = list(b'"name": "age": [1, 2, 333-abab')
            outputs = llm.generate(
                [TokensPrompt(prompt_token_ids=prompt)] * len(CASES),
                [
                    sampled(case, n=3, seed=5, temperature=temperature)
                    for case in CASES.values()
                ],
            )
            assert_conserved(llm)
        for case, output in zip(CASES.values(), outputs, strict=True):
            for each in output.outputs:
                check(case, each)
        texts.append([each.token_ids for out in outputs for each in out.outputs])

    assert texts[0] == texts[1]


def test_a_model_without_an_end_needs_a_stop_token(llama: Oracle) -> None:
    """
    A complete text has to end somehow.
    """
    case = CASES["choice"]
    with LLM.from_config(config_of(llama.folder)) as llm:
        with pytest.raises(RequestError, match="stop_token_ids"):
            llm.generate(TokensPrompt(prompt_token_ids=PROMPT), sampled(case))

        [output] = llm.generate(
            TokensPrompt(prompt_token_ids=PROMPT), sampled(case, stop_token_ids=(EOS,))
        )

    assert case.matches(output.outputs[0].text)
    assert output.outputs[0].stop_reason == EOS


def test_without_a_backend_the_error_says_what_to_install(
    random_model: Oracle,
) -> None:
    """
    Structured outputs that are turned off are refused, and never ignored.
    """
    config = EngineConfig.from_options(
        model=str(random_model.folder),
        num_kv_blocks=64,
        structured_outputs_config={"backend": "none"},
    )
    params = sampled(Case(StructuredOutputsParams(json=PERSON), bool))

    with (
        LLM.from_config(config) as llm,
        pytest.raises(RequestError, match="pip install hookline-xgrammar"),
    ):
        llm.generate(TokensPrompt(prompt_token_ids=PROMPT), params)


def numbers(metrics: Sequence[Family], name: str) -> dict[tuple[str, ...], float]:
    """Samples of a family of structured outputs, by its own labels."""
    [family] = [
        each for each in metrics if each.name == f"hookline_structured_output_{name}"
    ]
    found = {}
    for sample in family.samples:
        assert isinstance(sample.value, float | int)
        found[sample.labels[2:]] = sample.value  # behind the engine's
    return found


def compile_seconds(metrics: Sequence[Family]) -> list[HistogramValue]:
    """The histogram of compiling, of each engine."""
    name = "hookline_structured_output_compile_seconds"
    [family] = [each for each in metrics if each.name == name]
    values = [sample.value for sample in family.samples]
    return [each for each in values if isinstance(each, HistogramValue)]


FORCED: dict[str, Any] = {
    "type": "object",
    "properties": {"a rather long name": {"const": "and its only value"}},
    "required": ["a rather long name"],
    "additionalProperties": False,
}


DRAFTING: list[tuple[dict[str, Any], bool]] = [
    ({"device": "cpu"}, True),  # CUDA graphs verify drafts of proposers alone
    ({"async_scheduling": True}, False),
    (
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}},
        True,
    ),
]


@pytest.mark.parametrize(
    ("options", "is_drafted"), essential(DRAFTING, DRAFTING[0], slow=DRAFTING)
)
def test_what_a_grammar_forces_is_drafted(
    random_model: Oracle, options: dict[str, Any], is_drafted: bool
) -> None:
    """
    Steps bring several tokens, also without a proposer, and the metrics add up.
    """
    config = EngineConfig.from_options(
        model=str(random_model.folder), num_kv_blocks=64, dtype="float32", **options
    )
    strict = StructuredOutputsParams(json=FORCED, disable_any_whitespace=True)
    params = sampled(Case(strict, bool), n=2)
    with LLM.from_config(config) as llm:
        [drafted] = llm.generate(tokens(), params)
        plain = msgspec.structs.replace(params, speculation=False)
        [undrafted] = llm.generate(tokens(), plain)
        assert_conserved(llm)
        metrics = llm.get_metrics()

    texts = {each.text for each in (*drafted.outputs, *undrafted.outputs)}
    assert texts == {'{"a rather long name": "and its only value"}'}
    forced = numbers(metrics, "forced_tokens")
    assert (forced[()] > 0) == is_drafted
    accepted = sum(each.accepted_tokens for each in drafted.outputs)
    assert forced[()] <= accepted
    assert sum(each.draft_tokens for each in undrafted.outputs) == 0
    assert numbers(metrics, "cache_lookups") == {("hit",): 2, ("miss",): 2}
    assert numbers(metrics, "grammars")["compiled",] == 1
    [compiling] = compile_seconds(metrics)
    assert sum(compiling.counts) == 1
    assert compiling.sum > 0
    assert numbers(metrics, "mask_fill_seconds")[()] > 0
    assert numbers(metrics, "mask_apply_seconds")[()] > 0

"""Proposers get the hidden states that `transformers` computes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    SchedulerConfig,
)
from hookline.exceptions import ConfigError
from hookline_drafting import Proposer, TargetModel
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, Oracle, make_oracle
from hookline_testing.proposers import (
    RandomProposer,
    ScriptedProposer,
    ScriptedTreeProposer,
    WatchingProposer,
)

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]

TOKENS = 12
GREEDY = SamplingParams(temperature=0.0, max_tokens=TOKENS)
COMMON = [(7 * place) % 320 for place in range(40)]
PROMPTS = [[5], list(range(3, 36)), [*COMMON, 1, 2], [*COMMON, 9], list(range(90, 107))]
BASE = EngineConfig(
    speculative={
        "method": "scripted",
        "num_speculative_tokens": 3,
        "timeout_seconds": 60,
    }
)
MODES = {
    "batched": BASE,
    "chunked": replace(
        BASE, scheduler=SchedulerConfig(max_num_batched_tokens=9, max_num_seqs=4)
    ),
    "preempted": replace(BASE, cache=CacheConfig(block_size=4, num_kv_blocks=24)),
    "torch-kernels": replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH)),
}


def config_for(oracle: Oracle, mode: str) -> EngineConfig:
    limit = 80 if mode == "preempted" else None
    model = ModelConfig(model=str(oracle.folder), max_model_len=limit)
    return replace(MODES[mode], model=model)


def expected_states(oracle: Oracle, text: list[int]) -> torch.Tensor:
    """[tokens, hidden size], the last of `output_hidden_states`."""
    with torch.inference_mode():
        output = oracle.model(torch.tensor([text]), output_hidden_states=True)
    states: torch.Tensor = output.hidden_states[-1][0]
    return states


def check(oracle: Oracle, watching: WatchingProposer) -> int:
    """Compares everything that was seen; gives how many positions that were."""
    assert watching.wrong == []
    count = 0
    for text, states in watching.seen:
        expected = expected_states(oracle, text)
        for place, state in states.items():
            torch.testing.assert_close(state, expected[place], rtol=2e-3, atol=2e-3)
            count += 1
    return count


def half_right(
    oracle: Oracle, tree: tuple[int | None, ...] | None = None
) -> WatchingProposer:
    texts = [[*prompt, *oracle.greedy(prompt, TOKENS + 4)] for prompt in PROMPTS]
    if tree is not None:
        return WatchingProposer(ScriptedTreeProposer(texts, tree, errors=0.3))
    return WatchingProposer(ScriptedProposer(texts, errors=0.4))


@pytest.mark.parametrize(
    "name", essential(sorted(FAMILIES), "gemma2", "gpt2", "qwen3-moe")
)
def test_states_are_those_that_the_output_layer_reads(
    name: str, speculating_llm: SpeculatingLLM, tmp_path: Path
) -> None:
    """Of each family, of each position of a text, refused drafts' excepted."""
    oracle = make_oracle(name, tmp_path / "model")
    watching = half_right(oracle)

    with speculating_llm(config_for(oracle, "batched"), watching) as llm:
        outputs = llm.generate(PROMPTS, GREEDY)
        assert_conserved(llm)

    texts = [
        [*prompt, *output.outputs[0].token_ids]
        for prompt, output in zip(PROMPTS, outputs, strict=True)
    ]
    assert sum(output.outputs[0].accepted_tokens for output in outputs) > 0
    assert check(oracle, watching) > sum(map(len, PROMPTS))
    for text, states in watching.seen:
        assert any(text == whole[: len(text)] for whole in texts)
        assert min(states) in {0, *watching.skipped}
        assert sorted(states) == list(range(min(states), len(text) - 1))


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"batched"}))
def test_states_are_right_however_a_text_is_computed(
    mode: str, speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """In chunks, recomputed after preemption, and by modules."""
    watching = half_right(llama)

    with speculating_llm(config_for(llama, mode), watching) as llm:
        llm.generate(PROMPTS, GREEDY)
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)

    assert check(llama, watching) > sum(map(len, PROMPTS))
    if mode == "chunked":
        assert watching.chunks > 0
    if mode == "preempted":
        assert stats.totals.preemptions > 0
        assert len(watching.seen) > len(PROMPTS)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_states_of_a_tree_are_those_of_its_accepted_path(
    mode: str, speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """Wherever in the tree the accepted drafts are."""
    watching = half_right(llama, (None, None, None, 0, 1, 1, 2, 4, 5, 6))
    config = config_for(llama, mode)
    assert config.speculative is not None
    free = {**config.speculative, "num_speculative_tokens": None}

    with speculating_llm(replace(config, speculative=free), watching) as llm:
        outputs = llm.generate(PROMPTS, GREEDY)
        assert_conserved(llm)

    assert sum(output.outputs[0].accepted_tokens for output in outputs) > 0
    assert check(llama, watching) > sum(map(len, PROMPTS))


def check_features(oracle: Oracle, watching: WatchingProposer) -> int:
    """Compares what was shown of the layers 0, 2 and 3, which is behind the last."""
    said: list[torch.Tensor] = []
    decoder = oracle.model.get_decoder()
    lists = dict(decoder.named_children())
    layers = next(lists[name] for name in ("layers", "h", "blocks") if name in lists)
    hook = layers[-1].register_forward_hook(
        lambda _module, _given, output: said.append(
            output[0] if isinstance(output, tuple) else output
        )
    )
    for text, features in watching.features.items():
        with torch.inference_mode():
            output = oracle.model(torch.tensor([text]), output_hidden_states=True)
        last = said.pop().view(len(text), -1)[-1]
        read = [output.hidden_states[index][0, -1] for index in (2, 0)]
        expected = torch.cat((read[0], last, read[1]))
        torch.testing.assert_close(features, expected, rtol=5e-3, atol=5e-3)
    hook.remove()
    return len(watching.features)


@pytest.mark.parametrize("mode", essential(["batched", "torch-kernels"], "batched"))
@pytest.mark.parametrize(
    "name", essential(sorted(FAMILIES), "gemma2", slow=["gpt2", "llama"])
)
def test_features_are_what_the_named_layers_read(
    name: str, mode: str, speculating_llm: SpeculatingLLM, tmp_path: Path
) -> None:
    """Of each family, side by side in the order in which they were named."""
    oracle = make_oracle(name, tmp_path / "model")
    inner = half_right(oracle)._inner
    watching = WatchingProposer(inner, feature_layers=(2, 3, 0))

    with speculating_llm(config_for(oracle, mode), watching) as llm:
        llm.generate(PROMPTS[:2], GREEDY)
        assert_conserved(llm)

    assert watching.wrong == []
    assert check_features(oracle, watching) > sum(map(len, PROMPTS[:2]))


def test_prompts_are_shown_where_nothing_is_drafted(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """An engine that has just started drafts nothing, and shows all of each prompt."""
    texts = [[*prompt, *llama.greedy(prompt, TOKENS)] for prompt in PROMPTS]
    watching = WatchingProposer(ScriptedProposer(texts), drafts_always=False)
    speculative = {
        "method": "scripted",
        "num_speculative_tokens": "auto",
        "timeout_seconds": 60,
    }
    config = replace(config_for(llama, "chunked"), speculative=speculative)

    with speculating_llm(config, watching) as llm:
        outputs = llm.generate(PROMPTS, GREEDY)
        assert_conserved(llm)

    assert [
        [*prompt, *output.outputs[0].token_ids]
        for prompt, output in zip(PROMPTS, outputs, strict=True)
    ] == texts
    assert check(llama, watching) > 0
    for text, states in watching.seen:
        [prompt] = [each for each in PROMPTS if text[: len(each)] == each]
        assert set(states) >= set(range(min(states), len(prompt)))


def test_cached_prefixes_have_no_states(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """Positions that were not computed are skipped; later ones keep their positions."""
    watching = half_right(llama)

    with speculating_llm(config_for(llama, "batched"), watching) as llm:
        llm.generate(PROMPTS, GREEDY)
        before = list(watching.skipped)
        llm.generate([PROMPTS[2]], GREEDY)

    assert watching.skipped[len(before) :] == [32]
    assert check(llama, watching) > 0


def test_target_is_shown_with_its_weights(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """Before anything is proposed, embedding and output layer are the model's."""
    watching = half_right(llama)

    with speculating_llm(config_for(llama, "batched"), watching):
        target = watching.target

    assert isinstance(target, TargetModel)
    assert (target.hidden_size, target.vocab_size) == (64, 320)
    assert target.output_bias is None
    weights = llama.model.state_dict()
    embedding, output = weights["model.embed_tokens.weight"], weights["lm_head.weight"]
    assert torch.equal(target.embedding, embedding)
    assert torch.equal(target.output, output)


class Unfit(WatchingProposer):
    def __init__(self, error: Exception) -> None:
        super().__init__(RandomProposer())
        self._error = error

    def prepare(self, target: TargetModel) -> None:  # noqa: ARG002
        raise self._error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConfigError("speculative-config", "of another width"), "of another width"),
        (RuntimeError("oh"), "cannot use the model: RuntimeError: oh"),
    ],
)
def test_proposer_that_does_not_fit_ends_the_start(
    error: Exception, reason: str, speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """As one line that names the option."""
    with (
        pytest.raises(ConfigError, match=reason) as caught,
        speculating_llm(config_for(llama, "batched"), Unfit(error)),
    ):
        pass

    assert caught.value.option == "speculative-config"


def test_simulated_executor_has_no_states(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    config = replace(
        config_for(llama, "batched"),
        executor=ExecutorConfig(name="simulated"),
    )

    with (
        pytest.raises(ConfigError, match="executor 'simulated' lacks"),
        speculating_llm(config, WatchingProposer(RandomProposer())),
    ):
        pass


def test_others_are_shown_nothing(
    speculating_llm: SpeculatingLLM, llama: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposer that does not ask costs no states: they are never computed."""

    def refuse(*_: object) -> None:
        raise AssertionError("states were computed")

    monkeypatch.setattr("hookline.engine.decoder.Decoder.with_hidden", refuse)

    with speculating_llm(config_for(llama, "batched"), RandomProposer()) as llm:
        [output] = llm.generate([PROMPTS[1]], GREEDY)

    assert output.outputs[0].token_ids == llama.greedy(PROMPTS[1], TOKENS)

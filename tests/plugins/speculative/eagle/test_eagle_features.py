"""What a head says over paged blocks is what it says over whole sequences.

However the text is computed: in chunks, behind refused and accepted drafts, anew after
preemption, and behind prefixes that were found in the cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from hookline_drafting import DraftRequest, Drafts, TargetModel
from hookline_eagle.chains import Chains, guesses
from hookline_eagle.checkpoint import load_head
from hookline_eagle.head import Head
from hookline_eagle.proposer import EagleProposer
from hookline_eagle.rotary import angle_table
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.proposers import ScriptedProposer

MakeHead = Callable[..., Head]
Plain = Callable[..., tuple[torch.Tensor, list[int]]]

TOKENS = 14
GREEDY = SamplingParams(temperature=0.0, max_tokens=TOKENS)
COMMON = [(7 * place) % 320 for place in range(40)]
PROMPTS = [[5], list(range(3, 36)), [*COMMON, 1, 2], [*COMMON, 9], list(range(90, 107))]
SPECULATIVE = {"method": "eagle", "num_speculative_tokens": 6, "timeout_seconds": 60}
BASE = EngineConfig(cache=CacheConfig(enable_prefix_caching=False))
MODES = {
    "batched": BASE,
    "chunked": replace(
        BASE, scheduler=SchedulerConfig(max_num_batched_tokens=9, max_num_seqs=4)
    ),
    "preempted": replace(
        BASE,
        cache=CacheConfig(block_size=4, num_kv_blocks=24, enable_prefix_caching=False),
    ),
    "torch-kernels": replace(BASE, executor=ExecutorConfig(kernels=Kernels.TORCH)),
}


class Noting(EagleProposer):
    """Notes what the head says; drafts themselves come from a script, half right.

    Attributes:
        said: Text, drafts before it, and the feature that was said behind them.
        plain: The head, as it was loaded.
        target: What it was shown.
        shown: Where new positions began, and how many there were.
    """

    def __init__(self, folder: Path, script: ScriptedProposer) -> None:
        super().__init__(load_head(folder))
        self._script = script
        self.plain = load_head(folder)
        self.target: TargetModel | None = None
        self.said: list[tuple[list[int], list[int], torch.Tensor]] = []
        self.shown: list[tuple[int, int]] = []

    def prepare(self, target: TargetModel) -> None:
        self.target = target
        super().prepare(target)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Drafts]:
        for request in requests:
            assert request.hidden_states is not None
            if request.request_id < 0:  # its own, at the start
                return super().propose(requests)
            states = request.hidden_states
            self.shown.append((states.start, len(states.final)))
        super().propose(requests)
        return self._script.propose(requests)

    def _pick(self, chain: Any, alive: int) -> None:
        for row, each in enumerate(chain.shown[:alive]):
            if each.request.request_id < 0:
                break
            before = [int(place[row]) for place in chain.token_ids]
            feature = chain.features[row].clone()
            self.said.append((each.request.token_ids.tolist(), before, feature))
        super()._pick(chain, alive)


def run(
    oracle: Oracle,
    folder: Path,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
    prompts: list[list[int]],
    *,
    rounds: int = 1,
) -> tuple[Noting, LLM]:
    """Returns a head's outputs while these prompts are processed."""
    texts = [[*prompt, *oracle.greedy(prompt, TOKENS + 8)] for prompt in prompts]
    noting = Noting(folder, ScriptedProposer(texts, errors=0.3))
    monkeypatch.setattr("hookline_eagle.proposer.EagleProposer.load", lambda _: noting)
    limit = 80 if mode == "preempted" else 128
    config = replace(
        MODES[mode],
        model=ModelConfig(model=str(oracle.folder), max_model_len=limit),
        speculative=SPECULATIVE,
    )
    with LLM.from_config(config) as llm:
        for _ in range(rounds):
            outputs = llm.generate(prompts, GREEDY)
        assert_conserved(llm)
    assert [list(each.outputs[0].token_ids) for each in outputs] == [
        oracle.greedy(prompt, TOKENS) for prompt in prompts
    ]
    return noting, llm


def check(oracle: Oracle, noting: Noting, plain: Plain) -> int:
    """Compares all features with those of whole texts; returns their number."""
    head, target = noting.plain.head, noting.target
    assert target is not None
    table = angle_table(noting.plain.config, 16, 160, target.output[:0])
    for text, before, feature in noting.said:
        expected, own = plain(
            head,
            target,
            table,
            text,
            target_states(oracle, head, text[:-1]),
            count=len(before) + 1,
        )
        assert own[: len(before)] == before
        torch.testing.assert_close(feature, expected[-1], rtol=5e-3, atol=5e-3)
    return len(noting.said)


def target_states(oracle: Oracle, head: Head, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        output = oracle.model(torch.tensor([tokens]), output_hidden_states=True)
    states: list[torch.Tensor] = [each[0] for each in output.hidden_states]
    if not head.shape.is_third:
        return states[-1]
    # What the last layer says before the norm is no member of `hidden_states`.
    layers = oracle.model.get_decoder().layers
    kept: list[torch.Tensor] = []
    hook = layers[-1].register_forward_hook(
        lambda _module, _given, said: kept.append(
            said[0] if isinstance(said, tuple) else said
        )
    )
    with torch.inference_mode():
        oracle.model(torch.tensor([tokens]))
    hook.remove()
    return torch.cat((*states[1:3], kept[0].view(len(tokens), -1)), -1)


@pytest.mark.parametrize("mode", essential(sorted(MODES), "chunked"))
@pytest.mark.parametrize(
    "head_folder",
    essential(["eagle", "eagle3"], "eagle", slow=["eagle3"]),
    indirect=True,
)
def test_features_are_those_of_whole_sequences(
    mode: str,
    llama: Oracle,
    head_folder: Path,
    plain: Plain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In chunks, with accepted and refused drafts, after preemption."""
    noting, llm = run(llama, head_folder, mode, monkeypatch, PROMPTS)

    assert check(llama, noting, plain) > len(PROMPTS) * 6
    assert any(start > 40 and count > 1 for start, count in noting.shown)
    if mode == "preempted":
        assert llm.front_end.engines[0].stats.totals.preemptions > 0


@pytest.mark.parametrize(
    "head_folder",
    essential(["eagle", "eagle3"], "eagle", slow=["eagle3"]),
    indirect=True,
)
def test_cached_prefixes_have_the_draft_s_keys_and_values(
    llama: Oracle,
    head_folder: Path,
    plain: Plain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A prompt that was computed before is drafted for as if it were not cached."""
    monkeypatch.setitem(MODES, "cached", EngineConfig())
    prompt = [PROMPTS[2]]

    noting, _ = run(llama, head_folder, "cached", monkeypatch, prompt, rounds=2)

    assert min(start for start, _ in noting.shown[len(noting.shown) // 2 :]) == 32
    assert check(llama, noting, plain) > 12


def test_prefixes_of_requests_without_drafts_have_them_too(
    llama: Oracle,
    head_folder: Path,
    plain: Plain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request of one token is never drafted for, and leaves its blocks complete."""
    monkeypatch.setitem(MODES, "cached", EngineConfig())
    monkeypatch.setattr("hookline.LLM.generate", warmed(LLM.generate))

    noting, _ = run(llama, head_folder, "cached", monkeypatch, [PROMPTS[2]])

    assert noting.shown[0] == (0, len(PROMPTS[2]))
    assert noting.shown[1][0] == 32
    assert check(llama, noting, plain) > 6


def warmed(generate: Callable[..., Any]) -> Callable[..., Any]:
    """The same prompts are asked for one token before."""

    def twice(llm: LLM, prompts: Any, params: SamplingParams) -> Any:
        generate(llm, prompts, SamplingParams(temperature=0.0, max_tokens=1))
        return generate(llm, prompts, params)

    return twice


@pytest.mark.parametrize("third", [False, True])
def test_chains_of_training_are_those_of_whole_sequences(
    third: bool, make_head: MakeHead, plain: Plain
) -> None:
    """What all positions draft at once is what each drafts alone."""
    head = make_head(third=third)
    generator = torch.Generator().manual_seed(2)
    table = torch.randn(320, 64, generator=generator)
    target = TargetModel(hidden_size=64, vocab_size=320, embedding=table, output=table)
    tokens = torch.randint(0, 320, (2, 20), generator=generator)
    target_states = torch.randn(2, 20, head.shape.fused_size if third else 64)
    angles = angle_table({"rope_theta": 10000.0}, 16, 40, table[:0])

    found = guesses(
        Chains(head, target, tokens, target_states, angles), head, target, 4
    )

    for row in range(2):
        for start in range(15):
            text = tokens[row, : start + 2].tolist()
            _, own = plain(
                head, target, angles, text, target_states[row, : start + 1], count=4
            )
            assert found[:, row, start].tolist() == own

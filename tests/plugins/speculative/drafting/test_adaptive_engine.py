"""The control of drafts within engines: where it is asked, and what it changes."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import msgspec
import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig, ModelConfig
from hookline.engine.engine_core import EngineCore
from hookline.events import StepOutput, StepRecord
from hookline_drafting import Proposer, SpeculativeConfig
from hookline_drafting.computed_step import ComputedStep
from hookline_drafting.control import DraftControl
from hookline_drafting.guard import ProposerGuard
from hookline_metrics.drafts import draft_use
from hookline_simulated.config import SimulationConfig
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle
from hookline_testing.proposers import ScriptedProposer
from hookline_testing.simulation import (
    VOCAB_SIZE,
    engine_request,
    run_to_end,
    simulated_core,
    tokens_of,
)

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]

ADAPTIVE = {
    "method": "scripted",
    "num_speculative_tokens": "auto",
    "timeout_seconds": 30,
}
PROMPT = [3, 4, 5]
LENGTH = 400
CHEAP = SimulationConfig(step_seconds=0.01, draft_token_seconds=0.0001)
DEAR = SimulationConfig(step_seconds=0.01, draft_token_seconds=0.02)


def core_of(
    simulation: SimulationConfig, proposer: Proposer | None = None
) -> EngineCore:
    guard = control = None
    if proposer is not None:
        config = SpeculativeConfig.from_mapping(ADAPTIVE)
        guard = ProposerGuard(proposer, config, vocab_size=VOCAB_SIZE)
        control = DraftControl.of(config)
    return simulated_core(
        simulation=simulation, max_model_len=512, guard=guard, control=control
    )


def run(core: EngineCore) -> tuple[list[StepOutput], list[StepRecord], float]:
    """Outputs of one request, its steps, and the seconds that it took."""
    core.add(engine_request(1, PROMPT, LENGTH))
    began = core.clock.now()
    outputs = run_to_end(core)
    records = [output.record for output in outputs if output.record is not None]
    core.close()
    return outputs, records, (core.clock.now() - began) / 1e9


def test_cheap_right_drafts_become_many() -> None:
    """An engine reaches eight drafts by itself, with the same output."""
    plain, _, without = run(core_of(CHEAP))
    text = tokens_of(plain)[1]

    outputs, records, seconds = run(core_of(CHEAP, ScriptedProposer([PROMPT + text])))

    assert tokens_of(outputs)[1] == text
    assert draft_use(records[0]).most_drafts == 0
    assert max(record.verified.draft_tokens for record in records) == 8
    assert draft_use(records[-1]).most_drafts == 8
    assert seconds < without / 4


@pytest.mark.parametrize("errors", [0.3, 1.0])
def test_expensive_drafts_are_avoided(errors: float) -> None:
    """Where verifying takes twice a step, next to nothing is drafted, or asked."""
    plain, _, without = run(core_of(DEAR))
    text = tokens_of(plain)[1]
    proposer = ScriptedProposer([PROMPT + text], errors=errors, vocab_size=VOCAB_SIZE)

    outputs, records, seconds = run(core_of(DEAR, proposer))

    assert tokens_of(outputs)[1] == text
    assert {draft_use(record).most_drafts for record in records} == {0}
    assert 0 < proposer.calls < 12
    assert seconds <= without / 0.97


def test_request_that_opted_out_is_not_asked_for() -> None:
    """Without requests to draft for, the proposer is never called."""
    proposer = ScriptedProposer([])
    core = core_of(CHEAP, proposer)
    params = SamplingParams(max_tokens=50, speculation=False)
    request = engine_request(1, PROMPT)
    core.add(msgspec.structs.replace(request, params=params))

    run_to_end(core)
    core.close()

    assert proposer.calls == 0


@pytest.mark.parametrize("errors", [0.0, 0.3])
def test_output_is_the_same_whatever_is_chosen(
    speculating_llm: SpeculatingLLM,
    llama: Oracle,
    monkeypatch: pytest.MonkeyPatch,
    errors: float,
) -> None:
    """With another number of drafts for each request in each step, no token changes."""
    prompts = [[7, 8, 9], [50, 51], [3] * 20]
    expected = [llama.greedy(prompt, 24) for prompt in prompts]
    known = [prompt + text for prompt, text in zip(prompts, expected, strict=True)]
    proposer = ScriptedProposer(known, errors=errors)
    chosen: list[list[int]] = []

    def choose(
        _: DraftControl, request_ids: Sequence[int], num_requests: int
    ) -> list[int]:
        assert num_requests >= len(request_ids)
        chosen.append([(len(chosen) + 3 * each) % 6 for each in request_ids])
        return chosen[-1]

    monkeypatch.setattr(DraftControl, "choose", choose)
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)), speculative=ADAPTIVE
    )

    with speculating_llm(config, proposer) as llm:
        outputs = llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=24))
        assert_conserved(llm)

    assert [each.outputs[0].token_ids for each in outputs] == expected
    assert {limit for limits in chosen for limit in limits} >= {0, 1, 3, 5}
    assert sum(each.outputs[0].accepted_tokens for each in outputs) > 10


def test_engine_with_a_model_controls_itself(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """Steps are measured, right drafts are tried, and the text is the same."""
    text = llama.greedy(PROMPT, 100)
    proposer = ScriptedProposer([PROMPT + text])
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        speculative={**ADAPTIVE, "max_speculative_tokens": 3},
    )

    with speculating_llm(config, proposer) as llm:
        [output] = llm.generate(
            [PROMPT], SamplingParams(temperature=0.0, max_tokens=100)
        )

    [completion] = output.outputs
    assert completion.token_ids == text
    assert completion.accepted_tokens > 0


def test_steps_between_trials_bypass_the_control(
    speculating_llm: SpeculatingLLM,
    llama: Oracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With nothing to draft, most steps of an engine pass the control by."""
    told: list[ComputedStep] = []
    observe = DraftControl.observe

    def listen(control: DraftControl, step: ComputedStep) -> None:
        told.append(step)
        observe(control, step)

    monkeypatch.setattr(DraftControl, "observe", listen)
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)), speculative=ADAPTIVE
    )

    with speculating_llm(config, ScriptedProposer([])) as llm:
        llm.generate([PROMPT], SamplingParams(temperature=0.0, max_tokens=120))

    assert 0 < len(told) < 60

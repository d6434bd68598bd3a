"""Taps: commands, plans, results and outputs of a run, on the engine's thread."""

from typing import cast

from hookline.config import EngineConfig
from hookline.engine.commands import Add
from hookline.engine.tap import Tap, TapContext
from hookline.events import ClockPair
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline.stats.step_work import Obstacle, StepWork
from hookline.step import StepPlan, StepResult
from hookline_testing.conformance.subject import Subject
from hookline_testing.payloads import FACTS, MILLISECOND, RECORD, make_output


def check(subject: Subject) -> None:
    """Tells of a request that waits, is computed and ends, and closes."""
    context = TapContext(
        config=EngineConfig(), facts=FACTS, clock=ClockPair(wall=0, monotonic=0)
    )
    made = subject.create(context=context)
    if made is None or not subject.has(made, Tap):
        return
    tap = cast("Tap", made)
    request = GenerateRequest(
        request_id=1, prompt_token_ids=[3], params=SamplingParams(max_tokens=1)
    )
    plan = StepPlan(
        step=1, request_ids=[1], num_tokens=[1], work=StepWork(prefill_tokens=1)
    )
    output = make_output(5 * MILLISECOND, record=RECORD)
    subject.call("command", tap.command, MILLISECOND, Add(request=request))
    subject.call("gated", tap.gated, MILLISECOND, 1, "grammar")
    subject.call("blocked", tap.blocked, 2 * MILLISECOND, Obstacle.GATE)
    subject.call("gated", tap.gated, 3 * MILLISECOND, 1, "")
    subject.call("planned", tap.planned, 3 * MILLISECOND, plan)
    result = StepResult(tokens={1: [4]})
    subject.call("computed", tap.computed, 4 * MILLISECOND, plan, result)
    subject.call("output", tap.output, 5 * MILLISECOND, output)
    subject.call("close", tap.close, None)

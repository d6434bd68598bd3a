"""vLLM's core is driven like Hookline's own engine, and tells as much."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hookline import SamplingParams
from hookline.config import EngineConfig
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    IsSleeping,
    Reply,
    ResetPrefixCache,
    Sleep,
    SleepMode,
    SleepState,
    TellExtensions,
    Told,
    WakeUp,
)
from hookline.events import StepOutput, VerifiedDrafts
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import (
    Aborted,
    Embedded,
    Failed,
    LengthReached,
    Rejected,
    StoppedByToken,
    TimedOut,
)
from hookline.payloads import EngineFacts
from hookline.pooling import VECTORS
from hookline.request import GenerateRequest, RequestFacts
from hookline.step import ModelShape, SleepLevel
from hookline.structured_outputs import StructuredOutputsParams
from hookline_pooling.pooling import Pooling, PoolingType
from hookline_process_engine.counted import CountedEngine
from hookline_vllm_engine.engine import VllmEngine
from hookline_vllm_engine.sleep import SleepControl

from .fake_engine_core import (
    BINDING,
    BLOCKS,
    EngineCore,
    EngineCoreOutput,
    LoRARequest,
)

FACTS = EngineFacts(
    engine_index=3,
    model_name="tiny",
    model=ModelShape(
        architecture="Llama",
        dtype="float32",
        cache_dtype="float32",
        vocab_size=512,
        max_model_len=256,
        eos_token_ids=(1,),
    ),
    block_size=16,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    enable_prefix_caching=True,
    executor="vllm",
)
PARAMS = SamplingParams(max_tokens=2)


def with_workers(backend: str = "mp") -> EngineCore:
    """Returns a core whose workers are processes; not so with `uni`."""
    core = EngineCore()
    parallel = SimpleNamespace(distributed_executor_backend=backend)
    core.scheduler.vllm_config = SimpleNamespace(parallel_config=parallel)
    return core


class Driven:
    """An engine around a fake core, with the commands that wait for it."""

    def __init__(self, core: EngineCore | None = None) -> None:
        self.core = EngineCore() if core is None else core
        inner = VllmEngine(self.core, FACTS, EngineConfig(), BINDING)
        self.engine = CountedEngine(inner)
        self.commands: deque[Command] = deque()
        self.waits: list[float] = []

    def receive(self, seconds: float) -> Command | None:
        if seconds > 0:
            self.waits.append(seconds)
        return self.commands.popleft() if self.commands else None

    def run(self, *commands: Command) -> list[EngineMessage]:
        """Runs once with these commands."""
        self.commands.extend(commands)
        return self.engine.run_once(self.receive, 0.01)

    def output(self, *commands: Command) -> StepOutput:
        [output] = self.run(*commands)
        assert isinstance(output, StepOutput)
        return output


@pytest.fixture
def driven() -> Driven:
    return Driven()


def add(
    request_id: int,
    params: SamplingParams = PARAMS,
    siblings: tuple[int, ...] = (),
    **fields: Any,
) -> Add:
    request = GenerateRequest(
        request_id=request_id, prompt_token_ids=[3, 4, 5], params=params, **fields
    )
    return Add(request, list(siblings))


def test_a_request_is_told_from_its_queue_to_its_end(driven: Driven) -> None:
    """With the events, the record and the totals of each step."""
    first = driven.output(add(1))
    second = driven.output()

    assert [each.request_id for each in first.events.queued] == [1]
    assert first.events.queued[0].prompt_tokens == 3
    assert [each.request_id for each in first.events.scheduled] == [1]
    assert [each.token_ids for each in first.events.new_tokens] == [[5]]
    assert first.record is not None
    assert (first.record.engine_index, list(first.record.request_tokens)) == (
        3,
        [(1, 3)],
    )
    assert (first.stats.running, first.stats.kv_blocks_used) == (1, 1)
    assert first.stats.kv_blocks == BLOCKS - 1
    [end] = second.events.finished
    assert (end.cause, end.output_tokens) == (LengthReached(), 2)
    totals = second.stats.totals
    assert (totals.received, dict(totals.finished)) == (1, {"length": 1})
    assert (totals.sampled_tokens, totals.computed_tokens) == (2, 4)
    assert totals.residue.requests == 0
    assert not driven.engine.has_work


def test_completions_of_a_prompt_have_numbers_of_their_own(driven: Driven) -> None:
    """They are as many requests for vLLM."""
    output = driven.output(add(1, siblings=(2, 3)))

    assert [each.request_id for each in output.events.queued] == [1, 2, 3]
    assert [each.request_id for each in output.events.new_tokens] == [1, 2, 3]


@pytest.mark.parametrize("is_running", [True, False])
def test_an_abort_ends_with_its_cause(driven: Driven, *, is_running: bool) -> None:
    """Which vLLM does not know, and unknown numbers are ignored."""
    gone = Finish([1, 99], Aborted("client_disconnect"))
    if is_running:
        driven.run(add(1, SamplingParams(max_tokens=9)))
        output = driven.output(gone)
    else:
        output = driven.output(add(1), gone)

    [end] = output.events.finished
    assert (end.request_id, end.cause) == (1, Aborted("client_disconnect"))
    assert end.output_tokens == int(is_running)
    assert [each.request_id for each in output.events.queued] == [1] * (not is_running)
    assert output.stats.totals.residue.requests == 0
    assert not driven.engine.has_work


def test_a_deadline_ends_a_request_with_what_it_has(driven: Driven) -> None:
    """The core never hears of deadlines."""
    late = add(1, SamplingParams(max_tokens=9)).request
    late = GenerateRequest(
        request_id=1,
        prompt_token_ids=late.prompt_token_ids,
        params=late.params,
        timeout_seconds=0.0,
    )

    output = driven.output(Add(late))

    assert [each.cause for each in output.events.finished] == [TimedOut()]


def test_a_grammar_that_vllm_refuses_is_the_clients_fault(driven: Driven) -> None:
    """Others of the engine go on."""
    wrong = SamplingParams(structured_outputs=StructuredOutputsParams(regex="["))

    refused, step = driven.run(add(1, wrong), add(2))

    assert isinstance(refused, StepOutput)
    assert isinstance(step, StepOutput)
    [end] = refused.events.finished
    assert end.cause == Rejected("invalid_grammar", "the expression is not closed")
    assert [each.request_id for each in step.events.new_tokens] == [2]
    assert step.stats.totals.residue.requests == 0


def two_tokens(name: str) -> EngineCoreOutput:
    return EngineCoreOutput(name, [5, 6])


def test_drafts_are_those_of_the_plan(driven: Driven) -> None:
    """Of three, one was accepted: it comes with the token after it."""
    scheduler = driven.core.scheduler
    driven.run(add(1, SamplingParams(max_tokens=9)))
    scheduler.drafts, scheduler.make = (1, 2, 3), two_tokens

    output = driven.output()

    [tokens] = output.events.new_tokens
    assert (tokens.draft_tokens, tokens.accepted_tokens) == (3, 1)
    assert output.record is not None
    assert output.record.verified == VerifiedDrafts(1, 3, 1, (1,))
    assert output.stats.totals.computed_tokens == 3 + 4


def stopped(name: str) -> EngineCoreOutput:
    return EngineCoreOutput(name, [5, 7], finish_reason="stop", stop_reason=7)


def failed(name: str) -> EngineCoreOutput:
    return EngineCoreOutput(name, [], finish_reason="error")


def test_an_error_of_vllm_is_no_abort(driven: Driven) -> None:
    """vLLM ends such requests while it takes in a step, as it ends aborted ones."""
    scheduler = driven.core.scheduler

    def end(name: str) -> EngineCoreOutput:
        scheduler.finish_requests([name], "error")
        return failed(name)

    scheduler.make = end

    output = driven.output(add(1))

    assert [each.cause for each in output.events.finished] == [Failed("error")]
    assert output.stats.totals.residue.requests == 0


@pytest.mark.parametrize(
    ("make", "cause", "tokens"),
    [(stopped, StoppedByToken(7), [[5, 7]]), (failed, Failed("error"), [])],
)
def test_vllms_own_ends_have_their_causes(
    driven: Driven, make: object, cause: object, tokens: object
) -> None:
    """By a stop token, or by an error of that request alone."""
    driven.core.scheduler.make = make  # type: ignore[assignment]

    output = driven.output(add(1))

    assert [each.cause for each in output.events.finished] == [cause]
    assert [each.token_ids for each in output.events.new_tokens] == tokens


@pytest.mark.parametrize("is_reset", [True, False])
def test_commands_are_answered_or_refused(driven: Driven, *, is_reset: bool) -> None:
    """The prefix cache as vLLM says, and what it does not know by name."""
    driven.core.is_reset = is_reset
    calls = [
        Call(0, 1, ResetPrefixCache(reset_running_requests=True)),
        Call(0, 2, IsSleeping()),
        Call(0, 3, TellExtensions()),
    ]

    state, *replies = driven.run(*calls)

    assert isinstance(state, StepOutput)
    assert driven.core.resets == [True]
    busy = Reply(0, 1, error="vLLM's blocks are in use")
    assert replies == [
        Reply(0, 1, Told()) if is_reset else busy,
        Reply(0, 2, SleepState(None)),
        Reply(0, 3, error="the engine vllm does not know TellExtensions"),
    ]


@pytest.mark.parametrize("level", SleepLevel)
def test_a_sleeping_engine_steps_no_more(driven: Driven, level: SleepLevel) -> None:
    """What runs is kept, what comes waits; weights are loaded again."""
    driven.run(add(1, SamplingParams(max_tokens=3)))
    state, asleep = driven.run(Call(0, 1, Sleep(level)))
    queued = driven.output(add(2))
    quiet = driven.run()
    *_, woken, reply = driven.run(Call(0, 2, WakeUp()))

    assert isinstance(state, StepOutput)
    assert (state.cause, state.stats.sleep_level) == ("sleep", level)
    assert asleep == Reply(0, 1, SleepState(level))
    assert (queued.stats.running, queued.stats.waiting) == (1, 1)
    assert (quiet, driven.engine.has_work) == ([], True)
    weights = [["weights"], "reload_weights", ["kv_cache"]]
    assert driven.core.done == [
        (level, "keep"),
        *(weights if level is SleepLevel.WEIGHTS else [None]),
    ]
    assert isinstance(woken, StepOutput)
    assert (woken.cause, woken.stats.sleep_level) == ("wake_up", 0)
    assert reply == Reply(0, 2, SleepState(None))


@pytest.mark.parametrize("mode", [SleepMode.WAIT, SleepMode.ABORT])
def test_requests_end_before_a_sleep(driven: Driven, mode: SleepMode) -> None:
    """With `wait` by themselves, with `abort` at once."""
    driven.run(add(1))
    messages = driven.run(Call(0, 1, Sleep(SleepLevel.KV_CACHE, mode)))
    messages += driven.run()

    ends = [
        end.cause
        for message in messages
        if isinstance(message, StepOutput)
        for end in message.events.finished
    ]
    assert ends == [LengthReached() if mode is SleepMode.WAIT else Aborted("sleep")]
    assert Reply(0, 1, SleepState(SleepLevel.KV_CACHE)) in messages


def test_a_sleep_that_waits_can_be_cancelled(driven: Driven) -> None:
    """A second one meanwhile is refused, and requests are admitted again."""
    driven.run(add(1, SamplingParams(max_tokens=9)))
    sleep = Sleep(SleepLevel.KV_CACHE, SleepMode.WAIT)

    messages = driven.run(Call(0, 1, sleep), Call(0, 2, sleep), Call(0, 3, WakeUp()))
    after = driven.output(add(2))

    assert [each for each in messages if isinstance(each, Reply)] == [
        Reply(0, 2, error="the engine is going to sleep already"),
        Reply(0, 1, error="cancelled by a wake-up"),
        Reply(0, 3, SleepState(None)),
    ]
    assert [each.request_id for each in after.events.new_tokens] == [2, 1]


def test_a_deeper_sleep_and_one_without_vllms_mode_are_refused(driven: Driven) -> None:
    """The reason says what to do."""
    platform = SimpleNamespace(is_sleep_mode_available=lambda: True)
    core = EngineCore()
    strict = SleepControl(core, replace(BINDING, current_platform=platform))

    refused = strict.start_sleeping(Call(0, 1, Sleep()), Sleep())
    driven.run(Call(0, 1, Sleep(SleepLevel.KV_CACHE)))
    *_, deeper = driven.run(Call(0, 2, Sleep(SleepLevel.WEIGHTS)))

    assert refused is not None
    assert "--enable-sleep-mode" in str(refused.error)
    assert isinstance(deeper, Reply)
    assert "wake it up first" in str(deeper.error)


class HeardTap:
    """A tap that knows which of its methods were called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)


def heard(core: EngineCore, params: SamplingParams) -> Iterator[list[str]]:
    """Yields what a tap has heard, first when a plan is ready, then after each run."""
    tap, seen = HeardTap(), list[list[str]]()
    begin = core.scheduler.get_grammar_bitmask

    def computing(plan: object) -> None:
        seen.append(list(tap.calls))
        begin(plan)

    core.scheduler.get_grammar_bitmask = computing  # type: ignore[method-assign]
    engine = VllmEngine(core, FACTS, EngineConfig(), BINDING, tap=tap)
    commands = deque([add(1, params)])
    while True:
        engine.run_once(lambda _: commands.popleft() if commands else None, 0.0)
        seen.append(list(tap.calls))
        yield from seen
        seen.clear()


def test_taps_are_told_when_there_is_time() -> None:
    """A plan at once where none compute it in another process, and then its result."""
    [*first, last] = islice(heard(with_workers("uni"), SamplingParams(max_tokens=1)), 3)

    told = ["command", "planned"]
    assert first == [told, told]
    assert last == [*told, "computed", "output"]


def test_taps_are_told_while_workers_compute() -> None:
    """After clients, who are told first; a step's output follows its result."""
    told = list(islice(heard(with_workers(), PARAMS), 5))

    first = ["command", "planned"]
    assert told == [
        *([], []),  # the first step is begun, and nobody has been told
        *(first, first),  # the second is begun, and the output of the first was sent
        [*first, "computed", "output", "planned"],
    ]


def test_workers_have_the_next_step_before_clients_are_told_the_last() -> None:
    """They need not be asked to sample once the model has run."""
    driven = Driven(with_workers())

    nothing = driven.run(add(1, SamplingParams(max_tokens=3)))
    one_step = list(driven.core.calls)
    first = driven.output()

    assert nothing == []
    assert one_step == ["execute_model", "sample_tokens"]
    assert driven.core.calls == 2 * one_step
    assert [each.request_id for each in first.events.queued] == [1]
    assert [each.token_ids for each in first.events.new_tokens] == [[5]]
    assert first.record is not None
    assert driven.engine.has_work


def test_who_leaves_during_a_step_gets_no_more_tokens() -> None:
    """Each output has the state of its moment, so that requests are conserved."""
    driven = Driven(with_workers())
    driven.run(add(1, SamplingParams(max_tokens=9)))
    driven.run()

    gone = Finish([1], Aborted("client_disconnect"))
    abort, step = driven.run(add(2, SamplingParams(max_tokens=1)), gone)
    last = driven.output()

    assert isinstance(abort, StepOutput)
    assert isinstance(step, StepOutput)
    assert [each.request_id for each in abort.events.queued] == [2]
    assert [(each.cause, each.output_tokens) for each in abort.events.finished] == [
        (gone.cause, 1)
    ]
    assert step.record is not None
    assert step.events.new_tokens == []
    assert [each.request_id for each in last.events.finished] == [2]
    outputs = (abort, step, last)
    assert [(each.stats.running, each.stats.waiting) for each in outputs] == [
        *((0, 1), (0, 1), (0, 0))
    ]
    residues = [each.stats.totals.residue.requests for each in outputs]
    assert residues == [0, 0, 0]
    assert not driven.engine.has_work


def test_an_abort_after_the_end_changes_nothing() -> None:
    """A call has had the step's result taken in, in which the request ended."""
    driven = Driven(with_workers())
    driven.run(add(1, SamplingParams(max_tokens=1)))

    gone = Finish([1], Aborted("client_disconnect"))
    output, reply = driven.run(Call(0, 1, IsSleeping()), gone)

    assert isinstance(output, StepOutput)
    assert [each.cause for each in output.events.finished] == [LengthReached()]
    assert reply == Reply(0, 1, SleepState(None))


def test_a_sleep_waits_for_the_step_in_flight() -> None:
    """What it has computed is told before, and nothing runs against the sleep."""
    driven = Driven(with_workers())
    driven.run(add(1, SamplingParams(max_tokens=3)))

    step, state, asleep = driven.run(Call(0, 1, Sleep(SleepLevel.KV_CACHE)))

    assert isinstance(step, StepOutput)
    assert isinstance(state, StepOutput)
    assert [each.token_ids for each in step.events.new_tokens] == [[5]]
    assert (state.cause, state.stats.sleep_level) == ("sleep", 1)
    assert asleep == Reply(0, 1, SleepState(SleepLevel.KV_CACHE))
    assert driven.core.calls == ["execute_model", "sample_tokens"]


def test_what_the_model_raises_ends_the_engine() -> None:
    """Though the workers were asked to sample from what there is not."""
    driven = Driven(with_workers())
    driven.core.error = RuntimeError("the device fell off")
    driven.run(add(1))

    with pytest.raises(RuntimeError, match="fell off"):
        driven.run()


def embedded(name: str) -> EngineCoreOutput:
    vector = torch.tensor([0.6, 0.8])
    return EngineCoreOutput(name, [], finish_reason="stop", pooling_output=vector)


def test_an_embedded_request_ends_with_its_vector(driven: Driven) -> None:
    """Which the client gets, and no observer; wrong dimensions are the client's."""
    driven.core.scheduler.make = embedded
    sections = {"pooling": Pooling(kind=PoolingType.LAST)}
    wrong = {"pooling": Pooling(kind=PoolingType.LAST, dimensions=1)}

    output = driven.output(add(1, sections=sections))
    refused = driven.output(add(2, sections=wrong))

    [end] = output.events.finished
    vectors = VECTORS.typed(end.sections["pooling"])
    assert (end.cause, vectors.count) == (Embedded(), 1)
    assert np.frombuffer(vectors.values, "<f4") == pytest.approx([0.6, 0.8])
    [end] = refused.events.finished
    assert end.cause == Failed("vLLM: too short a vector")


def test_a_request_goes_to_its_adapter() -> None:
    """Which the core has loaded."""
    core, made = EngineCore(), LoRARequest(lora_name="a", lora_int_id=1, lora_path="/")
    engine = VllmEngine(core, FACTS, EngineConfig(), BINDING, adapters={"a": made})
    commands = deque([add(1, facts=RequestFacts(lora="a")), add(2)])

    engine.run_once(lambda _: commands.popleft() if commands else None, 0.0)

    told = [core.scheduler.requests[name].lora_request for name in ("1", "2")]
    assert told == [made, None]


def test_an_idle_engine_waits_for_commands(driven: Driven) -> None:
    """And no longer than it may; it takes what comes meanwhile."""
    messages = driven.run()

    assert messages == []
    assert driven.waits == [0.01]


def test_the_end_of_a_worker_ends_an_idle_engine(driven: Driven) -> None:
    """vLLM tells it in a thread of its own, and no step would notice it."""
    driven.run()
    driven.core.fails()

    with pytest.raises(EngineDeadError, match="a worker of vLLM has ended"):
        driven.run()


def test_what_the_core_raises_ends_the_engine(driven: Driven) -> None:
    """Its process tells the reason, and is replaced like Hookline's own."""

    def break_down(_: str) -> EngineCoreOutput:
        raise RuntimeError("the device fell off")

    driven.core.scheduler.make = break_down

    with pytest.raises(RuntimeError, match="fell off"):
        driven.run(add(1))
    driven.engine.close()

    assert driven.core.is_shut_down

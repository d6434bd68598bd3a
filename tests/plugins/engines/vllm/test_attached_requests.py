"""What loggers get of the requests that vLLM serves."""

from collections import Counter
from random import Random
from types import SimpleNamespace

import pytest

from hookline import hookimpl
from hookline.config.engine import EngineConfig
from hookline.frontend.observation import Observers
from hookline.payloads import RequestsFinished, StateChanged
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.scheduler_stats import SchedulerStats as State
from hookline_testing.fake_vllm import (
    LENGTH,
    STOP,
    AggregateStatLoggerBase,
    EngineCoreEvent,
    EngineCoreOutput,
    FakeVllm,
    FinishedRequestStats,
    IterationStats,
    PrefillStats,
    PrefixCacheStats,
    PromptTokenStats,
    SamplingParams,
    SchedulerStats,
    output_processor,
    vllm_config,
)
from hookline_vllm.attachment import Attachment
from hookline_vllm.engine_account import EngineAccount
from hookline_vllm.facts import engine_facts
from hookline_vllm.front_end import FrontEnd, NoticeClock
from hookline_vllm.general import HTTP, wrap_processor
from hookline_vllm.notices import HttpFacts
from hookline_vllm.stat_logger import make_stat_logger

QUEUED, SCHEDULED, PREEMPTED = 1, 2, 3


class Heard:
    """A recorder, which hears all at once."""

    def __init__(self) -> None:
        self.ended: list[FinishedRequest] = []
        self.states: list[StateChanged] = []

    @hookimpl
    def requests_finished(self, finished: RequestsFinished) -> None:
        self.ended += finished.requests

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        self.states.append(state)

    def latest(self) -> State:
        return self.states[-1].scheduler

    def total(self, field: str) -> int:
        """Sum of a field of all iterations."""
        return sum(getattr(each.iteration, field) for each in self.states)


class Attached:
    """A fake vLLM with wraps and a stat logger, whose notices are taken at once."""

    def __init__(self, engines: int = 1, *, tells_requests: bool = True) -> None:
        self.attachment = Attachment()
        processor = output_processor()
        if tells_requests:
            wrap_processor(processor, self.attachment)
        logger = make_stat_logger(AggregateStatLoggerBase, self.attachment)
        self.processor = processor()
        self.vllm = FakeVllm(self.processor, logger(vllm_config(), [0]))
        self.heard, clock, config = Heard(), NoticeClock(), EngineConfig()
        self.observers = Observers(config, recorder=self.heard)
        self.engines = {
            index: EngineAccount(
                engine_facts(vllm_config(), index, "0.32.0"),
                config,
                self.observers,
                clock,
                is_alone=True,
                tells_requests=tells_requests,
            )
            for index in range(engines)
        }
        self.front_end = FrontEnd(self.engines, config, self.observers, clock)

    def hear(self) -> Heard:
        """Has loggers told of all that has happened."""
        while (notice := self.attachment.inbox.pop()) is not None:
            self.front_end.handle(notice)
        self.front_end.tick({})
        return self.heard


def begun(vllm: FakeVllm, *kinds: int) -> list[EngineCoreEvent]:
    return [EngineCoreEvent(kind, vllm.seconds) for kind in kinds or (1, 2)]


def first(vllm: FakeVllm, name: str, *kinds: int, cached: int = 0) -> EngineCoreOutput:
    """The output with a request's first token, which tells of all before it."""
    events, stats = begun(vllm, *kinds), PrefillStats(8, cached)
    return EngineCoreOutput(name, [5], events=events, prefill_stats=stats)


def check_conservation(heard: Heard, *, present: int = 0) -> None:
    totals = heard.latest().totals
    assert totals.received == sum(totals.finished.values()) + present
    assert heard.latest().running + heard.latest().waiting == present
    assert totals.residue.requests == 0


def test_request_has_the_intervals_of_the_engines_events() -> None:
    """QUEUED, SCHEDULED and tokens come with vLLM's outputs, on the engine's clock."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    vllm.step(first(vllm, "a", cached=4))
    vllm.step(EngineCoreOutput("a", [6]))
    vllm.step(EngineCoreOutput("a", [7], finish_reason=LENGTH))

    heard = attached.hear()

    (ended,) = heard.ended
    assert (ended.facts.client_id, ended.reason) == ("cmpl-a", "length")
    assert (ended.prompt_tokens, ended.output_tokens) == (8, 3)
    assert (ended.local_cached_tokens, ended.computed_tokens) == (4, 4)
    assert ended.queue_seconds == pytest.approx(0.01)
    assert ended.prefill_seconds == pytest.approx(0.01)
    assert ended.decode_seconds == pytest.approx(0.02)
    assert heard.total("prompt_tokens_local") == 4
    assert heard.latest().totals.sampled_tokens == 3
    check_conservation(heard)


def test_client_that_leaves_is_counted_as_aborted() -> None:
    """vLLM counts it nowhere: no output tells of it."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    vllm.add("b")
    told = SchedulerStats(2, kv_cache_usage=0.5)
    vllm.step(first(vllm, "a"), first(vllm, "b"), stats=told)
    vllm.processor.abort_requests(["a"], internal=True)

    heard = attached.hear()

    (ended,) = heard.ended
    assert (ended.facts.client_id, ended.reason) == ("cmpl-a", "abort")
    assert ended.output_tokens == 1
    check_conservation(heard, present=1)
    assert heard.latest().kv_blocks_used == 50

    vllm.processor.abort_requests(["b"], internal=True)
    check_conservation(attached.hear())
    assert heard.latest().kv_blocks_used == 0  # vLLM tells no state any more


def test_request_waits_until_vllm_has_told_of_a_step() -> None:
    """All that is in flight is somewhere at every moment."""
    attached = Attached()
    attached.vllm.add("a")

    check_conservation(attached.hear(), present=1)


def test_abort_before_any_output_and_twice_counts_once() -> None:
    """A client may leave while its request waits; vLLM may abort it again."""
    attached = Attached()
    attached.vllm.add("a")
    attached.processor.abort_requests(["a"], internal=True)
    attached.processor.abort_requests(["a"], internal=True)

    heard = attached.hear()

    assert heard.latest().totals.finished == {"abort": 1}
    check_conservation(heard)


def test_stop_string_ends_a_request_that_the_engine_has_not_ended() -> None:
    """It is the front end that finds it."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    attached.processor.stop_strings.add("a")
    vllm.step(first(vllm, "a"))

    heard = attached.hear()

    assert [each.reason for each in heard.ended] == ["stop"]
    check_conservation(heard)


def test_preemption_before_the_first_token_is_counted_in_its_order() -> None:
    """vLLM tells of it only with the token: scheduled, preempted, scheduled again."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    kinds = (QUEUED, SCHEDULED, PREEMPTED, SCHEDULED)
    vllm.step(first(vllm, "a", *kinds))
    preempted = begun(vllm, PREEMPTED, SCHEDULED)
    vllm.step(EngineCoreOutput("a", [6], STOP, events=preempted))

    heard = attached.hear()

    (ended,) = heard.ended
    assert ended.preemptions == heard.total("preemptions") == 2
    assert ended.preempted_seconds == pytest.approx(0.02)
    assert ended.preempted_prefill_seconds == pytest.approx(0.01)
    assert ended.queue_seconds == pytest.approx(0.01)


def test_completions_of_a_request_are_one_group() -> None:
    """vLLM adds the `n` completions of a request one by one."""
    attached = Attached()
    vllm, parent = attached.vllm, SimpleNamespace(request_id="p", n=2)
    vllm.add("0_p", parent=parent)
    vllm.add("1_p", parent=parent)
    vllm.step(first(vllm, "0_p"), first(vllm, "1_p"))
    ends = (EngineCoreOutput(each, [6], STOP) for each in ("0_p", "1_p"))
    vllm.step(*ends)

    heard = attached.hear()

    groups = [
        each for state in heard.states for each in state.iteration.finished_groups
    ]
    assert [group.n for group in groups] == [2]
    assert [each.completion_index for each in groups[0].requests] == [0, 1]
    check_conservation(heard)


def test_request_counts_at_the_engine_that_answers() -> None:
    """Which of several engines has it, vLLM's front end learns from its output."""
    attached = Attached(engines=2)
    vllm = attached.vllm
    vllm.add("a")
    vllm.add("b")
    vllm.step(first(vllm, "a"), engine=1)
    vllm.step(first(vllm, "b"), engine=0)

    attached.hear()

    assert [each.accounting.received for each in attached.engines.values()] == [1, 1]


@pytest.mark.parametrize(("session", "kept"), [("s-1", "s-1"), ("no id", None)])
def test_facts_come_from_the_request_and_its_http_headers(
    session: str, kept: str | None
) -> None:
    """Adapter, session and priority are vLLM's, tenant and trace the middleware's."""
    attached = Attached()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    http = HttpFacts("acme", {"traceparent": trace})
    token = HTTP.set(http)
    adapter = SimpleNamespace(lora_name="law")
    params = SamplingParams(max_tokens=3, output_kind=SimpleNamespace(value=2))
    attached.vllm.add(
        "a",
        lora_request=adapter,
        priority=7,
        sampling_params=params,
        session_id=session,
    )
    HTTP.reset(token)
    attached.processor.abort_requests(["a"], internal=True)

    (ended,) = attached.hear().ended

    facts = ended.facts
    assert (facts.tenant, facts.lora, facts.priority) == ("acme", "law", 7)
    assert facts.session_id == kept
    assert facts.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert (ended.params.max_tokens, ended.is_streamed) == (3, False)
    assert http.client_id == "cmpl-a"


def test_state_is_the_schedulers() -> None:
    """Blocks, those that wait, and lookups in the prefix cache."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    vllm.add("b")
    told = SchedulerStats(1, 0, 1, 0.25, PrefixCacheStats(1, 8, 4))
    vllm.step(first(vllm, "a"), stats=told)

    state = attached.hear().latest()

    assert (state.running, state.waiting, state.held) == (1, 0, {"deferred": 1})
    assert (state.kv_blocks, state.kv_blocks_used) == (100, 25)
    assert state.totals.prefix_cache.hit_tokens == 4


def test_without_wraps_sums_are_told() -> None:
    """The stat logger works alone, of what vLLM sums up in each iteration."""
    attached = Attached(tells_requests=False)
    done = FinishedRequestStats(
        STOP, "cmpl-a", 0.5, num_prompt_tokens=8, num_generation_tokens=3
    )
    prompt = PromptTokenStats(computed=8)
    told = IterationStats(3, prompt, 1, [done], [0.1], [0.02, 0.02])
    attached.vllm.step(stats=SchedulerStats(2), iteration=told)

    heard = attached.hear()

    (iteration,) = (each.iteration for each in heard.states if each.cause == "state")
    assert iteration.generation_tokens == heard.latest().totals.sampled_tokens == 3
    assert iteration.inter_token_seconds == ((0.02, 2),)
    assert [each.reason for each in iteration.finished] == ["stop"]
    assert iteration.finished[0].e2e_seconds == 0.5
    assert heard.latest().totals.received == 3


def test_steps_are_told_together_up_to_a_preemption() -> None:
    """Loggers get their sum; what is preempted comes before what is scheduled again."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    vllm.step(first(vllm, "a"))
    for _ in range(3):
        vllm.step(EngineCoreOutput("a", [6]))
    again = begun(vllm, PREEMPTED, SCHEDULED)
    vllm.step(EngineCoreOutput("a", [6, 6], LENGTH, events=again))

    told = [each.iteration for each in attached.hear().states]
    told = [each for each in told if each.generation_tokens]

    assert [each.generation_tokens for each in told] == [4, 2]
    intervals = [[count for _, count in each.inter_token_seconds] for each in told]
    assert [sum(counts) for counts in intervals] == [3, 2]
    assert [each.preemptions for each in told] == [0, 1]
    assert [len(each.first_tokens) for each in told] == [1, 0]
    assert [len(each.finished) for each in told] == [0, 1]


def test_end_of_the_server_ends_what_is_open() -> None:
    """Nothing stays in flight for ever."""
    attached = Attached()
    attached.vllm.add("a")
    heard = attached.hear()
    attached.front_end.close()

    assert Counter(each.reason for each in heard.ended) == {"error": 1}
    assert heard.latest().totals.residue.requests == 0


def test_tokens_that_vllm_adds_to_an_output_later_count_once() -> None:
    """It does so for a client that reads slowly, before our thread has counted."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    output = first(vllm, "a")
    vllm.step(output)
    output.new_token_ids.append(6)
    vllm.step(EngineCoreOutput("a", [6], LENGTH))

    heard = attached.hear()

    assert heard.total("generation_tokens") == heard.ended[0].output_tokens == 2


def test_refusals_and_sleep_are_told() -> None:
    """vLLM says 1 for asleep, whatever its parameter is called."""
    attached = Attached()
    logger = attached.vllm.stat_logger
    logger.record_admission_rejection("max_num_queued_reqs")
    logger.record_sleep_state(1, 2)
    heard = attached.hear()

    (refused,) = (each for state in heard.states for each in state.iteration.finished)
    assert refused.reason == "rejected"
    assert heard.latest().sleep_level == 2
    check_conservation(heard)

    logger.record_sleep_state(0, 0)
    assert attached.hear().latest().sleep_level == 0


def test_stop_string_in_the_last_tokens_is_why_it_ended() -> None:
    """The engine only knows that they are the last; its front end tells the client."""
    attached = Attached()
    vllm = attached.vllm
    vllm.add("a")
    last = first(vllm, "a")
    last.finish_reason = LENGTH
    done = FinishedRequestStats(STOP, "cmpl-a")
    vllm.step(last, iteration=IterationStats(finished_requests=[done]))

    assert [each.reason for each in attached.hear().ended] == ["stop"]


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_runs_waits_or_has_ended_whatever_happens(seed: int) -> None:
    """Requests and tokens are conserved at every moment, in any order of events."""
    chance, attached = Random(seed), Attached()  # noqa: S311
    vllm, states = attached.vllm, attached.processor.request_states
    begun: set[str] = set()
    for number in range(200):
        match chance.randrange(4):
            case 0:
                vllm.add(f"r-{number}")
            case 1 if states:
                attached.processor.abort_requests([chance.choice([*states])], True)
            case _:
                outputs = []
                for name in chance.sample([*states], len(states) // 2):
                    end = chance.choice((None, None, STOP, LENGTH))
                    kinds = () if name in begun else (QUEUED, SCHEDULED)
                    events = [EngineCoreEvent(each, vllm.seconds) for each in kinds]
                    outputs.append(EngineCoreOutput(name, [1], end, events=events))
                    begun.add(name)
                vllm.step(*outputs)
        check_conservation(attached.hear(), present=len(states))
    heard = attached.heard
    open_tokens = sum(
        each.timeline.output_tokens
        for engine in attached.engines.values()
        for each in engine.accounting.in_flight.values()
    )
    totals = heard.latest().totals
    assert totals.sampled_tokens == totals.finished_tokens + open_tokens
    assert len(heard.ended) == sum(totals.finished.values()) > 20

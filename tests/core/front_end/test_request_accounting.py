"""`RequestAccounting` alone, fed by hand as the front end of another engine would.

The engine's clock starts 5000 s before the front end's; times are in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from hookline.clock import NANOSECONDS
from hookline.events import (
    ClockPair,
    Finished,
    NewTokens,
    Preempted,
    PreemptionCause,
    Queued,
    Scheduled,
    StepRecord,
)
from hookline.finish_cause import (
    Aborted,
    Failed,
    LengthReached,
    Rejected,
    StoppedByString,
    StoppedByToken,
)
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.request_account import RequestAccount
from hookline.frozen import EMPTY
from hookline.request import FinishReason, GenerateRequest, RequestFacts, Slo
from hookline.sampling_params import SamplingParams
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.step_work import Execution
from hookline_metrics.families.finish_reasons import reason_of
from hookline_metrics.slo import Phase, judge
from hookline_testing.payloads import make_output

AHEAD = 5000.0
WALL = 1_700_000_000 * NANOSECONDS


def ns(seconds: float) -> int:
    return round(seconds * NANOSECONDS)


@dataclass
class Clock:
    """The front end's clock."""

    seconds: float = 0.0

    def now(self) -> int:
        return ns(self.seconds + AHEAD)

    def wall(self) -> int:
        return WALL + ns(self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class OtherFrontEnd:
    """Has ids and lengths of prompts, and no text, tokenizer or engine core."""

    is_detailed: bool = False
    keep_prompts: bool = False
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.accounting = RequestAccounting(
            self.clock,
            ClockPair(wall=WALL, monotonic=0),
            is_detailed=self.is_detailed,
            keep_prompts=self.keep_prompts,
        )

    def admit(
        self,
        *request_ids: int,
        at: float = 0.0,
        facts: RequestFacts | None = None,
        prompt_token_ids: list[int] | None = None,
        sections: Mapping[str, object] = EMPTY,
    ) -> list[RequestAccount]:
        """One client's request; an id for each completion."""
        request = GenerateRequest(
            prompt_token_ids=prompt_token_ids or [0] * 10,
            params=SamplingParams(n=len(request_ids)),
            facts=facts or RequestFacts(trace_id="t", span_id="s"),
            sections=sections,
        )
        return self.accounting.admit(
            request, request_ids, arrived_at=ns(at + AHEAD), is_streamed=True
        )

    def take(self, at: float, **events: object) -> IterationStats:
        """An output arrives at this time."""
        self.clock.seconds = at
        output = make_output(ns(at), **events)
        iteration = self.accounting.on_step_output(output, self.clock.now())
        assert self.accounting.residue == 0
        return iteration

    def client_ended(self, request_id: int, cause: StoppedByString | Aborted) -> None:
        self.accounting.client_ended(request_id, cause, self.clock.now())


def queued(request_id: int, at: float) -> Queued:
    return Queued(request_id, ns(at), 10)


def scheduled(
    request_id: int,
    at: float,
    *,
    local: int = 0,
    external: int = 0,
    again: int = 0,
    transferred: int = 0,
) -> Scheduled:
    return Scheduled(
        request_id,
        ns(at),
        local,
        external,
        again,
        is_resumed=again > 0,
        transferred_tokens=transferred,
    )


def tokens(request_id: int, at: float, count: int = 1) -> NewTokens:
    return NewTokens(request_id, ns(at), list(range(count)))


def length(request_id: int, at: float, output_tokens: int) -> Finished:
    return Finished(request_id, ns(at), LengthReached(), output_tokens)


def phases(request: FinishedRequest) -> tuple[float | None, ...]:
    """Queue, prefill, decode, inference."""
    return (
        request.queue_seconds,
        request.prefill_seconds,
        request.decode_seconds,
        request.inference_seconds,
    )


def seen(request: FinishedRequest) -> tuple[float | None, ...]:
    """TTFT, end to end, time per output token."""
    return request.ttft_seconds, request.e2e_seconds, request.tpot_seconds


def test_a_request_from_arrival_to_end() -> None:
    """Phases are taken on the engine's clock, what the client sees on its own."""
    front = OtherFrontEnd()
    front.admit(7, at=0.0)

    admitted = front.take(
        1.25,
        queued=[queued(7, 0.5)],
        scheduled=[scheduled(7, 1.0, local=3, external=2)],
    )
    first = front.take(3.25, new_tokens=[tokens(7, 3.0)])
    later = front.take(5.25, new_tokens=[tokens(7, 5.0, 4)])
    last = front.take(6.5, finished=[length(7, 6.0, 5)])

    waited = FirstScheduled(queue_seconds=0.5, trace_id="t", span_id="s")
    assert admitted == IterationStats(first_scheduled=(waited,))
    assert first.first_tokens == (
        FirstToken(
            seconds=3.25,
            prefill_seconds=2.0,
            is_streamed=True,
            trace_id="t",
            span_id="s",
        ),
    )
    assert (first.prompt_tokens_computed, first.prompt_tokens) == (5, 10)
    assert (first.prompt_tokens_local, first.prompt_tokens_external) == (3, 2)
    assert (first.generation_tokens, first.inter_token_seconds) == (1, ())
    assert (later.generation_tokens, later.inter_token_seconds) == (4, ((0.5, 4),))
    [request] = last.finished
    assert phases(request) == (0.5, 2.0, 2.0, 4.0)
    assert seen(request) == (3.25, 6.5, 0.5)
    assert (request.reason, request.output_tokens) == (FinishReason.LENGTH, 5)
    assert (request.prompt_tokens, request.local_cached_tokens) == (10, 3)
    assert last.finished_groups == (FinishedGroup(requests=(request,)),)


@pytest.mark.parametrize(
    ("failed", "external", "transferred"), [(0, 2, 4), (3, 2, 1), (5, 1, 0)]
)
def test_transferred_tokens_are_neither_cached_nor_computed(
    failed: int, external: int, transferred: int
) -> None:
    """A load that fails lacks its end, where they are; their source is told."""
    front = OtherFrontEnd()
    front.admit(7)
    events: dict[str, object] = {}
    if failed:
        lost = Preempted(7, ns(1.5), 9, failed, PreemptionCause.LOAD_FAILED)
        events["preempted"] = [lost]

    front.take(
        2.0,
        queued=[queued(7, 0.5)],
        scheduled=[scheduled(7, 1.0, local=3, external=2, transferred=4)],
        **events,
    )
    first = front.take(3.0, new_tokens=[tokens(7, 3.0)])
    [request] = front.take(4.0, finished=[length(7, 4.0, 1)]).finished

    assert (request.cached_tokens, request.transferred_tokens) == (
        3 + external,
        transferred,
    )
    assert request.computed_tokens == 10 - 3 - external - transferred
    assert (first.prompt_tokens_external, first.prompt_tokens_transferred) == (
        external,
        transferred,
    )
    assert (first.prompt_tokens, first.prompt_tokens_computed) == (
        10,
        request.computed_tokens,
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"do_remote_decode": True}, True),
        ({"do_remote_decode": False}, False),
        ({"do_remote_prefill": True}, False),
        ([], False),
        (None, False),
    ],
)
def test_prompt_for_another_instance_is_marked(
    asked: object, *, expected: bool
) -> None:
    """So that a client's request counts once, where it is decoded."""
    front = OtherFrontEnd()
    front.admit(7, sections={} if asked is None else {"kv_transfer": asked})
    front.take(1.0, queued=[queued(7, 0.5)], scheduled=[scheduled(7, 1.0)])

    [first] = front.take(2.0, new_tokens=[tokens(7, 2.0)]).first_tokens
    [request] = front.take(3.0, finished=[length(7, 3.0, 1)]).finished

    assert first.decodes_elsewhere is request.decodes_elsewhere is expected
    assert reason_of(request) == ("prefilled" if expected else "length")
    slo = msgspec.structs.replace(request.facts, slo=Slo(ttft=0.1))
    judged = judge(replace(request, facts=slo))
    assert (judged is None) is expected


def test_times_are_placed_on_one_wall_clock() -> None:
    """Both clocks' times fit on one time line; a new reading of the clocks counts."""
    front = OtherFrontEnd()
    front.admit(7, at=0.0)
    front.take(1.0, queued=[queued(7, 0.5)], scheduled=[scheduled(7, 0.75)])

    drifted = ClockPair(wall=WALL + ns(2), monotonic=ns(1.0))
    last = front.take(
        2.0, new_tokens=[tokens(7, 1.0)], finished=[length(7, 1.0, 1)], clock=drifted
    )

    times = last.finished[0].times
    assert times is not None
    assert times.arrived == WALL
    assert (times.queued, times.scheduled) == (WALL + ns(1.5), WALL + ns(1.75))
    assert times.first_token == times.last_token == WALL + ns(2)
    assert times.ended == WALL + ns(2)


def test_several_completions_are_one_group() -> None:
    """The group ends with its last completion and has the longest one's length."""
    front = OtherFrontEnd()
    front.admit(1, 2)
    front.admit(3)
    front.take(1, new_tokens=[tokens(1, 1, 6), tokens(2, 1, 2), tokens(3, 1, 1)])

    one = front.take(2, finished=[length(1, 2, 6), length(3, 2, 1)])
    two = front.take(3, finished=[length(2, 3, 2)])

    [short], [long] = one.finished_groups, two.finished_groups
    assert (short.n, short.max_output_tokens) == (1, 1)
    assert (long.n, long.max_output_tokens) == (2, 6)
    assert long.requests == (one.finished[0], *two.finished)
    indices = [each.completion_index for each in (*one.finished, *two.finished)]
    assert indices == [0, 0, 1]


def test_preemption_stalls() -> None:
    """Stalls before and after the first token are separate, with their costs."""
    front = OtherFrontEnd()
    front.admit(1)
    front.take(0, queued=[queued(1, 0)], scheduled=[scheduled(1, 0)])
    front.take(1, preempted=[Preempted(1, ns(1), 8)])
    resumed = front.take(3, scheduled=[scheduled(1, 3, again=8)])
    front.take(4, new_tokens=[tokens(1, 4)])
    stalled = front.take(5, preempted=[Preempted(1, ns(5), 11)])
    front.take(8.5, scheduled=[scheduled(1, 8.5, again=11)])
    front.take(9, new_tokens=[tokens(1, 9)])

    [request] = front.take(9, finished=[length(1, 9, 2)]).finished

    assert (stalled.preemptions, resumed.recomputed_tokens) == (1, 8)
    assert (request.preemptions, request.recomputed_tokens) == (2, 19)
    assert request.preempted_seconds == 5.5
    assert request.preempted_prefill_seconds == 2.0
    assert phases(request) == (0.0, 4.0, 5.0, 9.0)
    assert request.times is not None
    assert request.times.preempted == (
        (WALL + ns(1), WALL + ns(3)),
        (WALL + ns(5), WALL + ns(8.5)),
    )


def test_requests_that_decode_together_share_their_intervals() -> None:
    """Equal intervals are one entry with the number of tokens."""
    front = OtherFrontEnd()
    front.admit(1)
    front.admit(2)
    front.take(1, new_tokens=[tokens(1, 1), tokens(2, 1)])

    step = front.take(2.5, new_tokens=[tokens(1, 2.5), tokens(2, 2.5)])

    assert step.inter_token_seconds == ((1.5, 2),)


def test_client_that_was_served_before_the_engine_ended_the_request() -> None:
    """Cause and end are the client's; tokens count until the engine's FINISHED."""
    front = OtherFrontEnd()
    front.admit(1)
    front.take(1, new_tokens=[tokens(1, 1)])
    front.client_ended(1, StoppedByString("\n"))
    front.client_ended(1, Aborted("too late"))
    front.take(2, new_tokens=[tokens(1, 2)])

    between = front.accounting.num_in_flight, dict(front.accounting.finished)
    end = Finished(1, ns(3), Aborted("by the client"), 2)
    [request] = front.take(3, finished=[end]).finished

    assert between == (1, {})
    assert request.cause == StoppedByString("\n")
    assert (request.e2e_seconds, request.output_tokens) == (1.0, 2)
    assert front.accounting.finished == {"stop": 1}


def test_end_of_a_client_that_is_gone_changes_nothing() -> None:
    """A report about a finished or unknown request is ignored."""
    front = OtherFrontEnd()

    front.client_ended(1, Aborted("nobody"))

    assert (front.accounting.received, front.accounting.residue) == (0, 0)


def test_rejected_requests_are_counted_and_summed_up() -> None:
    """A rejection has the client's facts and the error, and no times."""
    front = OtherFrontEnd()
    facts = RequestFacts(client_id="mine")
    cause = Rejected("overloaded", "2 completions are open")

    [request] = front.accounting.reject(facts, cause).finished

    assert (request.facts, request.cause, request.times) == (facts, cause, None)
    assert front.accounting.finished == {"rejected": 1}
    assert (front.accounting.received, front.accounting.residue) == (1, 0)


def test_a_request_that_begins_again_waits_and_is_prefilled_once() -> None:
    """What a dead engine has begun is not observed again."""
    front = OtherFrontEnd()
    accounts = front.admit(1)

    before = front.take(1, queued=[queued(1, 0)], scheduled=[scheduled(1, 0.5)])
    front.accounting.restart(accounts)
    again = front.take(3, queued=[queued(1, 2)], scheduled=[scheduled(1, 2.25)])
    token = front.take(4, new_tokens=[tokens(1, 4)])

    assert [each.queue_seconds for each in before.first_scheduled] == [0.5]
    assert again.first_scheduled == ()
    assert [each.prefill_seconds for each in token.first_tokens] == [1.75]


def test_a_request_that_moves_is_received_once() -> None:
    """It is never in both books or in none; what it has waited for begins again."""
    first, second = OtherFrontEnd(), OtherFrontEnd()
    first.admit(1)
    first.admit(2)
    first.take(1, queued=[queued(1, 0)], scheduled=[scheduled(1, 0.5)])

    accounts = first.accounting.detach([1, 2])
    second.accounting.take_over(accounts)
    waiting = second.accounting.num_waiting_tokens
    unheard = second.accounting.num_unheard
    begun = second.take(2, queued=[queued(1, 1)], scheduled=[scheduled(1, 1.5)])
    ended = second.take(3, finished=[length(1, 3, 1), length(2, 3, 1)])

    for each, counts in ((first, (2, 0, 2, 0)), (second, (0, 2, 0, 2))):
        books = each.accounting
        finished = books.finished.get("length", 0)
        assert (books.received, books.migrated_in, books.moved, finished) == counts
        assert books.residue == books.num_waiting_tokens == books.num_in_flight == 0
    assert (waiting, unheard) == (20, 0)
    assert begun.first_scheduled == ()
    assert [each.request_id for each in ended.finished] == [1, 2]
    assert [each.queue_seconds for each in ended.finished] == [0.5, None]


def test_engine_that_died() -> None:
    """Every request ends once; its stall ends now, on the engine's clock."""
    front = OtherFrontEnd()
    front.admit(1)
    front.admit(2)
    front.admit(3)
    front.take(1, queued=[queued(1, 1), queued(2, 1)], scheduled=[scheduled(1, 1)])
    front.take(2, new_tokens=[tokens(1, 2)], preempted=[Preempted(1, ns(2), 10)])
    front.client_ended(2, Aborted("client"))
    unheard = front.accounting.num_unheard
    front.clock.seconds = 6.0

    iteration, events = front.accounting.end_all(Failed("died"), front.clock.now())

    assert unheard == 1
    causes = [Failed("died"), Aborted("client"), Failed("died")]
    assert [each.cause for each in events] == causes
    assert [each.cause for each in iteration.finished] == causes
    assert [event.at for event in events] == [ns(6)] * 3
    assert [each.e2e_seconds for each in iteration.finished] == [6.0, 2.0, 6.0]
    assert iteration.finished[0].preempted_seconds == 4.0
    assert len(iteration.finished_groups) == 3
    assert front.accounting.finished == {"error": 2, "abort": 1}
    assert (front.accounting.num_in_flight, front.accounting.residue) == (0, 0)


def test_events_of_unknown_requests_count_for_the_step_only() -> None:
    """Requests of other front ends are not accounted for here."""
    front = OtherFrontEnd()

    step = front.take(
        1,
        queued=[queued(9, 1)],
        scheduled=[scheduled(9, 1)],
        new_tokens=[tokens(9, 1)],
        preempted=[Preempted(9, ns(1), 3)],
        finished=[length(9, 1, 1)],
    )

    assert step == IterationStats(preemptions=1)
    assert front.accounting.received == 0


def test_facts_are_those_of_requests_in_flight() -> None:
    """Facts come for each request that is asked about and in flight."""
    front = OtherFrontEnd()
    facts = RequestFacts(client_id="mine")
    front.admit(1, facts=facts)
    front.admit(2)

    assert front.accounting.facts_of([1, 9]) == {1: facts}


@pytest.mark.parametrize("is_detailed", [False, True])
def test_step_times_are_charged_where_asked_for(*, is_detailed: bool) -> None:
    """With detailed traces each request of a step has the step's times in full."""
    front = OtherFrontEnd(is_detailed=is_detailed)
    front.admit(1)
    record = StepRecord(
        1,
        0,
        ns(0),
        ns(1),
        ns(3),
        ns(4),
        [(1, 10), (9, 1)],
        execution=Execution(forward_ns=ns(0.5)),
    )
    for at in (4.0, 5.0):
        front.take(at, record=record)

    [request] = front.take(6, finished=[length(1, 6, 0)]).finished

    found = (
        *(request.forward_seconds, request.execute_seconds),
        request.schedule_seconds,
    )
    assert found == ((1.0, 4.0, 2.0) if is_detailed else (None, None, None))


@pytest.mark.parametrize("are_kept", [True, False])
def test_token_ids_are_kept_where_asked_for(are_kept: bool) -> None:
    """Observers get the tokens of prompts and outputs if they want them."""
    front = OtherFrontEnd(keep_prompts=are_kept)
    front.admit(1, prompt_token_ids=[4, 5, 6])
    front.take(1, new_tokens=[tokens(1, 1, 2)])

    [request] = front.take(2, finished=[length(1, 2, 2)]).finished

    assert request.prompt_token_ids == ((4, 5, 6) if are_kept else None)
    assert request.output_token_ids == ((0, 1) if are_kept else None)


def test_objectives_are_judged() -> None:
    """A late first token is a miss of the phase that took longest."""
    front = OtherFrontEnd()
    front.admit(1, facts=RequestFacts(slo=Slo(ttft=1.0)))
    front.take(3, queued=[queued(1, 0)], scheduled=[scheduled(1, 2.5)])
    front.take(3, new_tokens=[tokens(1, 3)])

    end = Finished(1, ns(4), StoppedByToken(2), 1)
    [request] = front.take(4, finished=[end]).finished

    assert [(each.objective, each.phase) for each in judge(request) or ()] == [
        ("ttft", Phase.QUEUE)
    ]


def test_metrics_for_the_client() -> None:
    """An account gives its client what the summary gives the observers."""
    front = OtherFrontEnd()
    [account] = front.admit(1, at=0.25)
    front.take(1, queued=[queued(1, 0.5)], scheduled=[scheduled(1, 1)])
    front.take(3, new_tokens=[tokens(1, 3)])
    front.take(5, new_tokens=[tokens(1, 5)])
    front.client_ended(1, StoppedByString("x"))

    metrics = account.metrics(front.accounting.wall)

    assert metrics.arrival_time == WALL / NANOSECONDS + 0.25
    assert (metrics.queue_seconds, metrics.prefill_seconds) == (0.5, 2.0)
    assert (metrics.decode_seconds, metrics.inference_seconds) == (2.0, 4.0)
    assert (metrics.ttft_seconds, metrics.e2e_seconds) == (2.75, 4.75)
    assert (metrics.tpot_seconds, metrics.preemptions) == (2.0, 0)

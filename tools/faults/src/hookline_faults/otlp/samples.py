"""A hand-made finished request that passed every phase, with its times."""

from dataclasses import replace

from hookline.clock import NANOSECONDS
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.stats.finished_request import FinishedGroup, FinishedRequest, RequestTimes
from hookline.stats.iteration_stats import IterationStats
from hookline_testing.payloads import FINISHED

START = 1_700_000_000 * NANOSECONDS
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CLIENT_SPAN = "b7ad6b7169203331"
SPAN_ID = "00f067aa0ba902b7"


def at(seconds: float) -> int:
    """Returns the time this many seconds after the request's arrival."""
    return START + round(seconds * NANOSECONDS)


TRACED: FinishedRequest = replace(
    FINISHED,
    facts=RequestFacts(
        client_id="7",
        response_id="chatcmpl-7",
        tenant="acme",
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        trace_context={
            "traceparent": f"00-{TRACE_ID}-{CLIENT_SPAN}-01",
            "tracestate": "vendor=1",
        },
        operation="chat",
    ),
    params=SamplingParams(
        max_tokens=30, temperature=0.0, top_k=40, stop=("\n\n",), seed=7
    ),
    times=RequestTimes(
        arrived=at(0),
        queued=at(0.25),
        scheduled=at(0.5),
        first_token=at(1.75),
        last_token=at(5.75),
        ended=at(6),
        preempted=((at(0.75), at(1.25)), (at(3), at(3.25))),
    ),
    is_streamed=True,
    stored_prompt_tokens=4,
)
"""A traced request, preempted before and after its first token."""


def ended(*requests: FinishedRequest) -> IterationStats:
    """Returns the statistics of requests of one completion that end together."""
    groups = tuple(
        FinishedGroup(requests=(request,))
        for request in requests
        if request.reason is not FinishReason.REJECTED  # reached no engine
    )
    return IterationStats(finished=requests, finished_groups=groups)

"""Requests of which vLLM tells only sums and ends, because no wrap is in place."""

from collections.abc import Mapping, MutableMapping

from hookline.request import RequestFacts
from hookline.sampling_values import SamplingValues
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline_vllm.engine_events import ended_by
from hookline_vllm.shapes import IterationShape


class SummedRequests:
    """Statistics of iterations, made of vLLM's own.

    Attributes:
        finished: Number of ended requests by reason.
    """

    def __init__(self) -> None:
        self.finished: MutableMapping[str, int] = {}
        self._last_id = 0

    def iteration(self, told: IterationShape) -> IterationStats:
        """Returns the same statistics as Hookline's."""
        prompt = told.prompt_token_stats
        intervals: dict[float, int] = {}
        for seconds in told.inter_token_latencies_iter:
            intervals[seconds] = intervals.get(seconds, 0) + 1
        finished = tuple(map(self._finished, told.finished_requests))
        return IterationStats(
            prompt_tokens_computed=prompt.computed,
            prompt_tokens_local=prompt.local_cache_hit,
            prompt_tokens_external=prompt.external_kv_transfer,
            generation_tokens=told.num_generation_tokens,
            preemptions=told.num_preempted_reqs,
            first_tokens=tuple(
                FirstToken(seconds=seconds)
                for seconds in told.time_to_first_tokens_iter
            ),
            inter_token_seconds=tuple(intervals.items()),
            finished=finished,
            finished_groups=tuple(FinishedGroup(requests=(each,)) for each in finished),
        )

    def _finished(self, told: object) -> FinishedRequest:
        fields: Mapping[str, object] = vars(told)
        cause = ended_by(str(fields["finish_reason"]))
        reason = cause.reason.value
        self.finished[reason] = self.finished.get(reason, 0) + 1
        self._last_id += 1
        client_id = fields["request_id"]
        made: dict[str, object] = {
            ours: fields[theirs] for ours, theirs in _FIELDS.items()
        }
        return FinishedRequest(
            request_id=self._last_id,
            facts=RequestFacts(client_id=str(client_id or "")),
            cause=cause,
            params=SamplingValues(max_tokens=fields["max_tokens_param"]),  # type: ignore[arg-type]
            **made,  # type: ignore[arg-type]
        )


_FIELDS = {
    "prompt_tokens": "num_prompt_tokens",
    "output_tokens": "num_generation_tokens",
    "local_cached_tokens": "num_cached_tokens",
    "preemptions": "num_preemptions",
    "queue_seconds": "queued_time",
    "prefill_seconds": "prefill_time",
    "decode_seconds": "decode_time",
    "inference_seconds": "inference_time",
    "e2e_seconds": "e2e_latency",
}
"""Ours, and vLLM's names of the same."""

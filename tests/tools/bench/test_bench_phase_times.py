"""Phases of requests in results of offline benchmarks."""

import pytest

from hookline.outputs import RequestMetrics, RequestOutput
from hookline_bench.phase_times import phase_fields


def output(queue: float, prefill: float, decode: float | None) -> RequestOutput:
    metrics = RequestMetrics(
        arrival_time=1.0,
        queue_seconds=queue,
        prefill_seconds=prefill,
        decode_seconds=decode,
        inference_seconds=None,
        ttft_seconds=None,
        tpot_seconds=None,
        e2e_seconds=9.0,
        preemptions=0,
    )
    return RequestOutput(
        prompt_token_ids=[1],
        outputs=[],
        prompt_logprobs=None,
        cached_tokens=0,
        finished=True,
        metrics=metrics,
    )


def test_batches_have_the_means_of_their_phases() -> None:
    """
    Each phase has its mean over the requests of a batch that reached it, or none.
    """
    batches = [
        [output(1.0, 2.0, 3.0), output(3.0, 5.0, None)],
        [output(0.5, 0.25, None)],
    ]

    fields = phase_fields(batches)

    assert fields == {
        "queue_times": [pytest.approx(2.0), 0.5],
        "prefill_times": [pytest.approx(3.5), 0.25],
        "decode_times": [3.0, None],
    }

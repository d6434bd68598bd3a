"""An engine that has filled its cache once keeps nothing of the requests it serves."""

import gc
import tracemalloc
from itertools import count

from hookline.config import CacheConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline_testing.simulation import simulated_core

AT_ONCE = 8
REQUESTS = 200
"""Of each round: as many as fill the cache more than twice."""
ALLOWED_OBJECTS = 20
ALLOWED_BYTES = 16_384
"""Tables of dictionaries grow and shrink; a leak of 100 bytes a request would show."""
PARAMS = SamplingParams(max_tokens=6, ignore_eos=True)


def serve(core: EngineCore, numbers: "count[int]") -> None:
    """Serves a round of requests, no two of which have a prompt in common."""
    for _ in range(REQUESTS // AT_ONCE):
        for _ in range(AT_ONCE):
            number = next(numbers)
            prompt = [3 + (number * 31 + at * 7) % 900 for at in range(40)]
            core.add(
                GenerateRequest(
                    request_id=number, prompt_token_ids=prompt, params=PARAMS
                )
            )
        while core.has_work:
            core.step()


def test_nothing_is_kept_of_requests_that_have_ended() -> None:
    """Neither objects nor bytes: hashes of blocks go when their blocks are taken."""
    core = simulated_core(
        cache=CacheConfig(block_size=4, num_kv_blocks=200),
        scheduler=SchedulerConfig(max_num_seqs=AT_ONCE),
    )
    numbers = count()
    for _ in range(3):
        serve(core, numbers)

    tracemalloc.start()
    try:
        serve(core, numbers)
        gc.collect()
        objects, (size, _) = len(gc.get_objects()), tracemalloc.get_traced_memory()
        for _ in range(3):
            serve(core, numbers)
        gc.collect()
        more_objects = len(gc.get_objects()) - objects
        more_bytes = tracemalloc.get_traced_memory()[0] - size
    finally:
        tracemalloc.stop()

    assert more_objects < ALLOWED_OBJECTS
    assert more_bytes < ALLOWED_BYTES

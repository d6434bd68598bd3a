"""Requests that wait for KV: before their loads, during them, and after them."""

from collections.abc import Iterator

import msgspec
import pytest

from hookline.config import SchedulerConfig
from hookline.config.extensions import KV_TRANSFER
from hookline.finish_cause import Aborted
from hookline.request import GenerateRequest
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_kv_transfer.config import KVRole, KVTransferConfig
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.connected_core import BLOCK, ConnectedCore, connected_core
from hookline_testing.connectors import DictStore
from hookline_testing.simulation import engine_request

ELSEWHERE: dict[str, object] = {"do_remote_prefill": True}
ONE_AT_A_TIME = SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=64)


def prompt_of(number: int, num_blocks: int = 10) -> list[int]:
    return [3 + number * 100 + at for at in range(num_blocks * BLOCK + 1)]


def asking(number: int, params: dict[str, object]) -> GenerateRequest:
    """A request whose client has parameters for the connector."""
    request = engine_request(number, prompt_of(number), 4)
    return msgspec.structs.replace(request, sections={KV_TRANSFER: params})


def stages(stats: SchedulerStats) -> tuple[int, int, int]:
    """Number of requests before, in and after their loads."""
    transfers = transfers_of(stats)
    return (
        transfers.waiting_to_load,
        stats.held.get("remote_kv", 0),
        transfers.loaded_waiting,
    )


def seen(engine: ConnectedCore) -> Iterator[tuple[int, int, int]]:
    """The stages after each step; those equal to the ones before are left out."""
    last = None
    while engine.core.has_work:
        found = stages(engine.step().stats)
        if found != last:
            yield found
        last = found


def filled(*numbers: int, **options: object) -> DictStore:
    """A store that has the prompts' KV, whose loads take some steps."""
    store = DictStore(is_async=True, delay_seconds=0.02, **options)  # type: ignore[arg-type]
    engine = connected_core(store)
    for number in numbers:
        engine.core.add(engine_request(number, prompt_of(number), 1))
    engine.run()
    return store


def test_request_goes_through_the_stages() -> None:
    """There are blocks for one load; the loaded request waits for its turn."""
    engine = connected_core(filled(0, 1), num_blocks=16, scheduler=ONE_AT_A_TIME)
    engine.core.add(engine_request(9, prompt_of(9, 1), 8))
    engine.step()
    for number in (0, 1):
        engine.core.add(engine_request(number, prompt_of(number), 4))

    found = list(seen(engine))

    assert found == [
        (0, 0, 0),  # the batch is full, and nobody was looked up
        (1, 1, 0),
        (1, 0, 1),
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
        (0, 0, 0),
    ]


@pytest.mark.parametrize(
    ("params", "role", "count"),
    [
        (ELSEWHERE, KVRole.BOTH, 1),
        (ELSEWHERE, KVRole.CONSUMER, 1),
        (ELSEWHERE, KVRole.PRODUCER, 0),
        ({"do_remote_prefill": "yes"}, KVRole.BOTH, 0),
        ({"do_remote_decode": True}, KVRole.BOTH, 0),
    ],
)
def test_clients_word_counts_until_the_look_up(
    params: dict[str, object], role: KVRole, count: int
) -> None:
    """What nobody has is not waited for, and a producer loads nothing."""
    transfer = KVTransferConfig(kv_connector="dict", kv_role=role)
    engine = connected_core(DictStore(), transfer=transfer, scheduler=ONE_AT_A_TIME)
    engine.core.add(engine_request(9, prompt_of(9), 4))
    engine.step()
    engine.core.add(asking(0, params))

    found = list(seen(engine))

    assert found[0] == (count, 0, 0)
    assert found[-1] == (0, 0, 0)


@pytest.mark.parametrize("turns", range(12))
def test_aborted_requests_are_in_no_stage(turns: int) -> None:
    """Whatever they wait for when their clients leave."""
    engine = connected_core(filled(0, 1), num_blocks=16, scheduler=ONE_AT_A_TIME)
    engine.core.add(engine_request(9, prompt_of(9, 1), 2))
    for number in (0, 1):
        engine.core.add(asking(number, ELSEWHERE))
    for _ in range(turns):
        engine.step()

    engine.core.finish([0, 1], Aborted("gone"))

    assert stages(engine.core.report("test").stats) == (0, 0, 0)
    engine.run()

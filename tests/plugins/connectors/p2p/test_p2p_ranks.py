"""Engines of several ranks take KV from each other, each rank from its twin."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.engine_setup.building import build_core
from hookline_faults.p2p_transport import PREFILL, Wire, prefilled
from hookline_metrics.transfer_stats import transfers_of
from hookline_p2p.params import Source, prefill_params, remote_prefill
from hookline_p2p.transport import Peer
from hookline_testing.driven_engine import DrivenEngine, rest, turn_until
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle, make_oracle

MakeEngine = Callable[..., tuple[DrivenEngine, Wire]]

PROMPT = [(7 * index) % 300 for index in range(45)]
TOKENS = 8
SOURCES = [Source(Peer(f"rank-{rank}", "127.0.0.1", 9000 + rank), 7) for rank in (0, 1)]


def test_parameters_name_all_ranks() -> None:
    """Of one rank they are those that any producer has told so far."""
    told = prefill_params(SOURCES, 32)

    assert told["remote_ranks"] == [["rank-0", 9000], ["rank-1", 9001]]
    assert remote_prefill(told) == (tuple(SOURCES), 32)
    assert "remote_ranks" not in prefill_params(SOURCES[:1], 32)


@pytest.mark.parametrize(
    "ranks", ["ab", [], [["a"]], [["a", 0]], [["", 9000]], [["a", 9000]] * 257, [5]]
)
def test_wrong_ranks_are_refused(ranks: object) -> None:
    """A client may have sent anything."""
    told = {**prefill_params(SOURCES, 32), "remote_ranks": ranks}

    with pytest.raises(ValueError, match="remote_"):
        remote_prefill(told)


def test_a_producer_divided_otherwise_is_refused(make_engine: MakeEngine) -> None:
    """The load fails, the prompt is computed, and the producer's blocks are freed."""
    (producer, _), (consumer, _) = make_engine(), make_engine()
    told = prefilled(producer, PROMPT)
    rank = [told["remote_engine_id"], told["remote_port"]]

    request = consumer.add(PROMPT, TOKENS, {**told, "remote_ranks": [rank, rank]})
    turn_until([producer, consumer], lambda: request in consumer.ended)

    stopwatch = producer.pace.stopwatch()
    given, taken = rest([producer, consumer])
    assert stopwatch.took().own_seconds < 1.5  # before its deadline
    assert transfers_of(taken).failures == {"load": {"foreign": 1}}
    assert transfers_of(given).saves == 1
    assert len(consumer.tokens[request]) == TOKENS


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return make_oracle("llama", tmp_path_factory.mktemp("model"))


def consecutive_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        with ExitStack() as stack, suppress(OSError, OverflowError):
            probes = [stack.enter_context(socket.socket()) for _ in range(count)]
            probes[0].bind(("127.0.0.1", 0))
            first: int = probes[0].getsockname()[1]
            for place, probe in enumerate(probes[1:], 1):
                probe.bind(("127.0.0.1", first + place))
            return first


@contextmanager
def engines(
    folder: Path, division: tuple[int, int], count: int, **extra: object
) -> Iterator[list[DrivenEngine]]:
    """Engines of tensor × pipeline ranks that use p2p."""
    transfer = {"kv_connector": "p2p", "kv_connector_extra_config": extra}
    config = EngineConfig.from_options(
        model=str(folder),
        max_model_len=96,
        block_size=4,
        num_kv_blocks=64,
        threads=1,
        tensor_parallel_size=division[0],
        pipeline_parallel_size=division[1],
        kv_transfer_config=transfer,
    )
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            core = build_core(config, SystemClock())
            stack.callback(core.close)
            found.append(DrivenEngine(core))
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tensor", "pipeline"), essential([(2, 1), (1, 2), (2, 2)], (1, 2))
)
def test_each_rank_takes_its_part_from_its_twin(
    model: Oracle, tensor: int, pipeline: int
) -> None:
    """All but the prompt's last token, and the output is the oracle's."""
    with engines(model.folder, (tensor, pipeline), 2) as (producer, consumer):
        told = prefilled(producer, PROMPT)

        request = consumer.add(PROMPT, TOKENS, told)
        turn_until([producer, consumer], lambda: request in consumer.ended)

        _, stats = rest([producer, consumer])
    assert transfers_of(stats).transferred_tokens == 44
    assert transfers_of(stats).failures == {}
    assert consumer.tokens[request] == model.greedy(PROMPT, TOKENS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("division", [(2, 1), (1, 2), (2, 2)])
def test_each_rank_pushes_its_part_to_its_twin(
    model: Oracle, division: tuple[int, int]
) -> None:
    """The decoder's ranks listen on consecutive ports."""
    first = consecutive_ports(division[0] * division[1])
    with (
        engines(model.folder, division, 1, mode="push") as [producer],
        engines(model.folder, division, 1, port=first) as [consumer],
    ):
        to = {"remote_host": "127.0.0.1", "remote_port": first}
        told = prefilled(producer, PROMPT, PREFILL | to)
        rest([producer, consumer])  # it is free again: all is staged

        request = consumer.add(PROMPT, TOKENS, told)
        turn_until([producer, consumer], lambda: request in consumer.ended)

        _, stats = rest([producer, consumer])
    assert transfers_of(stats).transferred_tokens == 44
    assert transfers_of(stats).failures == {}
    assert consumer.tokens[request] == model.greedy(PROMPT, TOKENS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("other", [(2, 1), (1, 1)])
def test_another_division_is_computed(model: Oracle, other: tuple[int, int]) -> None:
    """Also one with as many ranks; blocks of one are not those of the other."""
    with (
        engines(model.folder, (1, 2), 1) as [producer],
        engines(model.folder, other, 1) as [consumer],
    ):
        told = prefilled(producer, PROMPT)

        request = consumer.add(PROMPT, TOKENS, told)
        turn_until([producer, consumer], lambda: request in consumer.ended)

        _, stats = rest([producer, consumer])
    assert transfers_of(stats).transferred_tokens == 0
    assert set(transfers_of(stats).failures["load"]) == {"foreign"}
    assert consumer.tokens[request] == model.greedy(PROMPT, TOKENS)

"""Which engines run on this machine, and which options machines share."""

from dataclasses import replace

import pytest

from hookline.config import EngineConfig, ParallelConfig
from hookline.engine_setup.engine_facts import config_hash
from hookline.exceptions import ConfigError
from hookline_background_compiling.config import BackgroundCompilingConfig
from hookline_cluster.config.cluster import ClusterConfig, local_engines
from hookline_cluster.machines.local_options import (
    contradiction,
    localized,
    shared_options,
)


def made(**options: object) -> EngineConfig:
    return EngineConfig.from_options(data_parallel_size=4, **options)


@pytest.mark.parametrize(
    ("options", "local", "remote"),
    [
        ({}, [0, 1, 2, 3], []),
        ({"data_parallel_size_local": 2}, [0, 1], [2, 3]),
        ({"data_parallel_start_rank": 2}, [2, 3], [0, 1]),
        (
            {"data_parallel_size_local": 1, "data_parallel_start_rank": 1},
            [1],
            [0, 2, 3],
        ),
        ({"data_parallel_size_local": 0}, [], [0, 1, 2, 3]),
    ],
)
def test_engines_are_here_or_elsewhere(
    options: dict[str, object], local: list[int], remote: list[int]
) -> None:
    """The start rank and the local size say which are here."""
    config = made(**options)

    cluster = ClusterConfig.of(config)
    assert list(cluster.local_indices) == local
    assert cluster.remote_indices == remote
    assert config.num_concurrent == len(local)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"data_parallel_start_rank": 4}, "start-rank: 4 is not below"),
        ({"data_parallel_size_local": 5}, "size-local: 5 engines from 0 on"),
        (
            {"data_parallel_size_local": 3, "data_parallel_start_rank": 2},
            "size-local: 3 engines from 2 on",
        ),
        ({"data_parallel_size_local": -1}, "size-local: must be at least 0"),
        ({"data_parallel_rpc_port": 65536}, "rpc-port: must be 0 to 65535, not 65536"),
    ],
)
def test_wrong_numbers_are_refused(options: dict[str, object], error: str) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match=error):
        made(**options)


def test_the_machine_does_not_change_the_hash() -> None:
    """Engines of all machines have the same configuration otherwise."""
    here = made(data_parallel_size_local=2)
    there = made(data_parallel_start_rank=2, data_parallel_address="10.0.0.1")

    assert config_hash(here) == config_hash(there)


def test_an_engine_keeps_what_is_its_machines_own() -> None:
    """All else is the head node's, and so is the model's name in the API."""
    head = made(model="demo", max_num_seqs=7, threads=3, data_parallel_size_local=2)
    local = made(model="/data/demo-b", threads=5, data_parallel_start_rank=2)

    config = localized(replace(head, engine_index=2), local)

    assert config.engine_index == 2
    assert config.model.model == "/data/demo-b"
    assert config.model.served_name == "demo"
    assert config.scheduler.max_num_seqs == 7
    assert config.executor.threads == 5
    assert list(ClusterConfig.of(config).local_indices) == [2, 3]
    assert localized(head, made()).executor.threads == 3


def test_an_option_of_a_section_may_be_its_machines_own() -> None:
    """The section is taken whole; without it the head node's stays."""
    head, local = made(), made(serve_while_compiling=False)

    ours, theirs = localized(head, local), localized(local, head)

    assert not BackgroundCompilingConfig.of(ours).serve_while_compiling
    assert not BackgroundCompilingConfig.of(theirs).serve_while_compiling
    assert list(ClusterConfig.of(ours).local_indices) == [0, 1, 2, 3]


def test_a_shared_option_must_be_the_head_nodes() -> None:
    """Neither those that were not given, nor local ones, nor those of loggers."""
    head = made(max_num_seqs=7, threads=3)
    loggers = made(stat_logger=("logging",), page_wait_seconds=1.0)

    assert contradiction(head, shared_options(made(threads=9))) is None
    assert contradiction(head, shared_options(made(max_num_seqs=7))) is None
    assert contradiction(head, shared_options(loggers)) is None
    assert contradiction(head, shared_options(made(max_num_seqs=8))) == (
        "--max-num-seqs is 8 there and 7 on the head node"
    )
    assert contradiction(head, {"new-option": "1"}) == (
        "--new-option is 1 there and unknown on the head node"
    )


@pytest.mark.parametrize(
    ("options", "here"),
    [
        ({"data_parallel_rank": 2}, [2]),
        ({"data_parallel_rank": 3, "data_parallel_external_lb": True}, [3]),
        ({"data_parallel_rank": 1, "data_parallel_size_local": 1}, [1]),
        ({"data_parallel_hybrid_lb": True, "data_parallel_size_local": 2}, [0, 1]),
        (
            {
                "data_parallel_hybrid_lb": True,
                "data_parallel_size_local": 2,
                "data_parallel_start_rank": 2,
            },
            [2, 3],
        ),
    ],
)
def test_a_server_behind_another_balancer_has_its_own_engines(
    options: dict[str, object], here: list[int]
) -> None:
    """It has numbers among all engines, and waits for no other machine."""
    config = made(**options)

    cluster = ClusterConfig.of(config)
    assert list(cluster.local_indices) == list(config.engine_indices) == here
    assert cluster.remote_indices == []
    assert [each.engine_index for each in local_engines(config)] == here
    assert config.num_concurrent == len(here)
    assert config_hash(config) == config_hash(made())


HYBRID: dict[str, object] = {
    "data_parallel_hybrid_lb": True,
    "data_parallel_size_local": 2,
}
ALONE: list[dict[str, object]] = [{"data_parallel_rank": 1}, HYBRID]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"data_parallel_external_lb": True}, "external-lb: requires data-parallel-r"),
        ({"data_parallel_hybrid_lb": True}, "hybrid-lb: requires data-parallel-size-l"),
        (HYBRID | {"data_parallel_size_local": 0}, "hybrid-lb: requires"),
        (HYBRID | {"data_parallel_rank": 1}, "hybrid-lb: cannot be combined"),
        ({"data_parallel_rank": 4}, "data-parallel-rank: 4 is not below"),
        ({"data_parallel_rank": -1}, "data-parallel-rank: must be at least 0"),
        (
            {"data_parallel_rank": 1, "data_parallel_size_local": 2},
            "size-local: must be 1 with data-parallel-rank",
        ),
        (
            {"data_parallel_rank": 1, "data_parallel_start_rank": 2},
            "start-rank: must be data-parallel-rank, 1",
        ),
        (HYBRID | {"data_parallel_start_rank": 3}, "size-local: 2 engines from 3 on"),
        *(
            (alone | {f"data_parallel_{name}": value}, f"{flag}: .*cannot be combined")
            for alone in ALONE
            for name, flag, value in (
                ("backend", "backend", "ray"),
                ("address", "address", "10.0.0.1"),
                ("rpc_port", "rpc-port", 29551),
                ("secret_file", "secret-file", "secret"),
            )
        ),
    ],
)
def test_what_such_a_server_cannot_have_is_refused(
    options: dict[str, object], error: str
) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match=error):
        made(**options)


def test_the_cluster_is_for_engines_or_ranks() -> None:
    """
    Its address means nothing without either, and it does not place both.
    """
    engines = EngineConfig.from_options(
        data_parallel_size=2, data_parallel_backend="ray", ray_address="auto"
    )
    ranks = EngineConfig.from_options(
        tensor_parallel_size=2, distributed_executor_backend="ray", ray_address="auto"
    )

    assert (engines.executor_name, ranks.executor_name) == ("uniproc", "ray")
    assert ranks.parallel.world_size == 2
    with pytest.raises(ConfigError, match="ray-address: requires"):
        EngineConfig.from_options(ray_address="auto")
    with pytest.raises(ConfigError, match="cannot be combined with the executor ray"):
        EngineConfig.from_options(data_parallel_backend="ray", executor="ray")


def test_ranks_divide_the_machine_that_they_are_on() -> None:
    """
    All of an engine, unless something has placed them.
    """
    together = ParallelConfig(tensor_parallel_size=4)
    apart = replace(together, ranks_here=1)

    assert (together.num_here, apart.num_here) == (4, 1)
    assert EngineConfig(parallel=together).num_concurrent == 4
    assert EngineConfig(parallel=apart).num_concurrent == 1

"""A Ray cluster of two nodes on this machine, and engines on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline import AsyncEngine
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
)
from hookline_cluster.config import ClusterConfig, MachinesConfig
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_simulated.config import SimulationConfig

StartEngine = Callable[[EngineConfig], Awaitable[AsyncEngine]]


class Nodes:
    """The nodes of a cluster, each with one CPU."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.address: str = cluster.address

    @property
    def engines(self) -> dict[int, tuple[Any, int, int]]:
        """Node, actor's and engine's process ids of each engine, by its index."""
        return self._running("hookline_cluster.machines.remote_engine_process")

    @property
    def ranks(self) -> dict[int, tuple[Any, int, int]]:
        """Node, actor's and rank's process ids of each rank, by its index."""
        return self._running("hookline_cluster.ranks.connected_rank_process")

    def _running(self, module: str) -> dict[int, tuple[Any, int, int]]:
        found: dict[int, tuple[Any, int, int]] = {}
        for node in self.cluster.list_all_nodes():
            raylet = node.all_processes["raylet"][0].process.pid
            for actor in children_of(raylet):
                for process in children_of(actor):
                    words = command_of(process)
                    if module in words:
                        found[int(words[3])] = (node, actor, process)
        return found

    def kill_node(self, node: Any) -> None:
        """Kills a node's processes, as the end of its machine would."""
        self.cluster.remove_node(node, allow_graceful=False)


def children_of(pid: int) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = each.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid:
            found.append(int(each.parent.name))
    return found


def command_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """Two nodes with a CPU each; they end with the test."""
    pytest.importorskip("ray", reason="Ray is not installed: make ray")
    from hookline_ray.two_nodes import cluster_of  # noqa: PLC0415 - it imports Ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with cluster_of(2) as cluster:
        yield Nodes(cluster)


@pytest.fixture
def on_ray(nodes: Nodes) -> EngineConfig:
    """Two engines without a model, slow enough to be killed while requests run."""
    return EngineConfig(
        model=ModelConfig(model="demo"),
        cache=CacheConfig(num_kv_blocks=256),
        executor=ExecutorConfig(name="simulated"),
        sections={
            "simulated": SimulationConfig(step_seconds=0.02),
            "cluster": ClusterConfig(
                data_parallel_size=2,
                machines=MachinesConfig(
                    backend="ray", ray_address=nodes.address, join_timeout=60
                ),
            ),
            "supervision": SupervisionConfig(engine_restart=10),
        },
        in_process=False,
    )


@pytest.fixture
async def start_engine(nodes: Nodes) -> AsyncIterator[StartEngine]:
    """Starts engines on the event loop and closes them before the cluster ends."""
    del nodes
    engines: list[AsyncEngine] = []

    async def start(config: EngineConfig) -> AsyncEngine:
        engines.append(await AsyncEngine.start(config))
        return engines[-1]

    yield start

    for engine in engines:
        await asyncio.wait_for(engine.close(), 30)
        assert engine._front_end.engines.residue == 0
        assert engine._front_end.engines.num_unconfirmed == 0

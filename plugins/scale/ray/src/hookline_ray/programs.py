"""What the processes of engines and ranks are told on their nodes."""

from dataclasses import replace

import msgspec

from hookline.config import EngineConfig
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.enlistment import Enlistment
from hookline_ray.messages import Start, StartRank
from hookline_ray.process_actor import Program

_ENGINE = "hookline_cluster.machines.remote_engine_process"
_RANK = "hookline_cluster.ranks.connected_rank_process"


def engine_program(start: Start, num_beside: int) -> Program:
    """Returns the program of an engine.

    Args:
        start: What it is.
        num_beside: Number of engines on its node, with itself.
    """
    index = start.config.engine_index
    message = Enlistment(_among(start.config, num_beside), start.secret).packed()
    return Program(_ENGINE, (index,), f"engine {index}", message)


def rank_program(start: StartRank, num_beside: int, address: str) -> Program:
    """Returns the program of a rank.

    Args:
        start: What it is.
        num_beside: Number of the engine's ranks on its node, with itself.
        address: Address of the node.
    """
    enlisted = msgspec.structs.replace(
        start.enlisted, ranks_here=num_beside, address=address
    )
    return Program(_RANK, (enlisted.rank,), f"rank {enlisted.rank}", enlisted.packed())


def _among(config: EngineConfig, engines: int) -> EngineConfig:
    """Returns the configuration of one of several engines on a node.

    They divide its memory.
    """
    cluster = ClusterConfig.of(config)
    most = cluster.num_engines  # engines that were added are beyond it
    machines = replace(cluster.machines, size_local=min(engines, most))
    cluster = replace(cluster, machines=machines)
    return replace(config, sections={**config.sections, cluster.key: cluster})

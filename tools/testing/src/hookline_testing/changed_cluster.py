"""Configurations with another section `cluster`."""

from dataclasses import replace
from typing import Any

from hookline.config.engine import EngineConfig
from hookline_cluster.config.cluster import ClusterConfig


def changed(
    config: EngineConfig, *, engines: int | None = None, **machines: Any
) -> EngineConfig:
    """Returns a configuration with another number of engines, or other machines."""
    cluster = ClusterConfig.of(config)
    cluster = replace(
        cluster,
        data_parallel_size=engines or cluster.data_parallel_size,
        machines=replace(cluster.machines, **machines),
    )
    return replace(config, sections={**config.sections, cluster.key: cluster})

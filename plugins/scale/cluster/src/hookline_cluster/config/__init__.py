"""The section `cluster` of a configuration: how many engines there are, and where."""

from hookline_cluster.config.cluster import ClusterConfig, LoadBalancing
from hookline_cluster.config.engine_range import EngineRange
from hookline_cluster.config.machines import MachinesConfig

__all__ = ["ClusterConfig", "EngineRange", "LoadBalancing", "MachinesConfig"]

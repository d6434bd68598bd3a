"""Cluster `sample`: where a front end has its engines.

A front end asks the entry points `cluster` and `process`. To take the place of one,
rename this entry point and remove the distribution that has it.
"""

from hookline import hookimpl
from hookline.config.engine import EngineConfig
from hookline.transport.engine_client import EngineClient
from hookline.transport.native import connect_in_process


class SampleCluster:
    """Has the engines in this process."""

    def connect(self, config: EngineConfig) -> EngineClient:
        """Starts the engines, and returns once they are ready."""
        return connect_in_process(config)


@hookimpl
def create_cluster() -> SampleCluster:
    """Called when a front end starts."""
    return SampleCluster()

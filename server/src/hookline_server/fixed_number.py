"""The number of engines of a server that has no means to change it."""

from hookline.exceptions import ConfigError
from hookline.payloads import EngineFacts
from hookline_server.engine_number import ScalingReport, ScalingState
from hookline_server.engine_sharing import require_cluster


class FixedNumber:
    """An `EngineNumber` of one engine, which stays alone."""

    def __init__(self, facts: EngineFacts) -> None:
        """Reports the engine of these facts."""
        self._index = facts.engine_index

    async def report(self) -> ScalingReport:
        return ScalingReport(ScalingState((self._index,)), 1, is_changing=False)

    async def scale(self, number: int, *, drain_seconds: float) -> ScalingState:
        """Refuses, and names what would do it.

        Raises:
            ConfigError: Always.
        """
        del number, drain_seconds
        option = "data-parallel-size"
        require_cluster(option)
        raise ConfigError(option, "the engine has no means to change it")

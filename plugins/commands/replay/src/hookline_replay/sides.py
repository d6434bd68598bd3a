"""The scheduler's sides of the extensions that an engine had."""

from collections.abc import Collection

from hookline.config import EngineConfig
from hookline.config.extensions import FAIR, PIPELINE
from hookline.engine.scheduler.extension import SchedulerSide, scheduler_sides
from hookline.engine.scheduler.extension_port import SchedulerPort
from hookline.finish_cause import Embedded
from hookline.plugin_loading.extensions import load_extensions
from hookline.pooling import POOLING

DECIDING = (FAIR, PIPELINE)
"""Names of the extensions that decide by what they are told of requests alone."""


class RecordedPooling(SchedulerSide):
    """Ends requests whose prompts had been pooled."""

    def start(self, port: SchedulerPort) -> None:
        self._port = port

    def update(self, section: object, now: int) -> None:
        assert isinstance(section, list)
        for request_id in section:
            self._port.complete(request_id, Embedded(), None, now)


def make_sides(
    config: EngineConfig, names: Collection[str] = DECIDING
) -> dict[str, SchedulerSide]:
    """Makes the sides that decide in a scheduler.

    Args:
        config: The engine's configuration.
        names: Names of those that may be made, if the configuration needs them.

    Raises:
        ConfigError: An extension that the engine had is not installed.
    """
    sides = scheduler_sides(load_extensions(config, only=names))
    return {**sides, POOLING: RecordedPooling()}

"""The plugin `process`: what Hookline's core asks of this package."""

from hookline.config import EngineConfig
from hookline.frontend.extension import FrontEndParts
from hookline.transport.engine_client import EngineClient
from hookline_process_engine.supervision.extension import SupervisingExtension


class SingleEngine:
    """Has an engine in a process of its own, and what `ExtendsFrontEnds`."""

    def connect(self, config: EngineConfig) -> EngineClient:
        """Starts the engine and waits for it; imports the sockets only then."""
        from hookline_process_engine.process_client import connect  # noqa: PLC0415

        return connect(config)

    def extend(
        self, config: EngineConfig, parts: FrontEndParts
    ) -> SupervisingExtension:
        return SupervisingExtension(config, parts)

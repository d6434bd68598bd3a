"""Engine `sample`: Hookline's own, in this process; `--engine sample` selects it."""

from hookline import hookimpl
from hookline.config.engine import EngineConfig
from hookline.transport.engine_client import EngineClient
from hookline.transport.native import connect_in_process


@hookimpl
def connect_engine_client(context: EngineConfig) -> EngineClient:
    """Starts the engine and returns a client to it; put your own in its place."""
    return connect_in_process(context)

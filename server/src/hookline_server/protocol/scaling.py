"""Messages of `/scale`, and of vLLM's `/scale_elastic_ep`."""

from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline_server.engine_number import MOST_ENGINES
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.wire import Int64

MOST_DRAIN_SECONDS = 86_400.0

Engines = Annotated[Int64, bounds(minimum=1, maximum=MOST_ENGINES)]
DrainSeconds = Annotated[float, bounds(minimum=0, maximum=MOST_DRAIN_SECONDS)]


class ScaleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A number of engines.

    Attributes:
        data_parallel_size: Number of engines.
        drain_timeout: Seconds for the requests of engines that leave; beyond it these
            engines stay.
    """

    data_parallel_size: Engines
    drain_timeout: DrainSeconds = 300.0


class EngineInScale(msgspec.Struct, frozen=True):
    """An engine: `serving`, `starting` or `leaving`."""

    engine: int
    state: str


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The engines of the server.

    Attributes:
        data_parallel_size: Number of engines that serve.
        wanted: Number that was chosen last.
        is_scaling: Whether engines start or leave.
        engines: All of them.
    """

    data_parallel_size: int
    wanted: int
    is_scaling: bool
    engines: list[EngineInScale]


class ElasticRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The same as `ScaleRequest`, by vLLM's names and with its default."""

    new_data_parallel_size: Engines
    drain_timeout: DrainSeconds = 120.0


class ElasticScaled(msgspec.Struct, frozen=True):
    """What has been done, in vLLM's words."""

    message: str


class ElasticState(msgspec.Struct, frozen=True):
    """Whether engines come or go."""

    is_scaling_elastic_ep: bool


def check_drain_timeout(seconds: float) -> None:
    """Checks the time for requests of engines that leave."""
    if not 0 <= seconds <= MOST_DRAIN_SECONDS:
        raise RequestError(
            f"drain_timeout must be 0 to {MOST_DRAIN_SECONDS:.0f} seconds",
            param="drain_timeout",
        )

"""Where a request was served."""

from dataclasses import dataclass

from hookline_metrics.front_end_parts import ServerAddress


@dataclass(frozen=True, slots=True)
class Origin:
    """The engine and the server of a request.

    Attributes:
        model: Served name of the model.
        engine_index: Index of the engine.
        server: Address of the server; None if there is none, or it is not known yet.
    """

    model: str
    engine_index: int
    server: ServerAddress | None = None

"""What an extension of the engine adds to a client's request, in the front end."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPart:
    """An extension's part of a request.

    Attributes:
        section: What the extension gets of the request in the engine.
        is_prefill_only: Whether the request ends with its prompt, and nothing is
            sampled for it.
        skip_reading_prefix_cache: Whether all of its prompt has to be computed.
        adapter: As of `GenerateRequest`.
    """

    section: object
    is_prefill_only: bool = False
    skip_reading_prefix_cache: bool = False
    adapter: str | None = None


@runtime_checkable
class PreparingFacts(Protocol):
    """An extension's section of `EngineFacts` that decides about requests.

    Its method is called for each request of the engine, in the front end's process.
    """

    def prepared(
        self, asked: object | None, request: object | None = None
    ) -> RequestPart | None:
        """Returns the extension's part of a request; None if it has none.

        Args:
            asked: What the client asks of the extension, such as `PoolingParams`; None
                if it asks nothing.
            request: The `GenerateRequest`, if there is one.

        Raises:
            RequestError: The engine does not serve the request.
        """

"""The readiness gate of requests that wait for KV from a connector."""

from collections.abc import Callable, Sequence

from hookline.engine.scheduler.readiness import Readiness
from hookline.request import Request


class RemoteKVGate:
    """A `ReadinessGate` that admission closes itself, once a load has begun.

    What can be loaded depends on the prefix that is cached at that moment. A request
    is released with the end of its load, which has its own deadline.
    """

    name = "remote_kv"
    param = None
    is_pending = False
    timeout_ns = None

    def __init__(
        self, arrived: Callable[[Request], None], drop_load: Callable[[Request], None]
    ) -> None:
        self._arrived = arrived
        self._drop_load = drop_load

    def is_open(self, request: Request) -> bool:
        """Returns True: only admission finds out whether there is a load."""
        self._arrived(request)
        return True

    def take_ready(self) -> Sequence[Readiness]:
        """Returns nothing: requests are released with the end of their loads."""
        return ()

    def cancel(self, request: Request) -> None:
        """Drops the load of a request that ends."""
        self._drop_load(request)

    def close(self) -> None:
        """There is nothing to end: loads belong to the connector."""

"""Hands data to one of the SDK's exporters and finds out whether it arrived."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from hookline_otel.outage_log import OutageLog
from hookline_otel.sdk_log import SdkMessages
from hookline_registry import Failure, isolate

Data = TypeVar("Data")
Data_contra = TypeVar("Data_contra", contravariant=True)


class Exporter(Protocol[Data_contra]):
    """What the SDK's exporters have in common."""

    def export(self, data: Data_contra, /) -> object:
        """Sends, and tries again for as long as its timeout allows."""
        ...

    def shutdown(self) -> None:
        """Makes `export` give up; returns at once."""
        ...


class Delivery(Generic[Data]):
    """One exporter; raises nothing, whatever the exporter does."""

    def __init__(
        self, exporter: Exporter[Data], success: object, outage: OutageLog
    ) -> None:
        """Takes over the exporter.

        Args:
            exporter: Ends with `shutdown`.
            success: What its `export` returns if the data arrived.
            outage: Is told of failures.
        """
        self._exporter = exporter
        self._success = success
        self._outage = outage

    def send(self, make: Callable[[], Data]) -> str | None:
        """Makes the data and sends it; returns why it failed, None if it did not."""
        with SdkMessages() as messages:
            outcome = isolate(lambda: self._exporter.export(make()))
        if isinstance(outcome, Failure):
            return outcome.summary
        if outcome is not self._success:
            return messages.first or "the exporter gave no reason"
        self._outage.arrived()
        return None

    def tell_lost(self, why: str, lost: str) -> None:
        self._outage.failed(why, lost)

    def shutdown(self) -> None:
        self._exporter.shutdown()

"""What a KV connector does on the scheduler's side and on the worker's side.

Every transfer has a deadline, a state and a terminal event: each request id that a
worker was told to load or save is reported exactly once by `get_finished`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hookline.request import Request


@dataclass(frozen=True, slots=True)
class ConnectorMetadata:
    """What the scheduler's side tells the worker's side for one step.

    Attributes:
        payload: The connector's own msgpack.
    """

    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResults:
    """Transfers that reached their end since the last question.

    Attributes:
        saved: Request ids whose blocks may be freed.
        loaded: Request ids whose blocks are filled.
        failed: (request id, reason) of loads that did not succeed.
    """

    saved: Sequence[int] = ()
    loaded: Sequence[int] = ()
    failed: Sequence[tuple[int, str]] = ()


class SchedulerConnector(Protocol):
    """The scheduler's side: decides what is loaded and what is saved."""

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Tokens that can be loaded beyond those computed, and whether asynchronously.

        Must have no effect: it may be asked many times.
        """
        ...

    def update_state_after_alloc(
        self, request: Request, block_ids: Sequence[int], num_external_tokens: int
    ) -> None:
        """Notes that blocks were set aside for the tokens that it offered."""
        ...

    def build_connector_meta(self) -> ConnectorMetadata:
        """Returns the step's orders for the workers and starts the next list."""
        ...

    def request_finished(self, request: Request, block_ids: Sequence[int]) -> bool:
        """Whether the blocks must be kept until the worker reports them saved."""
        ...


class WorkerConnector(Protocol):
    """The worker's side: moves the bytes."""

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        """Starts the step's loads; called before the forward pass."""
        ...

    def wait_for_layer_load(self, layer_index: int) -> None:
        """Returns when the layer's synchronous loads are in place."""
        ...

    def save_kv_layer(self, layer_index: int) -> None:
        """Starts saving what the step wrote to the layer."""
        ...

    def wait_for_save(self) -> None:
        """Returns when what the step wrote may be overwritten."""
        ...

    def get_finished(self) -> TransferResults:
        """Transfers that ended since the last call."""
        ...

"""The two sides of a KV connector: one in the scheduler, one in the worker.

A transfer is a load or a save. The engine numbers each transfer, gives it a deadline
and opens its blocks to the connector. A transfer ends when the connector reports it, or
when the engine cancels it. From then on its blocks are closed: late accesses raise
`TransferClosedError` and change nothing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeGuard

from hookline_kv_transfer.capabilities import SchedulerCapabilities, WorkerCapabilities
from hookline_kv_transfer.layout import KVLayout
from hookline_kv_transfer.messages import (
    ConnectorMetadata,
    ConnectorRequest,
    Load,
    PlannedStep,
    TransferResults,
)
from hookline_metrics.connector_events import TierEvent
from hookline_metrics.transfer_calls import TierReset
from hookline_metrics.transfer_stats import TierStats

if TYPE_CHECKING:  # needs numpy, which parsing options does not
    from hookline_kv_transfer.blocks import KVBlocks


class SchedulerConnector(Protocol):
    """The scheduler's side: decides what is loaded and what is saved.

    The scheduling thread calls it, so every request waits for it. If a call raises, the
    failure is counted and the request is computed without the connector.
    """

    @property
    def capabilities(self) -> SchedulerCapabilities:
        """The optional calls that it implements; may be a plain attribute."""
        ...

    def register_kv_layout(self, layout: KVLayout) -> None:
        """Called once, after the model is loaded and before any other call.

        Raises:
            ConfigError: The connector cannot use such blocks; the start ends with it.
        """
        ...

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Returns how many tokens beyond the computed ones can be loaded.

        Must have no side effects: it may be called many times for one request. The
        engine loads full blocks only, and always computes at least the last token.

        Returns:
            The number of tokens, and whether they are loaded asynchronously.
        """
        ...

    def update_state_after_alloc(self, request: ConnectorRequest, load: Load) -> None:
        """Called when blocks were allocated for tokens that the connector offered.

        The load starts in the worker's `start_load_kv`, with the next metadata.
        """
        ...

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        """Returns the step's orders for the worker's side, and starts the next list.

        Without metadata the worker's side is called for `get_finished` only.
        """
        ...

    def request_finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, Mapping[str, object] | None]:
        """Called when a request has finished, for any reason.

        Args:
            request: The request.
            block_ids: Its blocks with valid content, in order; empty if it was waiting
                or its KV may be wrong.
            transfer_id: Number of the save that starts if the blocks are kept.

        Returns:
            Whether to keep the blocks until the worker's side reports the transfer as
            saved, and the `kv_transfer_params` of the request's output.
        """
        ...

    def shutdown(self) -> None:
        """Releases everything; the last call."""
        ...


class ReceivingConnector(SchedulerConnector, Protocol):
    """A scheduler's side whose capabilities have `receives_payloads`."""

    def update_connector_output(self, payload: bytes) -> None:
        """Called with the payload of a step; later steps may be planned already."""
        ...


class TieredConnector(SchedulerConnector, Protocol):
    """A scheduler's side whose capabilities have `has_tiers`."""

    def tier_stats(self) -> Mapping[str, TierStats]:
        """Returns each tier's state, and its totals since the start, by tier name.

        Called before the first step and after every step, so it must be cheap. At
        most 8 tiers.
        """
        ...


class ResettableConnector(SchedulerConnector, Protocol):
    """A scheduler's side whose capabilities have `resets_cache`."""

    def reset_cache(self, *, external: bool | None) -> Mapping[str, TierReset]:
        """Drops cached blocks if asked; returns what was done to each tier, by name.

        What is dropped must not be offered any more, also while the worker's side still
        has it; it learns of it with the next metadata. At most 8 tiers.

        Args:
            external: Which tiers: all if true, none if false; if None those that other
                engines do not share.
        """
        ...


class TierEventConnector(SchedulerConnector, Protocol):
    """A scheduler's side whose capabilities have `tells_tier_events`."""

    def take_tier_events(self) -> Sequence[TierEvent]:
        """Returns the events since the last call; at most 1024 are taken.

        Called for each output of the engine.
        """
        ...

    def is_moving(self) -> bool:
        """Returns whether threads of the worker's side still move blocks.

        An engine without work goes on polling the worker's side until they do not.
        """
        ...


class WorkerConnector(Protocol):
    """The worker's side: moves the bytes.

    One thread of the engine calls it, and the executor computes nothing meanwhile. A
    call that takes longer than `kv_call_timeout_seconds` has hung: its loads and saves
    fail, their blocks are closed, and the connector is never called again. The
    connector's own threads may access the blocks of open transfers at any time. The
    calls of a step come in the order below; the two for each layer only if its
    capabilities have `needs_layers`. If a call raises, the failure is counted and the
    loads that it concerns have failed.
    """

    @property
    def capabilities(self) -> WorkerCapabilities:
        """The optional calls that it implements; may be a plain attribute."""
        ...

    def register_kv_caches(self, blocks: "KVBlocks") -> bytes | None:
        """Called once, before any other call.

        Returns:
            `KVLayout.handshake` for the scheduler's side, such as the port that the
            connector listens on; may be None.

        Raises:
            ConfigError: The connector cannot use the blocks; the start ends with it.
        """
        ...

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        """Starts the step's loads; called before the forward pass.

        Evicted blocks that are to be kept must be read before anything is loaded.
        """
        ...

    def wait_for_layer_load(self, layer_index: int) -> None:
        """Returns when the step's synchronous loads have filled the layer.

        Called before the layer's attention, if the step has such loads.
        """
        ...

    def save_kv_layer(self, layer_index: int) -> None:
        """Starts to save what the step wrote to the layer; called after its attention.

        Only in steps with metadata.
        """
        ...

    def wait_for_save(self) -> None:
        """Returns when the blocks that the step wrote may be overwritten.

        Only in steps with metadata.
        """
        ...

    def get_finished(self) -> TransferResults:
        """Returns the transfers that ended since the last call.

        Called at the end of each step, and periodically while nothing is computed. A
        synchronous load that is not reported in its own step has failed.
        """
        ...

    def shutdown(self) -> None:
        """Ends its threads; the last call."""
        ...


def receives_payloads(
    connector: SchedulerConnector,
) -> TypeGuard[ReceivingConnector]:
    """Whether a scheduler's side takes payloads of the worker's side."""
    return connector.capabilities.receives_payloads


def has_tiers(connector: SchedulerConnector) -> TypeGuard[TieredConnector]:
    """Whether a scheduler's side reports statistics of tiers."""
    return connector.capabilities.has_tiers


def tells_tier_events(connector: SchedulerConnector) -> TypeGuard[TierEventConnector]:
    """Whether a scheduler's side reports the events of its tiers."""
    return connector.capabilities.tells_tier_events


def resets_cache(connector: SchedulerConnector) -> TypeGuard[ResettableConnector]:
    """Whether a scheduler's side can drop what it keeps."""
    return connector.capabilities.resets_cache

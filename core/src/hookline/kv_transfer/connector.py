"""What a KV connector does on the scheduler's side and on the worker's side.

A transfer is a load or a save. The engine numbers each, gives it a deadline, and opens
its blocks to the connector; it ends when the connector reports it, once, or when the
engine gives it up. From then on its blocks are closed: whoever is late finds that out
(`TransferClosedError`) and can do no harm.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from hookline.kv_transfer.layout import KVLayout
from hookline.kv_transfer.messages import (
    ConnectorMetadata,
    ConnectorRequest,
    Load,
    PlannedStep,
    TransferResults,
)
from hookline.stats import TierStats

if TYPE_CHECKING:  # blocks are made of arrays, which whoever reads options needs not
    from hookline.kv_transfer.blocks import KVBlocks


class SchedulerConnector(Protocol):
    """The scheduler's side: decides what is loaded and what is saved.

    Called by the thread that plans: all requests wait for it. What it raises is
    counted, and the request goes on without it.
    """

    def register_kv_layout(self, layout: KVLayout) -> None:
        """Called once, when the model is loaded, and before everything else.

        Raises:
            ConfigError: It cannot use such blocks; the start ends with it.
        """
        ...

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Tokens that can be loaded behind those computed, and whether asynchronously.

        Must have no effect: it may be asked many times. The engine takes full blocks of
        what is offered, and leaves at least the request's last token to compute.
        """
        ...

    def update_state_after_alloc(self, request: ConnectorRequest, load: Load) -> None:
        """Notes that blocks were set aside for tokens that it offered.

        The load begins with the worker's `start_load_kv` that is given the next
        metadata.
        """
        ...

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        """Returns the step's orders for the worker's side and starts the next list.

        Without any the worker's side is only asked what has finished.
        """
        ...

    def request_finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, Mapping[str, object] | None]:
        """Called when a request has ended, whatever the reason.

        Args:
            request: It.
            block_ids: Its blocks with right content, in order; none if it was waiting
                or its KV may be wrong.
            transfer_id: Of the save that begins if the blocks are to be kept.

        Returns:
            Whether the blocks must be kept until the worker's side reports the transfer
            `saved`; and what the request's end tells as `kv_transfer_params`.
        """
        ...

    def shutdown(self) -> None:
        """Gives everything back; nothing else is called afterwards."""
        ...


class ListeningConnector(SchedulerConnector, Protocol):
    """A scheduler's side that hears from the worker's side."""

    def update_connector_output(self, payload: bytes) -> None:
        """Takes in the payload of a step's results; later steps may be planned."""
        ...


class TieredConnector(SchedulerConnector, Protocol):
    """A scheduler's side that keeps blocks in tiers, of which the metrics tell."""

    def tier_stats(self) -> Mapping[str, TierStats]:
        """By a tier's name: its state, and totals since the start.

        Asked after every step: must cost next to nothing. There are 8 tiers at most.
        """
        ...


class WorkerConnector(Protocol):
    """The worker's side: moves the bytes.

    Called by the executor's thread, which computes nothing meanwhile; threads of its
    own may use the blocks of open transfers at any time. A step's calls come in the
    order below. What it raises is counted; loads that it concerns have failed.

    One that has an attribute `needs_layers`, and it is false, is called around the
    step alone, not around its layers: decode steps are quicker so.
    """

    def register_kv_caches(self, blocks: "KVBlocks") -> bytes | None:
        """Called once, before everything else.

        Returns:
            What the scheduler's side is to know of it, as `KVLayout.handshake`; such as
            the port that it listens on.

        Raises:
            ConfigError: It cannot use them; the start ends with it.
        """
        ...

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        """Starts the step's loads; called before the forward pass.

        What is to be kept of evicted blocks must be read before anything is loaded.
        """
        ...

    def wait_for_layer_load(self, layer_index: int) -> None:
        """Returns when the layer's synchronous loads are in place.

        Called before the layer's attention, if the step has such loads. It must not
        wait for ever: nothing else ends it.
        """
        ...

    def save_kv_layer(self, layer_index: int) -> None:
        """Starts saving what the step wrote to the layer; called behind its attention.

        Only if the step has metadata.
        """
        ...

    def wait_for_save(self) -> None:
        """Returns when what the step wrote may be overwritten.

        Only if the step has metadata.
        """
        ...

    def get_finished(self) -> TransferResults:
        """Transfers that ended since the last call, synchronous loads included.

        Called at the end of each step, and now and then while nothing is computed. A
        synchronous load that is not reported in its own step has failed.
        """
        ...

    def shutdown(self) -> None:
        """Ends its threads; nothing else is called afterwards."""
        ...


def needs_layers(connector: WorkerConnector | None) -> bool:
    """Whether there is one that is called between the layers of a step."""
    return connector is not None and bool(getattr(connector, "needs_layers", True))

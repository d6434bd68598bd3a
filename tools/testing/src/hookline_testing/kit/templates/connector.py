"""KV connector `sample`: keeps blocks in the memory of the process."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from hookline import hookimpl
from hookline.config.checks import refuse_unknown
from hookline_kv_transfer import (
    ConnectorMetadata,
    SchedulerCapabilities,
    TransferResults,
    WorkerCapabilities,
)
from hookline_kv_transfer.blocks import KVBlocks
from hookline_kv_transfer.config import OPTION
from hookline_kv_transfer.context import ConnectorContext
from hookline_kv_transfer.layout import KVLayout
from hookline_kv_transfer.messages import ConnectorRequest, Load, PlannedStep

Block = tuple[str, bytes]
"""Fingerprint of the model, and hash of the block's tokens."""


class SampleStore:
    """The blocks of all engines of this process: bytes by layer.

    A real connector forgets blocks, too.
    """

    def __init__(self) -> None:
        self.blocks: dict[Block, list[npt.NDArray[np.uint8]]] = {}


STORE = SampleStore()


class SampleOrders(msgspec.Struct):
    """What the scheduler's side tells the worker's side of a step.

    Attributes:
        loads: Number, blocks and their hashes of each load.
        saves: Blocks and their hashes.
    """

    loads: list[tuple[int, tuple[int, ...], tuple[bytes, ...]]] = []
    saves: list[tuple[int, bytes]] = []


class SampleSchedulerSide:
    """Decides what is loaded and saved; the scheduling thread calls it."""

    capabilities = SchedulerCapabilities()

    def register_kv_layout(self, layout: KVLayout) -> None:
        """Called first."""
        self._layout = layout
        self._orders = SampleOrders()

    def get_num_new_matched_tokens(
        self, request: ConnectorRequest, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Returns how many tokens can be loaded, in whole blocks, within the step."""
        count, size = 0, self._layout.block_size
        for block_hash in request.block_hashes[num_computed_tokens // size :]:
            if (self._layout.fingerprint, block_hash) not in STORE.blocks:
                break
            count += 1
        return count * size, False

    def update_state_after_alloc(self, request: ConnectorRequest, load: Load) -> None:
        """Has the next step load the blocks."""
        del request
        self._orders.loads.append((load.transfer_id, load.block_ids, load.block_hashes))

    def build_connector_meta(self, step: PlannedStep) -> ConnectorMetadata | None:
        """Returns the step's orders, which may cross a process's border."""
        orders, self._orders = self._orders, SampleOrders()
        orders.saves = [(each.block_id, each.block_hash) for each in step.written]
        if not orders.loads and not orders.saves:
            return None
        return ConnectorMetadata(msgspec.msgpack.encode(orders))

    def request_finished(
        self, request: ConnectorRequest, block_ids: Sequence[int], transfer_id: int
    ) -> tuple[bool, Mapping[str, object] | None]:
        """Keeps no blocks, as they are saved when they are written."""
        del request, block_ids, transfer_id
        return False, None

    def shutdown(self) -> None:
        """Has nothing to release."""


class SampleWorkerSide:
    """Moves the bytes, on the engine's thread."""

    capabilities = WorkerCapabilities()

    def register_kv_caches(self, blocks: KVBlocks) -> bytes | None:
        """Called first."""
        self._blocks = blocks
        self._orders = SampleOrders()
        self._loaded: list[int] = []
        return None

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        """Reads the step's orders."""
        self._orders = msgspec.msgpack.decode(metadata.payload, type=SampleOrders)

    def wait_for_layer_load(self, layer_index: int) -> None:
        """Fills a layer's blocks."""
        for transfer_id, block_ids, hashes in self._orders.loads:
            for block_id, block_hash in zip(block_ids, hashes, strict=True):
                data = STORE.blocks[self._key(block_hash)][layer_index]
                self._blocks.write_blocks(transfer_id, layer_index, [block_id], data)

    def save_kv_layer(self, layer_index: int) -> None:
        """Copies what the step has written to a layer."""
        for block_id, block_hash in self._orders.saves:
            layers = STORE.blocks.setdefault(self._key(block_hash), [])
            if len(layers) == layer_index:
                layers.append(self._blocks.read_blocks(layer_index, [block_id]))

    def wait_for_save(self) -> None:
        """Has copied all, and filled what was to be loaded."""
        self._loaded = [transfer_id for transfer_id, *_ in self._orders.loads]
        self._orders = SampleOrders()

    def get_finished(self) -> TransferResults:
        """Returns the loads of the step."""
        loaded, self._loaded = self._loaded, []
        return TransferResults(loaded=loaded)

    def shutdown(self) -> None:
        """Has no threads."""

    def _key(self, block_hash: bytes) -> Block:
        return self._blocks.layout.fingerprint, block_hash


@hookimpl
def create_kv_connector(
    context: ConnectorContext,
) -> SampleSchedulerSide | SampleWorkerSide:
    """Called once for each side; raises `ConfigError` for an option, without any."""
    refuse_unknown("sample", OPTION, context.options, ())
    if context.role == "worker":
        return SampleWorkerSide()
    return SampleSchedulerSide()

"""Access to the bytes of KV blocks through gates, one per transfer.

A gate closes when its transfer ends or is cancelled. Closing waits for a running copy,
and no copy starts later, so the blocks can be reused at once, even if the connector is
late.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hookline_kv_transfer.layout import KVLayout, TransferClosedError
from hookline_kv_transfer.messages import Load

Bytes = npt.NDArray[np.uint8]


class LayerMemory(Protocol):
    """One layer's blocks as bytes, K then V; any thread may copy."""

    @property
    def block_bytes(self) -> int: ...

    def copy_out(
        self, block_ids: Sequence[int], target: Bytes, rows: Sequence[int]
    ) -> None:
        """Copies blocks to rows of `target`, [any number, bytes], contiguous rows."""
        ...

    def copy_in(
        self, block_ids: Sequence[int], source: Bytes, rows: Sequence[int]
    ) -> None:
        """Copies such rows to blocks."""
        ...


@dataclass(slots=True)
class Gate:
    """The gate of one transfer.

    Attributes:
        places: Index in the transfer of each block that it opens.
        load: The load; None for a save, which only reads.
        written: [layers, blocks] bool, what has been written.
        is_open: Guarded by `lock`, as every copy is.
    """

    places: dict[int, int]
    load: Load | None
    written: npt.NDArray[np.bool_]
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_open: bool = True

    @property
    def num_complete(self) -> int:
        """Number of leading blocks that were written in all layers."""
        missing = np.flatnonzero(~self.written.all(axis=0))
        return int(missing[0]) if len(missing) else self.written.shape[1]


class KVBlocks:
    """Access to the KV cache's blocks for the worker's side of a connector.

    Attributes:
        layout: Layout of the blocks.
    """

    def __init__(self, layout: KVLayout, layers: Sequence[LayerMemory]) -> None:
        self.layout = layout
        self._layers = layers
        self._gates: dict[int, Gate] = {}
        self._step_thread: int | None = None
        self._step_lock = threading.Lock()
        self._counting = threading.Lock()
        self._bytes_read = self._bytes_written = 0
        self._read: set[int] = set()

    # -- for connectors ----------------------------------------------------------

    def read_blocks(
        self, layer: int, block_ids: Sequence[int], *, transfer_id: int | None = None
    ) -> Bytes:
        """Returns a copy of blocks: [blocks, `layout.block_bytes[layer]`] uint8.

        Without a transfer any block may be read, but only in the thread that calls the
        connector, within a step: from `start_load_kv` until `wait_for_save` has
        returned.

        Raises:
            TransferClosedError: The transfer has ended, or no step is running.
            ValueError: A block does not belong to the transfer.
        """
        found = np.empty((len(block_ids), self.layout.block_bytes[layer]), np.uint8)
        rows = range(len(block_ids))
        self.copy_out(layer, block_ids, found, rows, transfer_id=transfer_id)
        return found

    def copy_out(
        self,
        layer: int,
        block_ids: Sequence[int],
        target: Bytes,
        rows: Sequence[int],
        *,
        transfer_id: int | None = None,
    ) -> None:
        """Copies blocks into rows of the connector's own memory.

        Args:
            layer: Index of the layer.
            block_ids: Blocks, as in `read_blocks`.
            target: [any number, `layout.block_bytes[layer]`] uint8, contiguous rows.
            rows: Row of the target for each block.
            transfer_id: As in `read_blocks`.

        Raises:
            TransferClosedError: As in `read_blocks`.
            ValueError: A block does not belong to the transfer, or the target has
                another shape or dtype.
        """
        self._check_rows(layer, block_ids, target, rows)
        if transfer_id is None:
            with self._step_lock:
                if threading.get_ident() != self._step_thread:
                    raise TransferClosedError(None)
                self._layers[layer].copy_out(block_ids, target, rows)
        else:
            gate = self._gate(transfer_id)
            with gate.lock:
                _check(gate, transfer_id, block_ids)
                self._layers[layer].copy_out(block_ids, target, rows)
        with self._counting:
            self._bytes_read += len(block_ids) * self.layout.block_bytes[layer]
            if transfer_id is not None:
                self._read.add(transfer_id)

    def write_blocks(
        self, transfer_id: int, layer: int, block_ids: Sequence[int], data: Bytes
    ) -> None:
        """Writes blocks of a layer; in any thread.

        Args:
            transfer_id: An open load.
            layer: Index of the layer.
            block_ids: Some of its blocks.
            data: [blocks, `layout.block_bytes[layer]`] uint8.

        Raises:
            TransferClosedError: The load has ended or was cancelled.
            ValueError: A block does not belong to the load, or the data have another
                shape or dtype.
        """
        size = self.layout.block_bytes[layer]
        if data.dtype != np.uint8 or data.shape != (len(block_ids), size):
            raise ValueError(
                f"{len(block_ids)} blocks of layer {layer} are [{len(block_ids)}, "
                f"{size}] uint8, not {list(data.shape)} {data.dtype}"
            )
        self.copy_in(transfer_id, layer, block_ids, data, range(len(block_ids)))

    def copy_in(
        self,
        transfer_id: int,
        layer: int,
        block_ids: Sequence[int],
        source: Bytes,
        rows: Sequence[int],
    ) -> None:
        """Writes blocks from rows of the connector's own memory; see `copy_out`.

        Raises:
            TransferClosedError: The load has ended or was cancelled.
            ValueError: A block does not belong to the load, or the source has another
                shape or dtype.
        """
        self._check_rows(layer, block_ids, source, rows)
        gate = self._gate(transfer_id)
        with gate.lock:
            places = _check(gate, transfer_id, block_ids)
            if gate.load is None:
                raise ValueError(f"transfer {transfer_id} is a save")
            self._layers[layer].copy_in(block_ids, source, rows)
            gate.written[layer, places] = True
        with self._counting:
            self._bytes_written += len(block_ids) * self.layout.block_bytes[layer]

    def _check_rows(
        self, layer: int, block_ids: Sequence[int], memory: Bytes, rows: Sequence[int]
    ) -> None:
        size = self.layout.block_bytes[layer]
        if memory.dtype != np.uint8 or memory.ndim != 2 or memory.shape[1] != size:
            raise ValueError(
                f"blocks of layer {layer} are [any number, {size}] uint8, not "
                f"{list(memory.shape)} {memory.dtype}"
            )
        if len(rows) != len(block_ids):
            raise ValueError(f"{len(rows)} rows for {len(block_ids)} blocks")

    # -- for the engine ----------------------------------------------------------

    def open_load(self, load: Load) -> None:
        self._open(load.transfer_id, load.block_ids, load)

    def open_save(self, transfer_id: int, block_ids: Sequence[int]) -> None:
        self._open(transfer_id, block_ids, None)

    def _open(
        self, transfer_id: int, block_ids: Sequence[int], load: Load | None
    ) -> None:
        written = np.zeros((self.layout.num_layers, len(block_ids)), np.bool_)
        places = {block_id: place for place, block_id in enumerate(block_ids)}
        self._gates[transfer_id] = Gate(places, load, written)

    def close(self, transfer_id: int) -> Gate | None:
        """Ends a transfer and returns its gate, or None if it had ended before.

        Waits for a running copy; afterwards no connector accesses its blocks.
        """
        if (gate := self._gates.pop(transfer_id, None)) is None:
            return None
        with gate.lock:
            gate.is_open = False
        return gate

    def begin_step(self, thread: int) -> None:
        """Allows a thread, by its identifier, to read any block until `end_step`."""
        self._step_thread = thread

    def end_step(self) -> None:
        """Ends the reading; waits for a running copy."""
        with self._step_lock:
            self._step_thread = None

    def take_bytes(self) -> tuple[int, int]:
        """Returns the bytes written and read since the last call."""
        with self._counting:
            moved = self._bytes_written, self._bytes_read
            self._bytes_written = self._bytes_read = 0
        return moved

    def take_read(self) -> list[int]:
        """Returns the transfers whose blocks were read since the last call."""
        with self._counting:
            read, self._read = self._read, set()
        return sorted(read)

    def _gate(self, transfer_id: int) -> Gate:
        gate = self._gates.get(transfer_id)
        if gate is None:
            raise TransferClosedError(transfer_id)
        return gate


def _check(gate: Gate, transfer_id: int, block_ids: Iterable[int]) -> list[int]:
    """Returns the blocks' indices in an open transfer; the lock must be held."""
    if not gate.is_open:
        raise TransferClosedError(transfer_id)
    try:
        return [gate.places[block_id] for block_id in block_ids]
    except KeyError as error:
        raise ValueError(
            f"block {error.args[0]} does not belong to transfer {transfer_id}"
        ) from None

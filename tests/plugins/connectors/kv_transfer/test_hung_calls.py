"""Worker sides of connectors whose calls do not return in time."""

import threading

import numpy as np
import pytest

from hookline_kv_transfer import (
    ConnectorMetadata,
    KVLayout,
    Load,
    TransferClosedError,
    TransferResults,
    WorkerCapabilities,
)
from hookline_kv_transfer.blocks import KVBlocks
from hookline_kv_transfer.connector_thread import ConnectorThread
from hookline_kv_transfer.kv_memory import layers_of
from hookline_kv_transfer.orders import Save, TransferOrders
from hookline_simulated.memory import SimulatedMemory

SOON = 0.05


class HangingWorker:
    """Hangs in the named call until it is released, then reads a block."""

    capabilities = WorkerCapabilities()

    def __init__(self, hanging: str) -> None:
        self._hanging = hanging
        self.released = threading.Event()
        self.late: list[BaseException | None] = []
        self.ended = threading.Event()
        self.calls: list[str] = []

    def register_kv_caches(self, blocks: KVBlocks) -> None:
        self._blocks = blocks

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:  # noqa: ARG002
        self._call("start_load_kv")

    def wait_for_layer_load(self, layer_index: int) -> None:  # noqa: ARG002
        self._call("wait_for_layer_load")

    def save_kv_layer(self, layer_index: int) -> None:  # noqa: ARG002
        self._call("save_kv_layer")

    def wait_for_save(self) -> None:
        self._call("wait_for_save")

    def get_finished(self) -> TransferResults:
        self._call("get_finished")
        return TransferResults()

    def shutdown(self) -> None:
        self._call("shutdown")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name != self._hanging:
            return
        self.released.wait()
        try:
            self._blocks.read_blocks(0, [1])
            self.late.append(None)
        except TransferClosedError as error:
            self.late.append(error)
        self.ended.set()


def make(worker: HangingWorker) -> tuple[ConnectorThread, KVBlocks]:
    layout = KVLayout(
        fingerprint="00", num_blocks=4, block_size=4, dtype="int64", block_bytes=(32,)
    )
    blocks = KVBlocks(layout, layers_of(SimulatedMemory(4, 4)))
    worker.register_kv_caches(blocks)
    return ConnectorThread(worker, "hanging", blocks, timeout_seconds=SOON), blocks


def load(transfer_id: int, *, is_async: bool) -> Load:
    return Load(
        transfer_id=transfer_id,
        request_id=1,
        block_ids=(2,),
        block_hashes=(b"x",),
        is_async=is_async,
    )


ORDERS = TransferOrders(
    metadata=ConnectorMetadata(b"x"),
    loads=[load(1, is_async=False), load(2, is_async=True)],
    saves=[Save(3, (1,))],
)


@pytest.mark.parametrize(
    "call",
    [
        "start_load_kv",
        "wait_for_layer_load",
        "save_kv_layer",
        "wait_for_save",
        "get_finished",
    ],
)
def test_transfers_fail_and_their_blocks_close(call: str) -> None:
    """
    Whichever call hangs: all transfers fail, nothing is called any more, and the late
    call can access no block.
    """
    worker = HangingWorker(call)
    connector_thread, blocks = make(worker)

    connector_thread.start_step(ORDERS)
    connector_thread.before_attention(0)
    connector_thread.after_attention(0)
    report = connector_thread.finish_step()
    before = list(worker.calls)
    connector_thread.start_step(TransferOrders(loads=[load(4, is_async=True)]))
    later = connector_thread.finish_step()
    worker.released.set()
    worker.ended.wait()
    connector_thread.close()

    assert {(each.transfer_id, each.reason) for each in report.ended} == {
        (each, "hung") for each in (1, 2, 3)
    }
    assert sum(count.get("hung", 0) for count in report.failures.values()) == 1
    assert [(each.transfer_id, each.reason) for each in later.ended] == [(4, "hung")]
    assert worker.calls == before
    assert [type(each) for each in worker.late] == [TransferClosedError]
    for transfer_id in (1, 2, 4):
        with pytest.raises(TransferClosedError):
            blocks.write_blocks(transfer_id, 0, [2], np.zeros((1, 32), np.uint8))


def test_shutdown_that_hangs_does_not_delay_the_end() -> None:
    """
    The end waits for a connector's shutdown no longer than for other calls.
    """
    worker = HangingWorker("shutdown")
    connector_thread, _ = make(worker)

    connector_thread.close()

    assert worker.calls == ["shutdown"]
    worker.released.set()

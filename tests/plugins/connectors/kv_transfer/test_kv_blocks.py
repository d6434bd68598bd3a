"""Blocks as bytes, and the gates in front of them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.paged_cache import PagedCache
from hookline_kernels.attention import write_slots
from hookline_kernels.layout import gathered
from hookline_kv_transfer import KVLayout, Load, TransferClosedError
from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_kv_transfer.kv_memory import layers_of
from hookline_testing.essential import essential

LAYOUT = KVLayout(
    fingerprint="f", num_blocks=8, block_size=4, dtype="float32", block_bytes=(6, 6)
)
LOAD = Load(
    transfer_id=1,
    request_id=5,
    block_ids=(3, 4),
    block_hashes=(b"a", b"b"),
    is_async=True,
)
DATA = np.arange(12, dtype=np.uint8).reshape(2, 6)


def test_the_scheduler_gets_the_layout_with_the_largest_blocks() -> None:
    """So many blocks as fit there fit everywhere; it also has those of all ranks."""
    small, large = (replace(LAYOUT, block_bytes=each) for each in ((6,), (6, 6)))

    found = KVLayout.of_ranks([small, large, small])

    assert found == replace(large, ranks=(small, large, small))
    assert found.of_each_rank == found.ranks
    assert KVLayout.of_ranks([small]) == small
    assert small.of_each_rank == (small,)


class Memory:
    """One layer; a write may be made to wait."""

    block_bytes = 6

    def __init__(self, wait: Callable[[], object] = lambda: None) -> None:
        self.bytes = np.zeros((8, 6), np.uint8)
        self._wait = wait

    def copy_out(
        self, block_ids: Sequence[int], target: Bytes, rows: Sequence[int]
    ) -> None:
        target[list(rows)] = self.bytes[list(block_ids)]

    def copy_in(
        self, block_ids: Sequence[int], source: Bytes, rows: Sequence[int]
    ) -> None:
        self._wait()
        self.bytes[list(block_ids)] = source[list(rows)]


def make(*layers: Memory) -> KVBlocks:
    blocks = KVBlocks(LAYOUT, layers or (Memory(), Memory()))
    blocks.open_load(LOAD)
    return blocks


def test_open_load_is_written_and_counted() -> None:
    """A load is complete as far as its blocks were written in every layer."""
    blocks = make()

    blocks.write_blocks(1, 0, [3, 4], DATA)
    blocks.write_blocks(1, 1, [3], DATA[:1])
    found = blocks.read_blocks(0, [4, 3], transfer_id=1)
    gate = blocks.close(1)

    assert gate is not None
    assert gate.num_complete == 1
    np.testing.assert_array_equal(found, DATA[::-1])
    assert blocks.take_bytes() == (18, 12)
    assert blocks.take_bytes() == (0, 0)


@pytest.mark.parametrize(
    ("block_ids", "data"),
    [
        ([2], DATA[:1]),
        ([3], DATA),
        ([3, 4], DATA[:, :5]),
        ([3], DATA[:1].view(np.int8)),
    ],
)
def test_nothing_else_can_be_written(block_ids: list[int], data: Bytes) -> None:
    """Blocks of others, and data of other sizes, are refused."""
    blocks = make()

    with pytest.raises(ValueError, match="block"):
        blocks.write_blocks(1, 0, block_ids, data)


def test_copies_fill_the_callers_rows() -> None:
    """In any order; memory of another form is refused."""
    blocks = make()
    mine = np.zeros((5, 6), np.uint8)
    mine[[4, 1]] = DATA

    blocks.copy_in(1, 0, [3, 4], mine, [4, 1])
    found = np.zeros((3, 6), np.uint8)
    blocks.copy_out(0, [3, 4], found, [0, 2], transfer_id=1)

    np.testing.assert_array_equal(found, [DATA[0], [0] * 6, DATA[1]])
    assert blocks.take_bytes() == (12, 12)
    with pytest.raises(ValueError, match="rows for"):
        blocks.copy_out(0, [3, 4], found, [0], transfer_id=1)
    with pytest.raises(ValueError, match="uint8"):
        blocks.copy_in(1, 0, [3], mine[:, :5], [0])


def test_save_is_not_written() -> None:
    """Its blocks may be found by others, who rely on them."""
    blocks = make()
    blocks.open_save(2, [5])

    blocks.read_blocks(0, [5], transfer_id=2)
    with pytest.raises(ValueError, match="save"):
        blocks.write_blocks(2, 0, [5], DATA[:1])


def test_closed_gate_refuses_copies() -> None:
    """Also to who had come as far as the gate when it was closed."""
    blocks = make()
    gate = blocks._gates[1]
    blocks.close(1)

    with pytest.raises(TransferClosedError):
        blocks.write_blocks(1, 0, [3], DATA[:1])
    blocks._gates[1] = gate
    with pytest.raises(TransferClosedError):
        blocks.write_blocks(1, 0, [3], DATA[:1])
    with pytest.raises(TransferClosedError):
        blocks.read_blocks(0, [3], transfer_id=1)
    assert blocks.close(2) is None


def test_closing_waits_for_a_copy() -> None:
    """After a gate is closed nothing is written."""
    begun, go = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go.wait(5)

    memory = Memory(wait)
    blocks = make(memory, Memory())
    writing = threading.Thread(
        target=blocks.write_blocks, args=(1, 0, [3, 4], DATA), daemon=True
    )
    closing = threading.Thread(target=blocks.close, args=(1,), daemon=True)

    writing.start()
    begun.wait(5)
    closing.start()
    closing.join(0.05)
    was_open = closing.is_alive()
    go.set()
    closing.join(5)

    assert was_open
    assert not closing.is_alive()
    assert memory.bytes[4].any()


def test_steps_own_thread_reads_within_the_step() -> None:
    """It may read any block without a transfer; others and later reads may not."""
    blocks = make()
    refused = []

    def try_it() -> None:
        try:
            blocks.read_blocks(0, [0])
        except TransferClosedError as error:
            refused.append(error)

    try_it()
    blocks.begin_step(threading.get_ident())
    blocks.read_blocks(0, [0])
    other = threading.Thread(target=try_it)
    other.start()
    other.join(5)
    blocks.end_step()
    try_it()

    assert len(refused) == 3


@pytest.mark.parametrize(
    ("dtype", "may_compile"),
    essential(
        product([torch.float32, torch.bfloat16], [False, True]),
        (torch.float32, False),
        (torch.bfloat16, True),
    ),
)
@pytest.mark.parametrize("extra", [0, 3, 8])
def test_blocks_survive_a_round_trip(
    dtype: torch.dtype, extra: int, *, may_compile: bool
) -> None:
    """What is read of one cache and written to another is the same there.

    However the bytes between them lie: without gaps and only to be read, at odd
    places, or with gaps.
    """
    layer = LayerCache(num_heads=4, num_kv_heads=2, key_dim=16, value_dim=24)
    first, second = (
        PagedCache([layer, layer], 6, 4, dtype, may_compile=may_compile)
        for _ in range(2)
    )
    for side in (*first.keys, *first.values):
        side.copy_(torch.randn(side.shape))
    [_, source], [_, target] = layers_of(first), layers_of(second)

    between = np.zeros((4, source.block_bytes + extra), np.uint8)[:, extra:]
    source.copy_out([1, 2], between, [3, 0])
    between.flags.writeable = extra > 0
    target.copy_in([5, 0], between, [3, 0])

    assert source.block_bytes == 4 * 2 * (16 + 24) * dtype.itemsize
    assert torch.equal(second.keys[1][[5, 0]], first.keys[1][[1, 2]])
    assert torch.equal(second.values[1][[5, 0]], first.values[1][[1, 2]])
    assert not second.keys[1][[1, 2, 3, 4]].any()
    assert not second.keys[0].any()


def test_blocks_of_int8_take_their_scales_along() -> None:
    """The bytes of a block stand for the same numbers in another cache."""
    layer = LayerCache(num_heads=4, num_kv_heads=2, key_dim=16, value_dim=16)
    first, second = (
        PagedCache([layer], 6, 4, torch.bfloat16, cache_dtype=torch.int8)
        for _ in range(2)
    )
    slots = torch.arange(24)
    for side in (*first.keys, *first.values):
        write_slots(side, torch.randn(24, 2, side.shape[3]), slots)
    [source], [target] = layers_of(first), layers_of(second)

    between = np.zeros((2, source.block_bytes), np.uint8)
    source.copy_out([1, 2], between, [0, 1])
    target.copy_in([5, 0], between, [0, 1])

    assert source.block_bytes == 4 * 2 * (16 + 2 + 16 + 2)
    for mine, theirs in ((first.keys, second.keys), (first.values, second.values)):
        found = gathered(theirs[0], torch.tensor([5, 0]), torch.float32)
        wanted = gathered(mine[0], torch.tensor([1, 2]), torch.float32)
        assert torch.equal(found, wanted)
        assert wanted.abs().max() > 1


def test_moved_tokens_take_their_scales_along() -> None:
    """Accepted drafts of a tree stand for the same numbers at their new slots."""
    layer = LayerCache(num_heads=4, num_kv_heads=2, key_dim=16, value_dim=16)
    cache = PagedCache([layer], 3, 4, torch.bfloat16, cache_dtype=torch.int8)
    slots = torch.arange(12)
    for side in (*cache.keys, *cache.values):
        write_slots(side, torch.randn(12, 2, 16) * slots[:, None, None], slots)
    blocks = torch.arange(3)
    before = gathered(cache.values[0], blocks, torch.float32).flatten(0, 1)

    cache.move(torch.tensor([6, 11]), torch.tensor([5, 6]))

    after = gathered(cache.values[0], blocks, torch.float32).flatten(0, 1)
    assert torch.equal(after[[5, 6]], before[[6, 11]])
    assert torch.equal(after[7:], before[7:])

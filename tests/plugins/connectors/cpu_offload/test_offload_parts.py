"""Options, slots and memory of the connector `cpu_offload`."""

import mmap
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hookline.exceptions import ConfigError
from hookline_cpu_offload.arena import Arena
from hookline_cpu_offload.options import OffloadOptions, check_role
from hookline_cpu_offload.slots import Assigned, Slots
from hookline_kv_transfer import KVLayout, KVRole, KVTransferConfig

LAYOUT = KVLayout(
    fingerprint="ab" * 32,
    num_blocks=8,
    block_size=4,
    dtype="float32",
    block_bytes=(6, 4),
)


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"bytes": 3}, "cpu_offload has no option 'bytes'"),
        ({"cpu_bytes_to_use": 0}, "cpu_bytes_to_use must be at least 1"),
        ({"cpu_bytes_to_use": True}, "cpu_bytes_to_use must be a whole number"),
        ({"cpu_bytes_to_use": 2**60}, "this process may take [0-9]+ bytes"),
        ({"disk": "x"}, "disk must be an object"),
        ({"disk": {}}, "disk needs path"),
        ({"disk": {"path": 3}}, "disk needs path"),
        ({"disk": {"path": "x", "size": 3}}, "disk has no option 'size'"),
        (
            {"disk": {"path": "x", "max_bytes": -1}},
            "disk: max_bytes must be at least 1",
        ),
    ],
)
def test_mistakes_are_one_line_errors(given: dict[str, object], detail: str) -> None:
    """Each in one line."""
    with pytest.raises(ConfigError, match=detail):
        OffloadOptions.from_mapping(given)


def test_options_are_taken(tmp_path: Path) -> None:
    """What is not given has its default."""
    disk = {"path": str(tmp_path), "max_bytes": 5}

    options = OffloadOptions.from_mapping({"cpu_bytes_to_use": 10, "disk": disk})

    assert options.cpu_bytes_to_use == 10
    assert options.disk is not None
    assert (options.disk.path, options.disk.max_bytes) == (tmp_path, 5)
    assert OffloadOptions.from_mapping({"disk": None}) == OffloadOptions()


def test_disk_needs_shared_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra of the distribution."""
    monkeypatch.setitem(sys.modules, "hookline_shared_storage", None)

    with pytest.raises(ConfigError, match="hookline-shared-storage, which is not"):
        OffloadOptions.from_mapping({"disk": {"path": str(tmp_path)}})


@pytest.mark.parametrize("role", [KVRole.CONSUMER, KVRole.PRODUCER])
def test_blocks_are_saved_and_loaded(role: KVRole) -> None:
    """What never comes back needs not be kept."""
    with pytest.raises(ConfigError, match="kv_role is kv_both"):
        check_role(KVTransferConfig(kv_connector="cpu_offload", kv_role=role))


def test_memory_must_hold_a_block() -> None:
    """Less than one is a mistake, not an empty tier."""
    assert OffloadOptions(cpu_bytes_to_use=29).num_slots(LAYOUT) == 2
    with pytest.raises(ConfigError, match="one block of this model has 10 bytes"):
        OffloadOptions(cpu_bytes_to_use=9).num_slots(LAYOUT)


def test_least_recently_used_slot_is_reused() -> None:
    """In their order at first; then the least recently used block goes."""
    slots = Slots(2)

    assert slots.assign(b"a", ()) == Assigned(0, None)
    assert slots.assign(b"b", ()) == Assigned(1, None)
    slots.touch(b"a")
    assert slots.assign(b"c", ()) == Assigned(1, b"b")
    assert (b"a" in slots, b"b" in slots, slots.find(b"c")) == (True, False, 1)
    assert len(slots) == 2


def test_busy_slots_are_not_reused() -> None:
    """Slots that a step reads are kept; if all are read, none is allocated."""
    slots = Slots(2)
    slots.assign(b"a", ())
    slots.assign(b"b", ())

    assert slots.assign(b"c", {0, 1}) is None
    assert slots.assign(b"c", {0}) == Assigned(1, b"b")


def test_spoilt_blocks_leave_their_slots() -> None:
    """The next block gets the slot; to drop a block that is not there does nothing."""
    slots = Slots(1)
    slots.assign(b"a", ())

    slots.drop(b"a")
    slots.drop(b"a")

    assert b"a" not in slots
    assert slots.assign(b"b", ()) == (0, None)


def test_lost_content_frees_its_slot() -> None:
    """Unless the slot has been given to another block meanwhile."""
    slots = Slots(1)
    slots.assign(b"a", ())
    slots.forget(b"b", 0)
    slots.forget(b"a", 1)
    assert b"a" in slots

    slots.forget(b"a", 0)

    assert b"a" not in slots
    assert slots.assign(b"c", ()) == Assigned(0, None)


def test_arena_keeps_its_blocks() -> None:
    """Slots are separate in each layer; a slot belongs to no block while it changes."""
    arena = Arena(LAYOUT, 3)
    first = np.arange(12, dtype=np.uint8).reshape(2, 6)
    second = np.arange(20, 28, dtype=np.uint8).reshape(2, 4)
    arena.open([2, 0])
    arena.layers[0][[2, 0]] = first
    arena.layers[1][[2, 0]] = second
    assert not arena.holds(2, b"x")
    arena.settle([2, 0], [b"x", b"y"])

    whole = np.concatenate([first, second], axis=1)
    np.testing.assert_array_equal(arena.copy([2, 0]), whole)
    assert not arena.copy([1]).any()
    assert arena.holds(2, b"x")
    assert arena.holds(0, b"y")
    arena.open([2])
    assert not arena.holds(2, b"x")
    arena.close()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * mmap.PAGESIZE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_taken_a_little_ahead() -> None:
    """Of a gigabyte some tens of megabytes, until there are blocks to keep."""
    layout = replace(LAYOUT, block_bytes=(1 << 20,))
    before = resident_bytes()
    arena = Arena(layout, 1024)
    arena._warmer.shutdown()

    assert resident_bytes() - before < 100 << 20
    arena.close()

"""The KV cache becomes resident before it is used, without side effects."""

import ctypes
import mmap
from collections.abc import Iterator
from threading import Event, Thread
from types import SimpleNamespace

import pytest
import torch

from hookline_kernels.runtime import kv_cache_prefaulter
from hookline_kernels.runtime.kv_cache_prefaulter import (
    KVCachePrefaulter,
    wait_until_prefaulted,
)

MIB = 1 << 20
PAGE = mmap.PAGESIZE
_MADV_POPULATE_WRITE = 23
WARMED = 8 * MIB


class Memory:
    """Fresh memory of this process, in small pages that can be counted."""

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._map = mmap.mmap(-1, size, flags=flags)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.tensor = torch.frombuffer(self._map, dtype=torch.uint8)

    def resident(self) -> list[bool]:
        """Of each page, whether the system has given memory for it."""
        count = -(-self.tensor.nbytes // PAGE)
        found = (ctypes.c_ubyte * count)()
        call = ctypes.CDLL(None, use_errno=True).mincore
        call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        assert call(self.tensor.data_ptr(), self.tensor.nbytes, found) == 0
        return [bool(each & 1) for each in found]


def _can_populate() -> bool:
    try:
        page = mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_MADV_POPULATE_WRITE)
    except (AttributeError, OSError):
        return False
    return True


needs_asking = pytest.mark.skipif(
    not _can_populate(), reason="this system gives no memory before it is written"
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 1 MiB."""
    monkeypatch.setattr(kv_cache_prefaulter, "_PIECE", MIB)


@needs_asking
def test_the_front_becomes_resident() -> None:
    """What is beyond the limit comes when it is used."""
    memory = Memory(32 * MIB)
    assert not any(memory.resident())

    KVCachePrefaulter([memory.tensor], WARMED)
    wait_until_prefaulted()

    front = 8 * MIB // PAGE
    assert all(memory.resident()[: front - 1])
    assert not any(memory.resident()[front + 1 :])


@needs_asking
def test_each_tensor_gets_a_like_share() -> None:
    """Blocks of all layers are handed out from the front of each."""
    sizes = (24, 8)
    memories = [Memory(size * MIB) for size in sizes]

    KVCachePrefaulter([memory.tensor for memory in memories], WARMED)
    wait_until_prefaulted()

    for size, memory in zip(sizes, memories, strict=True):
        assert abs(sum(memory.resident()) - size * MIB // 4 // PAGE) <= 1


@needs_asking
def test_memory_below_the_limit_is_prefaulted_whole() -> None:
    """But for pages at its ends, which may belong to others too."""
    memory = Memory(3 * MIB)

    KVCachePrefaulter([memory.tensor[100:-100]], WARMED)
    wait_until_prefaulted()

    assert all(memory.resident()[1:-2])


def test_contents_stay_and_may_change_meanwhile() -> None:
    """Requests are served while it walks."""
    tensor = Memory(8 * MIB).tensor
    before = torch.randint(256, (MIB,), dtype=torch.uint8)
    tensor[:MIB] = before

    KVCachePrefaulter([tensor], WARMED)
    for at in range(MIB, 8 * MIB, MIB):
        tensor[at : at + MIB] = before
    wait_until_prefaulted()

    for at in range(0, 8 * MIB, MIB):
        assert torch.equal(tensor[at : at + MIB], before)


class Asked:
    """A system that is asked for pages; it may hold the asker, or refuse."""

    def __init__(self, answer: int = 0) -> None:
        self.pieces: list[tuple[int, int]] = []
        self.under_way, self.may_go_on = Event(), Event()
        self._answer = answer

    def madvise(self, address: int, size: int, _: int) -> int:
        self.pieces.append((address, size))
        self.under_way.set()
        assert self.may_go_on.wait(60)
        return self._answer


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """In place of the system."""
    system = Asked()
    _stand_in(system, monkeypatch)
    yield system
    system.may_go_on.set()


def _stand_in(system: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def advise(address: int, size: int, advice: int) -> int:
        return system.madvise(address, size, advice)

    library = SimpleNamespace(madvise=advise)
    fake = SimpleNamespace(
        CDLL=lambda *_, **__: library,
        c_void_p=ctypes.c_void_p,
        c_size_t=ctypes.c_size_t,
        c_int=ctypes.c_int,
    )
    monkeypatch.setattr(kv_cache_prefaulter, "ctypes", fake)


def test_pieces_follow_one_another_within_the_memory(asked: Asked) -> None:
    """Whole pages, none twice, none outside."""
    tensor = Memory(5 * MIB).tensor[PAGE // 2 : -PAGE // 2]
    asked.may_go_on.set()

    KVCachePrefaulter([tensor], WARMED)
    wait_until_prefaulted()

    ends = [at + size for at, size in asked.pieces]
    assert [at for at, _ in asked.pieces][1:] == ends[:-1]
    assert asked.pieces[0][0] == tensor.data_ptr() + PAGE // 2
    assert ends[-1] <= tensor.data_ptr() + tensor.nbytes
    assert all(size % PAGE == 0 for _, size in asked.pieces)
    assert sum(size for _, size in asked.pieces) >= 5 * MIB - 3 * PAGE


def test_memory_smaller_than_a_page_is_left_alone(asked: Asked) -> None:
    """Nothing is asked for that belongs to others."""
    page = Memory(2 * PAGE).tensor
    asked.may_go_on.set()

    parts = [page[1 : PAGE - 1], page[PAGE // 2 : PAGE + PAGE // 2 - 1]]
    KVCachePrefaulter(parts, WARMED)
    KVCachePrefaulter([torch.zeros(0)], WARMED)
    wait_until_prefaulted()

    assert asked.pieces == []


def test_close_ends_it_after_the_piece_under_way(asked: Asked) -> None:
    """And returns only when it has ended, so that the memory may go."""
    prefaulter = KVCachePrefaulter([Memory(8 * MIB).tensor], WARMED)
    assert asked.under_way.wait(60)

    closer = Thread(target=prefaulter.close)
    closer.start()
    assert prefaulter._stopped.wait(60)
    assert closer.is_alive()
    asked.may_go_on.set()
    closer.join(60)

    assert not closer.is_alive()
    assert not prefaulter._thread.is_alive()
    assert len(asked.pieces) == 1


def test_a_system_that_refuses_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows no such asking, or has no memory: pages come when they are used."""
    system = Asked(answer=-1)
    system.may_go_on.set()
    _stand_in(system, monkeypatch)

    KVCachePrefaulter([Memory(8 * MIB).tensor], WARMED)
    wait_until_prefaulted()

    assert len(system.pieces) == 1


def test_fronts_of_all_memory_come_first() -> None:
    """A block has a part in each layer's: those handed out first are warm first."""
    memory = [torch.empty(3 * MIB, dtype=torch.uint8) for _ in range(2)]
    memory.append(torch.empty(MIB // 2, dtype=torch.uint8))

    pieces = [at for at, _ in kv_cache_prefaulter._pieces(memory, 1.0)]

    places = [
        next(
            (index, round((at - each.data_ptr()) / MIB))
            for index, each in enumerate(memory)
            if each.data_ptr() <= at < each.data_ptr() + each.nbytes
        )
        for at in pieces
    ]
    assert places == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2), (1, 2)]

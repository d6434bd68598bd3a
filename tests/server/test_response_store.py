"""The store of responses: its bounds, whose responses it drops, and its age."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hookline_server.response_store import Owner, ResponseStore, StoredResponse
from hookline_server.response_store_settings import ResponseStoreSettings

ALICE: Owner = ("alice", "")
BOB: Owner = ("bob", "")
SETTINGS = ResponseStoreSettings(
    max_stored_responses=3, response_store_bytes=10_000, response_store_seconds=60
)


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def store_of(
    settings: ResponseStoreSettings = SETTINGS, clock: Clock | None = None
) -> Iterator[ResponseStore]:
    """A store, which an event loop runs."""
    store = ResponseStore(settings, clock or Clock())
    yield store
    stats = store.stats()
    assert stats.entries <= settings.max_stored_responses
    assert stats.bytes <= settings.response_store_bytes
    assert (stats.bytes > 0) == (stats.entries > 0)


def entry(
    response_id: str,
    owner: Owner = ALICE,
    *,
    payer: str | None = None,
    previous_id: str | None = None,
    size: int = 0,
    item_ids: tuple[str, ...] = (),
) -> StoredResponse:
    return StoredResponse(
        id=response_id,
        owner=owner,
        payer=owner[0] if payer is None else payer,
        previous_id=previous_id,
        response=b"x" * size,
        input=b"[]",
        output=b"[]",
        item_ids=item_ids,
    )


def has(store: ResponseStore, response_id: str, owner: Owner = ALICE) -> bool:
    return store.find(owner, response_id) is not None


async def test_responses_are_found_by_their_owner_only() -> None:
    """
    Another owner may even have a response of the same id.
    """
    with store_of() as store:
        store.keep(entry("a"))
        store.keep(entry("b", BOB))
        mine = entry("b")
        store.keep(mine)

        assert not has(store, "a", BOB)
        assert store.find(ALICE, "b") is mine
        assert not store.delete(BOB, "a")
        assert store.stats().entries == 3


async def test_too_many_responses() -> None:
    """
    The least recently used one goes, of whoever has most.
    """
    with store_of() as store:
        store.keep(entry("b", BOB))
        store.keep(entry("1"))
        store.keep(entry("2"))
        assert has(store, "1")
        store.keep(entry("3"))

        assert has(store, "b", BOB)
        assert [name for name in "123" if has(store, name)] == ["1", "3"]
        assert dict(store.stats().evictions) == {"count": 1}


@pytest.mark.parametrize("size", [0, 500])
async def test_rotating_tenants_keep_no_older_tenant_out(size: int) -> None:
    """
    A client that claims ever new tenants drops its own, by number and by size; the
    conversations of tenants that were there before stay whole.
    """
    settings = ResponseStoreSettings(
        max_stored_responses=40, response_store_bytes=40 * (1024 + 4 + size)
    )
    old = {name: [f"{name}{turn}" for turn in range(6)] for name in ("acme", "", "bob")}
    with store_of(settings) as store:
        for tenant, names in old.items():
            for name in names:
                store.keep(entry(name, ("", tenant), payer="peer:a", size=size))
        store.keep(entry("other", ("", "x"), payer="peer:b", size=size))
        for turn in range(200):
            owner = ("", f"claimed-{turn}")
            store.keep(entry(f"new{turn}", owner, payer="peer:a", size=size))
            store.keep(entry(f"more{turn}", owner, payer="peer:a", size=size))

        for tenant, names in old.items():
            assert all(has(store, name, ("", tenant)) for name in names)
        assert has(store, "other", ("", "x"))
        assert has(store, "new199", ("", "claimed-199"))
        assert not has(store, "new100", ("", "claimed-100"))


async def test_a_tenant_that_came_first_does_not_keep_everything() -> None:
    """
    It keeps half of what its payer has; the rest is for those that use it last.
    """
    settings = ResponseStoreSettings(max_stored_responses=40)
    with store_of(settings) as store:
        for turn in range(40):
            store.keep(entry(f"old{turn}", ("k", "old"), payer="k"))
        for turn in range(20):
            store.keep(entry(f"new{turn}", ("k", "new"), payer="k"))

        assert sum(has(store, f"old{turn}", ("k", "old")) for turn in range(40)) == 20
        assert all(has(store, f"new{turn}", ("k", "new")) for turn in range(20))


async def test_too_large_responses() -> None:
    """
    Whoever takes most memory loses; what does not fit at all is not kept.
    """
    with store_of() as store:
        store.keep(entry("b", BOB, size=1000))
        store.keep(entry("1", size=5000))
        store.keep(entry("2", size=3000))
        store.keep(entry("3", size=9000))

        assert has(store, "b", BOB)
        assert [name for name in "123" if has(store, name)] == ["2"]
        assert dict(store.stats().evictions) == {"bytes": 2}


async def test_old_responses() -> None:
    """
    A response is kept while it is used, with those that it continues.
    """
    clock = Clock()
    with store_of(clock=clock) as store:
        store.keep(entry("1"))
        store.keep(entry("2", previous_id="1"))
        store.keep(entry("3"))
        clock.now = 40
        assert [each.id for each in store.chain(ALICE, "2")] == ["2", "1"]
        clock.now = 80

        assert not has(store, "3")
        assert [each.id for each in store.chain(ALICE, "2")] == ["2", "1"]
        assert dict(store.stats().evictions) == {"age": 1}


async def test_old_responses_go_by_themselves() -> None:
    """
    Nobody has to ask for them.
    """
    settings = ResponseStoreSettings(response_store_seconds=0.01)
    store = ResponseStore(settings)
    store.keep(entry("1"))
    store.keep(entry("2"))

    async with asyncio.timeout(10):
        while store.stats().entries:  # noqa: ASYNC110 - it drops them by itself
            await asyncio.sleep(0.005)

    assert dict(store.stats().evictions) == {"age": 2}


async def test_a_chain_ends_where_a_response_is_gone() -> None:
    """
    The last one then has a predecessor.
    """
    with store_of() as store:
        store.keep(entry("1"))
        store.keep(entry("2", previous_id="1"))
        store.keep(entry("3", previous_id="2"))
        assert store.delete(ALICE, "2")

        [last] = store.chain(ALICE, "3")
        assert last.previous_id == "2"
        assert not list(store.chain(ALICE, "2"))


async def test_items_are_found_in_the_latest_response() -> None:
    """
    And nowhere once that is gone.
    """
    with store_of() as store:
        store.keep(entry("1", item_ids=("x", "y")))
        store.keep(entry("2", item_ids=("y",)))

        holders = [store.holder(ALICE, item_id) for item_id in "xyz"]
        assert [each and each.id for each in holders] == ["1", "2", None]
        assert store.holder(BOB, "x") is None
        store.delete(ALICE, "2")
        assert store.holder(ALICE, "y") is None
        assert store.holder(ALICE, "x") is not None


@pytest.mark.parametrize(
    "settings",
    [
        ResponseStoreSettings(max_stored_responses=0),
        ResponseStoreSettings(response_store_bytes=0),
    ],
)
async def test_zero_keeps_nothing(settings: ResponseStoreSettings) -> None:
    """
    Of either bound.
    """
    with store_of(settings) as store:
        store.keep(entry("1"))

        assert not store.is_enabled
        assert not has(store, "1")

"""Main memory of adapters, which a thread fills beside the steps."""

import threading
from collections.abc import Iterator

import pytest

from hookline_lora.exceptions import AdapterError
from hookline_lora.messages import AdapterReports
from hookline_lora.worker.sites import PackedAdapter
from hookline_lora.worker.store import DROPPED, AdapterStore
from hookline_testing.own_time import Deadline


class Files:
    """Reads nothing; waits before each adapter until it may go on.

    Attributes:
        read: Paths in the order of reading.
    """

    def __init__(self) -> None:
        self.read: list[str] = []
        self.may_go_on = threading.Event()
        self.has_begun = threading.Event()

    def __call__(self, digest: str, path: str) -> PackedAdapter:
        self.has_begun.set()
        assert self.may_go_on.wait(20.0)
        self.read.append(path)
        if path == "broken":
            raise AdapterError(digest, "q_proj has NaN")
        return PackedAdapter(parts=())


@pytest.fixture
def files() -> Files:
    """What the store reads."""
    return Files()


@pytest.fixture
def store(files: Files) -> Iterator[AdapterStore]:
    """An empty store."""
    made = AdapterStore(files)
    yield made
    files.may_go_on.set()
    made.close()


def told(store: AdapterStore, count: int) -> list[AdapterReports]:
    """Waits for that many outcomes; returns the reports that have them."""
    found: list[AdapterReports] = []
    deadline = Deadline(20.0)
    while sum(len(each.loaded) + len(each.failed) for each in found) < count:
        if (report := store.reports()) is not None:
            found.append(report)
        assert deadline.is_ahead
    return found


def test_adapters_are_read_in_order_by_a_thread(
    store: AdapterStore, files: Files
) -> None:
    """Nothing waits for them, and what fails is told with its reason."""
    store.load({"a": "one", "b": "broken"})
    store.load({"c": "two"})
    assert store.reports() is None

    files.may_go_on.set()
    reports = told(store, 3)

    assert files.read == ["one", "broken", "two"]
    assert {key for each in reports for key in each.loaded} == {"a", "c"}
    assert [each.failed for each in reports if each.failed] == [{"b": "q_proj has NaN"}]
    assert store.adapters.keys() == {"a", "c"}


def test_each_order_is_told_once(store: AdapterStore, files: Files) -> None:
    """One that is dropped while it is read has failed, also if it is wanted again."""
    store.load({"a": "one"})
    assert files.has_begun.wait(20.0)
    store.drop("a")
    store.load({"a": "again"})
    files.may_go_on.set()

    first, second = told(store, 2)

    assert first.failed == {"a": DROPPED}
    assert second.loaded.keys() == {"a"}
    assert store.reports() is None


def test_what_is_dropped_before_it_is_read_is_not_read(
    store: AdapterStore, files: Files
) -> None:
    """The thread passes it over."""
    store.load({"a": "one", "b": "two"})
    assert files.has_begun.wait(20.0)
    store.drop("b")
    files.may_go_on.set()

    told(store, 2)

    assert files.read == ["one"]

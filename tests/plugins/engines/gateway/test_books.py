"""Accounts that wait until no answer does."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from hookline.config import EngineConfig
from hookline.config.observers import ObserverConfig
from hookline.frontend.observation import Observers
from hookline_gateway.measuring.books import MOST_PUT_OFF, Books
from hookline_gateway.upstreams.instance import Instance


@pytest.fixture
def books() -> Books:
    """The accounts of one upstream, with no loggers."""
    config = EngineConfig(observers=ObserverConfig(stat_loggers=()))
    instance = Instance("upstream", "http://u:1")
    return Books([instance], Observers(config), config.observers)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.001)


async def test_accounts_are_made_a_little_later_in_order(books: Books) -> None:
    """None is made in the call that puts it off, and none is left out."""
    made = list[int]()
    for number in range(100):
        books.later(partial(made.append, number))
    assert made == []

    await until(lambda: len(made) == 100)

    assert made == list(range(100))


async def test_accounts_are_made_before_the_loggers_are_told(books: Books) -> None:
    """As before a page of metrics; and what follows waits as before."""
    made = list[int]()
    books.later(partial(made.append, 1))

    books.report_changes()

    assert made == [1]
    books.later(partial(made.append, 2))
    assert made == [1]
    await until(lambda: made == [1, 2])


async def test_number_of_accounts_that_wait_is_bounded(books: Books) -> None:
    """The first of too many is made at once."""
    made = list[int]()

    for number in range(MOST_PUT_OFF + 3):
        books.later(partial(made.append, number))

    assert made == [0, 1, 2]
    books.report_changes()
    assert made == list(range(MOST_PUT_OFF + 3))


async def test_fault_in_one_account_does_not_stop_the_others(books: Books) -> None:
    """It is the event loop that logs it."""
    faults, made = list[object](), list[int]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    books.later(partial(divmod, 1, 0))
    books.later(partial(made.append, 1))

    await until(lambda: made == [1])

    assert [type(each) for each in faults] == [ZeroDivisionError]

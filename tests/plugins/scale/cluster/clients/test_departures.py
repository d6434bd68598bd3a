"""An engine is ended only when no secondary client has anything open there."""

from hookline_cluster.clients.departures import Departures


def test_all_secondary_clients_are_awaited() -> None:
    """Each of them leaves for the wish that was told last."""
    departures = Departures()
    number = departures.expect(2, [1, 3])
    departures.left(2, 1, number)
    one_left = departures.are_complete(2)
    departures.left(2, 3, number)

    assert not one_left
    assert departures.are_complete(2)
    assert departures.has_begun(2)


def test_an_answer_to_an_earlier_wish_does_not_count() -> None:
    """The secondary client has come back meanwhile, and may have sent requests."""
    departures = Departures()
    earlier = departures.expect(2, [1])
    was_asked = departures.cancel(2)
    departures.expect(2, [1])
    departures.left(2, 1, earlier)

    assert was_asked
    assert not departures.cancel(5)
    assert not departures.are_complete(2)


def test_a_client_that_has_ended_is_awaited_until_the_engine_has_detached_it() -> None:
    """Before, its requests may run there; it need not leave by itself."""
    departures = Departures()
    number = departures.expect(2, [1, 3])
    departures.left(2, 3, number)
    departures.force_detached(1, [0, 2])
    before = departures.are_complete(2)
    departures.left(2, 1, None)

    assert not before
    assert departures.are_complete(2)
    assert not departures.are_complete(0)


def test_a_process_that_has_ended_confirms_nothing() -> None:
    """Neither does one that is forgotten."""
    departures = Departures()
    departures.force_detached(1, [0, 2])
    departures.process_ended(0)
    departures.expect(2, [3])
    departures.forget(2)

    assert departures.are_complete(0)
    assert departures.are_complete(2)
    assert not departures.has_begun(2)

"""What waits for the observer process is bounded, and what is dropped is counted."""

import threading

from hookline_observer.outbox import FRAME_BYTES, Outbox, Waiting


def test_drops_the_oldest_beyond_a_number() -> None:
    """
    A full outbox drops its oldest notices and counts them.
    """
    outbox = Outbox(3)

    for number in range(5):
        outbox.put(b"%d" % number, number)

    assert [each.notice for each in outbox.drain()] == [b"2", b"3", b"4"]
    assert outbox.dropped == 2


def test_drops_the_oldest_beyond_a_size() -> None:
    """
    Large notices push older ones out; a single one that is too large stays.
    """
    outbox = Outbox(100, max_bytes=10)

    outbox.put(b"a" * 6, 0)
    outbox.put(b"b" * 6, 0)
    outbox.put(b"c" * 40, 0)

    assert [each.notice[:1] for each in outbox.drain()] == [b"c"]
    assert outbox.dropped == 2


def test_what_was_not_sent_is_the_oldest_again() -> None:
    """
    Notices that are put back keep their order, and are dropped first.
    """
    outbox = Outbox(3)
    for number in range(3):
        outbox.put(b"%d" % number, number)
    taken = outbox.drain()
    outbox.put(b"3", 3)

    outbox.put_first(taken)

    assert outbox.drain() == [Waiting(b"%d" % number, number) for number in (1, 2, 3)]
    assert outbox.dropped == 1


def test_what_has_to_be_first_finds_room() -> None:
    """
    What is put before all else is not dropped: the oldest of the rest are.
    """
    outbox = Outbox(3)
    for number in range(3):
        outbox.put(b"%d" % number, number)

    outbox.put_before_all([Waiting(b"first", 9), Waiting(b"second", 9)])

    assert [each.notice for each in outbox.drain()] == [b"first", b"second", b"2"]
    assert outbox.dropped == 2


def test_a_frame_has_a_bounded_size() -> None:
    """
    What is taken at once exceeds the size of a frame by one notice at most.
    """
    outbox = Outbox(100)
    for _ in range(5):
        outbox.put(bytes(FRAME_BYTES // 2), 0)

    assert len(outbox.drain()) == 2
    assert len(outbox.drain()) == 2
    assert len(outbox.drain()) == 1
    assert outbox.drain() == []


def test_a_notice_ends_the_idle_wait() -> None:
    """
    A waiting thread wakes up when something is put in, long before its patience ends.
    """
    outbox = Outbox(100)
    thread = threading.Thread(target=outbox.wait, args=(600.0, 0.0))
    thread.start()

    outbox.put(b"a", 0)

    thread.join(30)
    assert not thread.is_alive()


def test_hurry_ends_every_wait() -> None:
    """
    A wish to flush ends lingering and pausing at once.
    """
    outbox = Outbox(100)
    outbox.put(b"a", 0)
    outbox.hurry()
    outbox.wait(600.0, 600.0)
    outbox.hurry()
    outbox.pause(600.0)

    assert [each.notice for each in outbox.drain()] == [b"a"]

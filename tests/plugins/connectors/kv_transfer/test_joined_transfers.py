"""KV transfers of several ranks, as the scheduler sees them."""

from hookline_kv_transfer.joined_transfers import JoinedTransfers
from hookline_kv_transfer.orders import EndedTransfer, TransferReport

NOTHING = TransferReport()


def ended(
    number: int, *, reason: str = "", blocks: int = 3, took: int = 5
) -> TransferReport:
    one = EndedTransfer(
        transfer_id=number, reason=reason, num_blocks=blocks, nanoseconds=took
    )
    return TransferReport(ended=[one])


def test_a_transfer_ends_once_it_has_on_all_ranks() -> None:
    """Until then its blocks are in use; it took as long as the slowest."""
    joined = JoinedTransfers(2)

    first = joined.join([ended(1, took=5), NOTHING])
    second = joined.join([NOTHING, ended(1, took=9)])

    assert not first.has_news
    assert second.ended == ended(1, took=9).ended


def test_a_transfer_fails_if_it_does_on_one_rank() -> None:
    """What all ranks have loaded is valid."""
    joined = JoinedTransfers(2)

    report = joined.join([ended(1), ended(1, reason="raised", blocks=1)])

    assert report.ended == ended(1, reason="raised", blocks=1).ended


def test_a_transfer_is_closed_once_it_is_on_all_ranks() -> None:
    """That it had ended on one of them no longer counts."""
    joined = JoinedTransfers(2)

    joined.join([ended(1), NOTHING])
    first = joined.join([TransferReport(closed=[1]), NOTHING])
    second = joined.join([NOTHING, TransferReport(closed=[1])])

    assert not first.has_news
    assert second.closed == [1]
    assert not second.ended
    assert joined.join([NOTHING, ended(1)]).ended == []


def test_counts_are_sums_over_ranks() -> None:
    """The payload is the first rank's."""
    parts = [
        TransferReport(
            failures={"load": {"raised": 1}},
            late_reports=1,
            loaded_bytes=10,
            saved_bytes=20,
            payload=b"first",
            read=[4],
        ),
        TransferReport(
            failures={"load": {"raised": 2, "hung": 1}, "save": {"raised": 1}},
            loaded_bytes=1,
            payload=b"second",
            read=[4, 5],
        ),
    ]

    report = JoinedTransfers(2).join(parts)

    assert report == TransferReport(
        ended=[],
        closed=[],
        failures={"load": {"raised": 3, "hung": 1}, "save": {"raised": 1}},
        late_reports=1,
        loaded_bytes=11,
        saved_bytes=20,
        payload=b"first",
        read=[4, 5],
    )

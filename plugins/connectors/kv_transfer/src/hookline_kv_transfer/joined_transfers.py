"""Joins what ranks report of KV transfers: each moves the blocks of its own heads."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hookline_kv_transfer.orders import EndedTransfer, Failures, TransferReport


class JoinedTransfers:
    """The transfers that some ranks, but not all, have ended or closed.

    A transfer has ended once it has on all ranks: its blocks are in use until then. It
    has failed if it has on one of them, and its leading blocks are valid as far as they
    are on all. Counts and bytes are sums over ranks; the payload is the first rank's.
    """

    def __init__(self, num_ranks: int) -> None:
        self._num_ranks = num_ranks
        self._ended: defaultdict[int, list[EndedTransfer]] = defaultdict(list)
        self._closed: defaultdict[int, int] = defaultdict(int)

    def join(self, reports: Sequence[TransferReport]) -> TransferReport:
        """Returns what all ranks together report of a step; `reports` are by rank."""
        ended, closed = [], []
        for report in reports:
            for each in report.ended:
                self._ended[each.transfer_id].append(each)
                if len(self._ended[each.transfer_id]) == self._num_ranks:
                    ended.append(_joined(self._ended.pop(each.transfer_id)))
            for transfer_id in report.closed:
                self._closed[transfer_id] += 1
                if self._closed[transfer_id] == self._num_ranks:
                    del self._closed[transfer_id]
                    self._ended.pop(transfer_id, None)  # on some, before it was closed
                    closed.append(transfer_id)
        return replace(
            reports[0],
            ended=ended,
            closed=closed,
            failures=_summed([each.failures for each in reports]),
            late_reports=sum(each.late_reports for each in reports),
            loaded_bytes=sum(each.loaded_bytes for each in reports),
            saved_bytes=sum(each.saved_bytes for each in reports),
            read=sorted({one for each in reports for one in each.read}),
        )


def _joined(parts: Sequence[EndedTransfer]) -> EndedTransfer:
    reasons = [each.reason for each in parts if each.reason]
    return EndedTransfer(
        transfer_id=parts[0].transfer_id,
        reason=reasons[0] if reasons else "",
        num_blocks=min(each.num_blocks for each in parts),
        nanoseconds=max(each.nanoseconds for each in parts),
    )


def _summed(parts: Sequence[Failures]) -> Failures:
    found: Failures = {}
    for part in parts:
        for stage, reasons in part.items():
            counts = found.setdefault(stage, {})
            for reason, count in reasons.items():
                counts[reason] = counts.get(reason, 0) + count
    return found

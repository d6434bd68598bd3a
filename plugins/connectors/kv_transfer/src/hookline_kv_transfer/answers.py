"""What a scheduler was told of transfers, kept for a recording; without any text."""

import msgspec

from hookline_kv_transfer.orders import TransferReport

FAILED = "failed"
"""Takes the place of the reason of a transfer's failure."""


class Lookup(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """How many tokens the connector offered a request."""

    request_id: int
    num_tokens: int = 0
    is_async: bool = False


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The connector did not take the blocks for a request."""

    request_id: int


class Ending(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Whether the connector keeps the blocks of a request that ended."""

    request_id: int
    keeps: bool = False


class Report(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """What the worker's side reported.

    Attributes:
        ended: (transfer, whether it failed, valid blocks) of those that ended.
        closed: Cancelled transfers whose blocks are closed.
        read: Transfers whose blocks were read.
    """

    ended: list[tuple[int, bool, int]] = []
    closed: list[int] = []
    read: list[int] = []


Answer = Lookup | Refusal | Ending | Report


class Answers:
    """Keeps answers until they are taken; of equal lookups, the first one.

    A request that does not fit is looked up again for each step that is planned.
    """

    def __init__(self) -> None:
        self._kept: list[Answer] = []
        self._lookups: dict[int, Lookup] = {}

    def add(self, answer: Answer) -> None:
        if isinstance(answer, Lookup):
            if self._lookups.get(answer.request_id) == answer:
                return
            self._lookups[answer.request_id] = answer
        self._kept.append(answer)

    def add_report(self, report: TransferReport) -> None:
        """Keeps a report that says anything."""
        if report.ended or report.closed or report.read:
            ended = [
                (each.transfer_id, bool(each.reason), each.num_blocks)
                for each in report.ended
            ]
            self.add(Report(ended, list(report.closed), list(report.read)))

    def take(self) -> list[Answer]:
        """Returns the answers since the last call."""
        kept, self._kept = self._kept, []
        self._lookups.clear()
        return kept

"""What the core tells its executor of transfers, and what it hears: plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hookline.kv_transfer.messages import ConnectorMetadata, Load

Failures = dict[str, dict[str, int]]
"""Counts by stage and reason."""


def by_stage(counts: Mapping[tuple[str, ...], int]) -> Failures:
    """Returns counts of (stage, reason), nested."""
    failures: Failures = {}
    for (stage, reason), count in counts.items():
        failures.setdefault(str(stage), {})[str(reason)] = count
    return failures


@dataclass(frozen=True, slots=True)
class Save:
    """Blocks of an ended request, kept until they are saved.

    Attributes:
        transfer_id: Its number.
        block_ids: Which.
    """

    transfer_id: int
    block_ids: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOrders:
    """Of one step.

    Attributes:
        metadata: Of the connector; None if it has none, or failed to make it.
        loads: That begin with the step.
        saves: Likewise.
        cancelled: Transfers that are given up: to be closed, and confirmed.
    """

    metadata: ConnectorMetadata | None = None
    loads: Sequence[Load] = ()
    saves: Sequence[Save] = ()
    cancelled: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransfer:
    """A transfer that is closed because it was reported, or failed.

    Attributes:
        transfer_id: Which.
        reason: Of its failure; empty if it succeeded.
        num_blocks: Of a load, blocks from its first that are filled rightly.
        nanoseconds: Since it began; of a synchronous load, what it held the step up.
    """

    transfer_id: int
    reason: str = ""
    num_blocks: int = 0
    nanoseconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """Of one step, or of a question between steps.

    Attributes:
        ended: Transfers that ended.
        closed: Of the cancelled ones, those that are closed now.
        failures: Of calls of the worker's side.
        late_reports: Reports of transfers that had ended, or were given up.
        loaded_bytes: Written to blocks.
        saved_bytes: Read from blocks.
        payload: Of the worker's side for the scheduler's; empty if there is none.
    """

    ended: Sequence[EndedTransfer] = ()
    closed: Sequence[int] = ()
    failures: Failures = field(default_factory=dict)
    late_reports: int = 0
    loaded_bytes: int = 0
    saved_bytes: int = 0
    payload: bytes = b""

    @property
    def has_news(self) -> bool:
        """Whether a transfer has ended; calls that fail can wait to be told."""
        return bool(self.ended or self.closed)

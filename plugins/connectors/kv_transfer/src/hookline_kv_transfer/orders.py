"""Transfer orders of the core and reports of the executor; plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hookline_kv_transfer.messages import ConnectorMetadata, Load

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
    """Blocks of a finished request, kept until they are saved.

    Attributes:
        transfer_id: Number of the transfer.
        block_ids: The blocks, in order.
    """

    transfer_id: int
    block_ids: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOrders:
    """Transfer orders of one step.

    Attributes:
        metadata: The connector's metadata; None without any, or if the call failed.
        loads: Loads that begin with the step.
        saves: Saves that begin with the step.
        cancelled: Transfers to close; the worker confirms them.
    """

    metadata: ConnectorMetadata | None = None
    loads: Sequence[Load] = ()
    saves: Sequence[Save] = ()
    cancelled: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTransfer:
    """A transfer that is closed because it was reported, or failed.

    Attributes:
        transfer_id: Number of the transfer.
        reason: Why it failed; empty if it succeeded.
        num_blocks: Number of leading blocks of a load that are valid.
        nanoseconds: Time since its start; for a synchronous load, the step's delay.
    """

    transfer_id: int
    reason: str = ""
    num_blocks: int = 0
    nanoseconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferReport:
    """The transfers of one step, or of a call between steps.

    Attributes:
        ended: Transfers that ended.
        closed: Cancelled transfers whose blocks are now closed.
        failures: Failed calls of the worker's side.
        late_reports: Number of reports of transfers that had ended before.
        loaded_bytes: Bytes written to blocks.
        saved_bytes: Bytes read from blocks.
        payload: Payload of the worker's side for the scheduler's; may be empty.
        read: Transfers whose blocks were read.
    """

    ended: Sequence[EndedTransfer] = ()
    closed: Sequence[int] = ()
    failures: Failures = field(default_factory=dict)
    late_reports: int = 0
    loaded_bytes: int = 0
    saved_bytes: int = 0
    payload: bytes = b""
    read: Sequence[int] = ()

    @property
    def has_news(self) -> bool:
        """Whether a transfer has ended or closed; failures alone can wait."""
        return bool(self.ended or self.closed)

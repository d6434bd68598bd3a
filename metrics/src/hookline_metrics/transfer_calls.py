"""What clients of an engine tell the extension `kv_transfer`, and its answers."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from hookline.config.extensions import KV_TRANSFER
from hookline.engine.commands import ResetPrefixCache, TellExtensions, Told
from hookline.sections import Section

DEVICE = "device"
"""The engine's own prefix cache, among the tiers of a reset."""


class TierReset(StrEnum):
    """What a reset of the prefix cache did to a tier."""

    RESET = "reset"
    KEPT = "kept"
    FAILED = "failed"


_WORST_LAST = tuple(TierReset)


class ResetTiers(msgspec.Struct, frozen=True, kw_only=True, tag="reset_tiers"):
    """Empties the tiers of the KV connector.

    Attributes:
        external: Which tiers: all if true, none if false; if None those that only this
            engine reads, and not what it shares with others.
    """

    external: bool | None = None


class ReleaseTransfer(msgspec.Struct, frozen=True, kw_only=True, tag="release"):
    """Frees what is kept for another engine, and what would be.

    Attributes:
        transfer_id: The `transfer_id` among the request's `kv_transfer_params`.
    """

    transfer_id: str


class TransferAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to either.

    Attributes:
        tiers: What was done to each tier of the connector.
        released_blocks: Number of blocks that are free, or are once the worker confirms
            that it reads them no more.
    """

    tiers: dict[str, TierReset] = {}
    released_blocks: int = 0


ANSWER = Section(KV_TRANSFER, TransferAnswer)


def read_call(section: object) -> ResetTiers | ReleaseTransfer:
    """Returns a call that may have come from another process.

    Raises:
        msgspec.ValidationError: It is neither.
    """
    if isinstance(section, ResetTiers | ReleaseTransfer):
        return section
    call: ResetTiers | ReleaseTransfer = msgspec.convert(
        section, ResetTiers | ReleaseTransfer
    )
    return call


def reset_command(
    *, reset_running_requests: bool, external: bool | None
) -> ResetPrefixCache:
    """Returns the command that empties the prefix cache and tiers below it."""
    return ResetPrefixCache(
        sections={KV_TRANSFER: ResetTiers(external=external)},
        reset_running_requests=reset_running_requests,
    )


def release_command(transfer_id: str) -> TellExtensions:
    """Returns the command that frees the blocks of a transfer."""
    call = ReleaseTransfer(transfer_id=transfer_id)
    return TellExtensions(sections={KV_TRANSFER: call})


def tiers_of(replies: Iterable[Told]) -> dict[str, TierReset]:
    """Returns what a reset did to each tier; of several engines the worst."""
    tiers = {DEVICE: TierReset.RESET}
    for reply in replies:
        answer = ANSWER.read(reply.sections) or TransferAnswer()
        for tier, outcome in answer.tiers.items():
            before = tiers.get(tier, TierReset.RESET)
            tiers[tier] = max(before, outcome, key=_WORST_LAST.index)
    return tiers


def released_blocks(replies: Iterable[Told]) -> int | None:
    """Returns how many blocks a release has freed; None without any KV connector."""
    answers = [ANSWER.read(reply.sections) for reply in replies]
    found = [each.released_blocks for each in answers if each is not None]
    return sum(found) if found else None

"""What the extension `drafting` tells of a step, in its section of the record."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from hookline.config.extensions import DRAFTING
from hookline.events import StepRecord
from hookline.frozen import EMPTY
from hookline.sections import Section

MAX_SPECULATIVE_TOKENS = 128
"""Largest number of draft tokens that a configuration may ask for."""


class FailureCause(StrEnum):
    """Causes of a proposer's failures, as labels of their metric."""

    RAISED = "raised"
    MALFORMED = "malformed"
    TOO_MANY = "too_many"
    OUT_OF_VOCABULARY = "out_of_vocabulary"
    SLOW = "slow"
    HUNG = "hung"


class DraftUse(msgspec.Struct, frozen=True, array_like=True):
    """What drafting for the next step took in one step.

    Attributes:
        draft_ns: Time in the proposer, part of the execution.
        most_drafts: Maximum draft tokens per request for the next step; 0 if
            speculation is off.
        proposer_failures: Failures of the proposer by cause.
    """

    draft_ns: int = 0
    most_drafts: int = 0
    proposer_failures: Mapping[str, int] = EMPTY


DRAFT_USE = Section(DRAFTING, DraftUse)
"""The section of records."""

_NO_USE = DraftUse()


def draft_use(record: StepRecord) -> DraftUse:
    """Returns what drafting took in a step; zeros without the extension."""
    if not record.sections:
        return _NO_USE
    return DRAFT_USE.read(record.sections) or _NO_USE

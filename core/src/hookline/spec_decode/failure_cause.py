"""Causes of a proposer's failures, as labels of their metric."""

from enum import StrEnum


class FailureCause(StrEnum):
    RAISED = "raised"
    MALFORMED = "malformed"
    TOO_MANY = "too_many"
    OUT_OF_VOCABULARY = "out_of_vocabulary"
    SLOW = "slow"
    HUNG = "hung"

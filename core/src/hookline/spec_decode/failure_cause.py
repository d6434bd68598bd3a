"""What can be wrong with a proposer, in the words of its metric."""

from enum import StrEnum


class FailureCause(StrEnum):
    RAISED = "raised"
    MALFORMED = "malformed"
    TOO_MANY = "too_many"
    OUT_OF_VOCABULARY = "out_of_vocabulary"
    SLOW = "slow"
    HUNG = "hung"

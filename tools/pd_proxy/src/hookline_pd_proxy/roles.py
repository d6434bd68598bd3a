"""The two kinds of instances."""

from enum import StrEnum


class Role(StrEnum):
    """The phase that an instance computes."""

    PREFILL = "prefill"
    DECODE = "decode"

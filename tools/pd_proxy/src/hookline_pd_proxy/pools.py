"""The two kinds of instances, and their pools."""

from enum import StrEnum
from typing import NamedTuple

from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.pool import Pool


class Role(StrEnum):
    """The phase that an instance computes."""

    PREFILL = "prefill"
    DECODE = "decode"


class Pools(NamedTuple):
    """The pools of both roles."""

    prefill: Pool
    decode: Pool

    @property
    def instances(self) -> tuple[Instance, ...]:
        return self.prefill.instances + self.decode.instances

"""The instances of both roles."""

from typing import NamedTuple

from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.pool import Pool


class Pools(NamedTuple):
    """The pools of both roles."""

    prefill: Pool
    decode: Pool

    @property
    def instances(self) -> tuple[Instance, ...]:
        return self.prefill.instances + self.decode.instances

"""The instances of one role, and which of them a request goes to."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from hookline_pd_proxy.instance import Instance

FULL = 0.95
"""With more of its KV cache in use an instance would soon preempt."""


class Pool:
    """Chooses the least loaded.

    That is the one with the fewest requests, running and waiting, of which all pools
    keep count: in decoding each costs every other a share of its speed, and in front
    of a prefill they stand in one queue. The KV cache counts where it is nearly full,
    and decides between equals. `hookline_saturation_ratio` is no measure for this: it
    is a mean over half a minute, and all requests of a burst would go to one place.

    Attributes:
        instances: All, also those that are down.
    """

    def __init__(self, instances: Sequence[Instance]) -> None:
        self.instances = tuple(instances)
        self._choices = 0

    @property
    def up(self) -> int:
        """How many are up."""
        return sum(each.is_up for each in self.instances)

    def has_other(self, than: Collection[Instance]) -> bool:
        """Whether any is up that is none of these."""
        return any(each.is_up and each not in than for each in self.instances)

    def choose(self, without: Collection[Instance] = ()) -> Instance | None:
        """The least loaded that is up and not excluded; equals take turns."""
        able = [each for each in self.instances if each.is_up and each not in without]
        if not able:
            return None
        chosen = min(able, key=_order)
        self._choices += 1
        chosen.chosen_at = self._choices
        return chosen


class Pools(NamedTuple):
    """Of both roles."""

    prefill: Pool
    decode: Pool

    @property
    def instances(self) -> tuple[Instance, ...]:
        return self.prefill.instances + self.decode.instances


def _order(instance: Instance) -> tuple[bool, float, float, int]:
    return (
        instance.kv_usage > FULL,
        instance.requests,
        round(instance.kv_usage, 2),
        instance.chosen_at,
    )

"""Instances that serve alike, and the choice among them."""

from collections.abc import Collection, Sequence
from operator import attrgetter

from hookline_gateway.upstreams.instance import Instance
from hookline_server.turns import Turns

FULL = 0.95
"""Fraction of the KV cache in use above which an instance would soon preempt."""


class Pool:
    """Chooses the least loaded instance, or each in turn.

    The least loaded one has the fewest running and waiting requests: decodes share an
    instance's speed, prefills its queue. The use of the KV cache counts if it is nearly
    full, and decides between equals. `hookline_saturation_ratio` is unsuitable: as a
    mean over half a minute it would send a whole burst to one instance.

    Attributes:
        instances: All instances, including those that are down.
        role: What they are for, a word before `instance`.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        role: str = "upstream",
        *,
        in_turn: bool = False,
    ) -> None:
        """Chooses the least loaded one, or each in turn."""
        self.role = role
        self._load = _no_load if in_turn else _load
        self.instances = tuple(instances)
        self._turns: Turns[Instance] = Turns()

    @property
    def up(self) -> int:
        """Number of instances that are up."""
        return sum(each.is_up for each in self.instances)

    @property
    def is_ready(self) -> bool:
        """Whether an instance is up that has answered since it was last down."""
        return any(each.is_seen for each in self.instances)

    @property
    def max_model_len(self) -> int | None:
        """Maximum tokens of a sequence of the largest one; None if not known of all."""
        known = [each.max_model_len for each in self.instances if each.is_up]
        lengths = [each for each in known if each is not None]
        return max(lengths) if lengths and len(lengths) == len(known) else None

    def last_resort(self, without: Collection[Instance] = ()) -> Instance | None:
        """Returns the instance that was found to be down first, or None.

        It may be back. Those whose health checks say that they are not ready come last.
        """
        down = (each for each in self.instances if not each.is_up)
        able = (each for each in down if each not in without)
        order = attrgetter("is_unready", "lost_at")
        return min(able, key=order, default=None)

    def has_other(self, than: Collection[Instance]) -> bool:
        """Returns whether an instance is up that is not excluded."""
        return any(each.is_up and each not in than for each in self.instances)

    def choose(self, without: Collection[Instance] = ()) -> Instance | None:
        """Returns the least loaded instance that is up and not excluded, or None.

        Equally loaded ones take turns.
        """
        able = [each for each in self.instances if each.is_up and each not in without]
        if not able:
            return None
        if len(able) == 1:
            return self._turns.chosen(able[0])
        return self._turns.least(able, self._load)


def _no_load(_: Instance) -> object:
    return 0


def _load(instance: Instance) -> tuple[bool, float, float]:
    return instance.kv_usage > FULL, instance.requests, round(instance.kv_usage, 2)

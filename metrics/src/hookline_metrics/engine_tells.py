"""What engines of a kind tell, as entry points of `hookline.engine_tells` say."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hookline.frozen import EMPTY
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import ENGINE_TELLS
from hookline.tells import Tells
from hookline_metrics.metric import Metric
from hookline_metrics.needs import needs_of
from hookline_registry import BrokenPluginError, installed


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTells:
    """What engines of a kind tell; each of `Tells` is in one of the three.

    Attributes:
        always: What all of them tell.
        sometimes: What some tell, and the condition: `its page of metrics has it`.
        never: What none tells, and the reason.
    """

    always: Collection[Tells] = ()
    sometimes: Mapping[Tells, str] = field(default_factory=lambda: EMPTY)
    never: Mapping[Tells, str] = field(default_factory=lambda: EMPTY)

    def why_absent(self, metric: Metric) -> str | None:
        """Returns why no such engine feeds a metric; None if some or all do."""
        needs = needs_of(metric)
        return next((self.never[each] for each in needs if each in self.never), None)

    def condition_of(self, metric: Metric) -> str | None:
        """Returns on what it depends whether a metric is fed; None if on nothing."""
        needs = needs_of(metric)
        found = [self.sometimes[each] for each in needs if each in self.sometimes]
        return ", and ".join(dict.fromkeys(found)) or None


def engine_names() -> Sequence[str]:
    """Returns the names of the engines that have declared what they tell."""
    return sorted({each.name for each in installed(ENGINE_TELLS.group)})


def declared_by(name: str) -> EngineTells:
    """Returns what a plugin declares.

    Raises:
        RegistryError: It is unknown, denied or broken, or declares something else.
    """
    declared = hook_of(ENGINE_TELLS, name)()
    if not isinstance(declared, EngineTells):
        kind = type(declared).__name__
        raise BrokenPluginError(name, f"it gives {kind}, not an EngineTells")
    return declared


NATIVE = EngineTells(
    always=[each for each in Tells if each is not Tells.COST],
    sometimes={Tells.COST: "the model's layers are of a known form"},
)
SIMULATED = EngineTells(
    always=NATIVE.always, never={Tells.COST: "nothing is computed, which costs nothing"}
)

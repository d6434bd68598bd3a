"""What extensions are told from outside of the engine, which a replay has to repeat."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:  # it is only read
    from hookline.engine.scheduler.scheduler import Scheduler


@runtime_checkable
class AnsweredSide(Protocol):
    """A scheduler's side whose decisions depend on answers from outside."""

    def keep_answers(self) -> None:
        """Keeps the answers from now on; each output takes them."""

    def take_answers(self) -> Sequence[object]:
        """Returns the answers since the last call, without texts."""

    def recorded_options(self) -> dict[str, object]:
        """Returns those of its options that it decides by, in plain data."""


def answered_sides(scheduler: "Scheduler | None") -> dict[str, AnsweredSide]:
    """Returns the sides of a scheduler that are answered, by their names."""
    if scheduler is None:
        return {}
    sides = scheduler.extensions.sides.items()
    return {name: side for name, side in sides if isinstance(side, AnsweredSide)}

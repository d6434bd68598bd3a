"""Calls the workers' sides of extensions, for the requests that they follow."""

from collections.abc import Sequence

from hookline.sections import Sections
from hookline.step.plan import AdmittedSequence
from hookline.worker.extension import RunnerParts, WorkerSide, WorkerStep
from hookline.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
)
from hookline.worker.shown_cache import ShownCache


class FollowedRows:
    """The sides of a worker, resolved once, and the rows that each of them follows.

    Attributes:
        starts: What to call when a step starts.
        ends: What to call when its layers are computed.
        states_option: The option for which a side needs hidden states; empty if none
            does.
        needs_states: Whether this step's hidden states are needed.
        is_active: Whether any side follows a request.
    """

    def __init__(self, sides: Sequence[WorkerSide]) -> None:
        self._sides = sides
        options = (side.states_option for side in sides if side.states_option)
        self.states_option = next(options, "")
        self.starts = tuple(
            side.started
            for side in sides
            if type(side).started is not WorkerSide.started
        )
        self.ends = tuple(
            side.ended for side in sides if type(side).ended is not WorkerSide.ended
        )
        self._joining = [
            side for side in sides if type(side).joined is not WorkerSide.joined
        ]
        self._rows: dict[WorkerSide, set[int]] = {}
        self.needs_states = self.is_active = False

    def __bool__(self) -> bool:
        return bool(self._sides)

    @property
    def uses_cache(self) -> bool:
        """Whether a side is shown the KV cache."""
        return any(side.uses_cache for side in self._sides)

    @property
    def graph_obstacle(self) -> str:
        """Why a side forbids CUDA graphs; empty if none does."""
        found = (side.graph_obstacle for side in self._sides if side.graph_obstacle)
        return next(found, "")

    def allocated(self, cache: ShownCache) -> None:
        """Shows the KV cache to the sides that use it.

        Raises:
            ConfigError: One cannot use it.
        """
        for side in self._sides:
            if side.uses_cache:
                side.allocated(cache)

    def describe(self) -> Sections:
        """Returns the sides' sections of the model's shape."""
        sections: dict[str, object] = {}
        for side in self._sides:
            side.describe(sections)
        return sections

    def logits_processors(
        self, context: LogitsProcessorContext
    ) -> list[LogitsProcessor]:
        """Returns the sides' logits processors."""
        making = [
            side.logits_processors
            for side in self._sides
            if type(side).logits_processors is not WorkerSide.logits_processors
        ]
        return [each for make in making for each in make(context)]

    def bind(self, parts: RunnerParts) -> None:
        for side in self._sides:
            side.bind(parts)

    def joined(self, row: int, sequence: AdmittedSequence) -> None:
        for side in self._joining:
            if side.joined(row, sequence):
                self._rows.setdefault(side, set()).add(row)
                self._count()

    def left(self, row: int) -> None:
        """A request has left its row; does nothing for one that nobody follows."""
        for side, rows in list(self._rows.items()):
            if row not in rows:
                continue
            side.left(row)
            rows.remove(row)
            if not rows:
                del self._rows[side]
            self._count()

    def computed(self, step: WorkerStep) -> None:
        for side in self._rows:
            side.computed(step)

    def sampled(self, step: WorkerStep) -> None:
        for side in self._rows:
            side.sampled(step)

    def close(self) -> None:
        for side in self._sides:
            side.close()

    def _count(self) -> None:
        self.is_active = bool(self._rows)
        self.needs_states = any(side.states_option for side in self._rows)

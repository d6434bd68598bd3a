"""Calls the workers' sides of extensions, for the requests that they follow."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from hookline.engine.worker.extension import (
    CacheShape,
    LoadedParts,
    OwnLayers,
    RunnerParts,
    ShownCache,
    WorkerSide,
    WorkerStep,
)
from hookline.engine.worker.input_batch import Int64
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
)
from hookline.engine.worker.sampling.sampler import DrawnDrafts
from hookline.engine.worker.verification import DraftTree
from hookline.sections import Sections
from hookline.step import AdmittedSequence

if TYPE_CHECKING:  # it is only called
    from hookline.startup_timer import StartupTimer


class FollowedRows:
    """The sides of a worker, resolved once, and the rows that each of them follows.

    Attributes:
        sides: The sides, in the order of their calls.
        starts: What to call when a step starts.
        allows_ahead: Whether these calls need no step to have ended.
        drawn: What to ask for drafts with probabilities; None without such drafts.
        ends: What to call when its layers are computed.
        states_option: The option for which a side needs hidden states; empty if none
            does.
        looks_inside: Whether a rank has to show hidden states in all steps.
        most_drafts: Maximum number of drafts of a request in a step.
        needs_states: Whether this step's hidden states are needed.
        is_active: Whether any side follows a request.
    """

    def __init__(self, sides: Sequence[WorkerSide] = ()) -> None:
        self.sides = sides
        options = (side.states_option for side in sides if side.states_option)
        self.states_option = next(options, "")
        self.looks_inside = any(side.looks_inside for side in sides)
        self.most_drafts = max((side.most_drafts for side in sides), default=0)
        base = WorkerSide
        self.starts = tuple(each.started for each in _having(sides, base.started))
        self.ends = tuple(each.ended for each in _having(sides, base.ended))
        called = [*_having(sides, base.started), *_having(sides, base.ended)]
        self.allows_ahead = all(side.allows_ahead for side in called)
        drawn = (each.drawn for each in _having(sides, base.drawn))
        self.drawn: Callable[[Int64], DrawnDrafts | None] | None = next(drawn, None)
        self._joining = _having(sides, base.joined)
        self._rows: dict[WorkerSide, set[int]] = {side: set() for side in sides}
        self._computed: list[Callable[[WorkerStep], None]] = []
        self._sampled: list[Callable[[WorkerStep], None]] = []
        self.needs_states = self.is_active = False

    def __bool__(self) -> bool:
        return bool(self.sides)

    # -- start and sleep ---------------------------------------------------------

    def prepare(self, parts: LoadedParts, timer: "StartupTimer") -> None:
        """Shows a loaded model to the sides that have to see it.

        Raises:
            ConfigError: A side does not fit it.
        """
        if seeing := _having(self.sides, WorkerSide.prepare):
            with timer.phase("prepare extensions"):
                for side in seeing:
                    side.prepare(parts)

    @property
    def feature_layers(self) -> tuple[int, ...]:
        """Layers of the model whose inputs a prepared side needs."""
        needed = (side.feature_layers for side in self.sides if side.feature_layers)
        return next(needed, ())

    @property
    def draft_tree(self) -> DraftTree | None:
        """The shape of drafts of a prepared side; None if they are chains."""
        trees = (side.draft_tree for side in self.sides)
        return next((tree for tree in trees if tree is not None), None)

    @property
    def own_layers(self) -> list[OwnLayers]:
        """Attention layers of prepared sides."""
        found = (side.own_layers for side in self.sides)
        return [each for each in found if each is not None]

    def allocate(self, shape: CacheShape) -> list[torch.Tensor]:
        """Allocates the memory of the sides' own layers, and returns all of it."""
        owners = [side for side in self.sides if side.own_layers is not None]
        return [tensor for side in owners for tensor in side.allocate(shape)]

    @property
    def uses_cache(self) -> bool:
        """Whether a side is shown the KV cache."""
        return any(side.uses_cache for side in self.sides)

    @property
    def keeps_forward(self) -> bool:
        """Whether a side must not see another forward pass or cache later."""
        return self.uses_cache or any(side.keeps_forward for side in self.sides)

    @property
    def graph_obstacle(self) -> str:
        """Why a side forbids CUDA graphs; empty if none does."""
        found = (side.graph_obstacle for side in self.sides if side.graph_obstacle)
        return next(found, "")

    def allocated(self, cache: ShownCache) -> None:
        """Shows the KV cache to the sides that use it.

        Raises:
            ConfigError: One cannot use it.
        """
        for side in self.sides:
            if side.uses_cache:
                side.allocated(cache)

    def describe(self) -> Sections:
        """Returns the sides' sections of the model's shape."""
        sections: dict[str, object] = {}
        for side in self.sides:
            side.describe(sections)
        return sections

    def logits_processors(
        self, context: LogitsProcessorContext
    ) -> list[LogitsProcessor]:
        """Returns the sides' logits processors."""
        return [each for side in self.sides for each in side.logits_processors(context)]

    def bind(self, parts: RunnerParts) -> None:
        """Tells all sides what steps will be computed with.

        Raises:
            ConfigError: A side cannot use its part of the KV cache.
        """
        for side in self.sides:
            side.bind(parts)

    def unload(self) -> None:
        for side in self.sides:
            side.unload()

    def close(self) -> None:
        for side in self.sides:
            side.close()

    # -- steps -------------------------------------------------------------------

    def joined(self, row: int, sequence: AdmittedSequence) -> None:
        for side in self._joining:
            if side.joined(row, sequence):
                self._rows[side].add(row)
                if len(self._rows[side]) == 1:
                    self._resolve()

    def left(self, row: int) -> None:
        """A request has left its row; does nothing for one that nobody follows."""
        for side, rows in self._rows.items():
            if row in rows:
                side.left(row)
                rows.remove(row)
                if not rows:
                    self._resolve()

    def computed(self, step: WorkerStep) -> None:
        for call in self._computed:
            call(step)

    def sampled(self, step: WorkerStep) -> None:
        for call in self._sampled:
            call(step)

    def _resolve(self) -> None:
        """Chooses the methods that the requests in the batch need, in order."""
        sides = [side for side, rows in self._rows.items() if rows]
        self.is_active = bool(sides)
        self.needs_states = any(side.states_option for side in sides)
        self._computed = [each.computed for each in _having(sides, WorkerSide.computed)]
        self._sampled = [each.sampled for each in _having(sides, WorkerSide.sampled)]


def _having(
    sides: Sequence[WorkerSide], method: Callable[..., object]
) -> list[WorkerSide]:
    """Returns the sides that have a method of their own in place of the base's."""
    name = method.__name__
    return [side for side in sides if getattr(type(side), name) is not method]

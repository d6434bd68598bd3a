"""Sections of plans and results of the extension `drafting`."""

from collections.abc import Sequence

import msgspec

from hookline.config.extensions import DRAFTING
from hookline.sections import Section
from hookline_metrics.drafts import DraftUse


class SlotMoves(msgspec.Struct, frozen=True, array_like=True):
    """Keys and values of accepted paths of trees that go to where chains have them.

    Attributes:
        sources: Slots to read, all before any is written.
        targets: Slots to write, as many.
    """

    sources: Sequence[int]
    targets: Sequence[int]


class DraftedStep(msgspec.Struct, frozen=True, array_like=True):
    """What a rank that drafts tells of a step.

    Attributes:
        use: What drafting took; None if the step was not to be followed by drafts.
        moves: What it has moved in its part of the KV cache, for other stages.
    """

    use: DraftUse | None = None
    moves: SlotMoves | None = None


class PlannedMoves(msgspec.Struct, frozen=True, array_like=True):
    """What the last stage has moved since the last plan, for the stages before it.

    Attributes:
        moves: In order; they come before anything else.
    """

    moves: Sequence[SlotMoves]


RESULT = Section(DRAFTING, DraftedStep)
PLAN = Section(DRAFTING, PlannedMoves)
